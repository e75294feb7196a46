"""levee: a caching CUDA memory allocator for PyTorch.

    import levee
    levee.install()          # before the first CUDA call

or, with an unchanged script, ``levee run train.py``. ``levee --help`` lists what else there is.
Importing this package imports neither PyTorch nor anything compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levee.errors import LeveeError

if TYPE_CHECKING:
    from levee.installing import door, install, is_installed
    from levee.marks import kernels, mark_step, phase
    from levee.state import flush, stats, trace_path

__all__ = [
    "LeveeError",
    "__version__",
    "door",
    "flush",
    "install",
    "is_installed",
    "kernels",
    "mark_step",
    "phase",
    "stats",
    "trace_path",
]

# Where each public name lives. Loaded at first use: the start-up hook imports this package in every
# Python process that has LEVEE=1, and most of them never use PyTorch.
_HOMES = {
    "door": "levee.installing",
    "install": "levee.installing",
    "is_installed": "levee.installing",
    "kernels": "levee.marks",
    "mark_step": "levee.marks",
    "phase": "levee.marks",
    "flush": "levee.state",
    "stats": "levee.state",
    "trace_path": "levee.state",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name.startswith("_") and name != "__version__":
        # `from levee import _core` asks here before it imports the module of that name.
        raise AttributeError(f"module 'levee' has no attribute {name!r}")
    if name == "__version__":
        return importlib.import_module("levee._core").version()
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(importlib.import_module(home), name)
    else:
        # What the exporters and readers offer under this package (levee.timeline, ...).
        try:
            from levee import _seeing
        except ImportError:
            raise AttributeError(f"module 'levee' has no attribute {name!r}") from None
        value = getattr(_seeing, name, None)
        if value is None:
            raise AttributeError(f"module 'levee' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
