"""Hooks and fixtures of `on_simgpu`. They live in a module of their own name, since tests import from it and
other folders have a
conftest too."""

from on_simgpu import *  # noqa: F401,F403
