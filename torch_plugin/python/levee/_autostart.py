"""The start-up hook behind LEVEE=1 and ``levee run``: installs levee once PyTorch has been imported.

Python imports this at start-up through levee.pth, in processes with LEVEE set and in no others. It
puts one finder in front of the import system, which waits for ``torch`` and then leaves.
"""

from __future__ import annotations

import os
import sys
from typing import Any

# Set by `levee run`: what stands in levee's way ends the program, instead of leaving it to PyTorch's
# own allocator.
strict = False
# The variable by which `levee run` says so to the Python that it becomes: the number of that process.
STRICT = "LEVEE_RUN_PROCESS"


class _TorchFinder:
    """Wraps the loading of ``torch``. Looking for it without importing it changes nothing."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or self._looking:
            return None
        import importlib.util

        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def _wrap(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            # The instance's own attribute covers the class's method; without it the loader is as it was.
            del loader.exec_module
            execute(module)
            remove()
            after_torch()

        loader.exec_module = exec_module


def add() -> None:
    """Waits for PyTorch, unless it is there already or levee is switched off."""
    from levee import settings

    if settings.is_disabled():
        return
    if "torch" in sys.modules:
        after_torch()
    elif not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())


def remove() -> None:
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _TorchFinder)]


def after_torch() -> None:
    from levee.errors import LeveeError, say
    from levee.installing import install

    try:
        install()
    except LeveeError as error:
        if strict or "cannot be used" in str(error):
            # A setting that means nothing ends the program in both cases: whoever set it wants it.
            print(f"levee: {error}", file=sys.stderr, flush=True)
            raise SystemExit(2) from None
        say(f"not installed: {error}")


# Programs that import PyTorch and never touch the GPU themselves: launchers, helpers of the compiler.
_WITHOUT_GPU = ("torchrun", "torch.distributed.run", "accelerate", "_inductor/compile_worker")


def _program() -> str:
    """The script or module that this Python runs: neither an option of Python's nor an argument of the program's."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word in ("-W", "-X"):
            next(words, "")
        elif word == "-" or not word.startswith("-"):
            return word
    return ""


def start() -> None:
    """What levee.pth calls."""
    global strict
    from levee import settings

    strict = os.environ.pop(STRICT, "") == str(os.getpid())

    program = _program()
    if program.endswith(_WITHOUT_GPU[:3]) or _WITHOUT_GPU[3] in program:
        return
    if settings.is_wanted():
        add()


if os.environ.get("LEVEE"):
    start()
