"""Fixtures of `replaying`.

They live in a module of their own name, since tests import from it and other folders have a conftest too.
"""

from replaying import *  # noqa: F401,F403
