"""The native allocator on a small card."""

import limits  # noqa: F401
