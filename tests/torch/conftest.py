"""Hooks and fixtures of `under_levee`.

They live in a module of their own name, since tests import from it and other folders have a conftest too.
"""

from under_levee import *  # noqa: F401,F403
