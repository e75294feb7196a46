"""levee.install(): puts levee in as PyTorch's CUDA allocator, by the best door that fits."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import tempfile
from pathlib import Path
from typing import Any

from levee import settings
from levee.errors import LeveeError, say

_door: str | None = None
_keep_alive: list[Any] = []

_STARTED = (
    "CUDA has already started in this process, and PyTorch lets its allocator be changed only before "
    "that: call levee.install() right after `import torch`, or use `levee run`."
)


def is_installed() -> bool:
    """Whether levee serves this process's CUDA memory."""
    return _door is not None


def door() -> str | None:
    """ "torch" (the main door), "plain" (two C functions), or None while levee is not installed."""
    return _door


def install(**options: Any) -> str | None:
    """Makes levee PyTorch's CUDA allocator. To be called before the first CUDA call.

    Options are those of ``levee env``; each may also be set by its LEVEE_* variable, and what is
    given here wins. A second call is harmless. Returns the door that was taken: "torch" with
    everything that PyTorch offers, "plain" where levee was not built for this PyTorch; None under
    LEVEE_DISABLE=1. Raises LeveeError with one sentence where levee cannot be installed.
    """
    global _door
    if settings.is_disabled():
        say("LEVEE_DISABLE is set: PyTorch's own allocator is used.")
        return None
    core = _load_core()
    library_names = [option["name"] for option in core.options()]
    settings.check_names(options, library_names)
    chosen = settings.python_settings(options)
    if _door is not None:
        _say_what_came_too_late(core, options, library_names)
        return _door
    _apply(core, options, library_names)
    torch = _import_torch()
    _check_process(torch)
    _check_trace_place(core)
    core.start()
    if _fitting_door(torch, chosen["door"]) == "torch":
        _enter_main_door()
        entered = "torch"
    else:
        _enter_plain_door(torch)
        entered = "plain"
    _door = entered
    _notice_another_allocator(torch)
    _start_marks(core, chosen)
    atexit.register(_flush_at_exit, core)
    _announce(torch, entered)
    return entered


# ---- Settings ------------------------------------------------------------------------------------


def _load_core() -> Any:
    try:
        from levee import _core
    except ImportError as error:
        raise LeveeError(
            f"levee's compiled part cannot be loaded ({error}): install levee again with "
            "`pip install --no-build-isolation .` in this environment."
        ) from None
    return _core


def _apply(core: Any, options: dict[str, Any], library_names: list[str]) -> None:
    problems = core.environment_problems()
    if problems:
        raise LeveeError(problems.splitlines()[0])
    for stranger in core.environment_strangers().splitlines():
        say(stranger)
    for name, value in options.items():
        if name in library_names:
            core.set_option(name, settings.as_text(value))


def _say_what_came_too_late(core: Any, options: dict[str, Any], library_names: list[str]) -> None:
    late = [
        name
        for name, value in options.items()
        if name in library_names and core.get_option(name) != settings.as_text(value)
    ]
    if late:
        say(f"already installed; {', '.join(late)} cannot be changed any more.")


def _check_trace_place(core: Any) -> None:
    """Says at the start, and not at the first allocation, that there can be no recording where somebody wants it."""
    wanted = core.get_option("trace")
    if not wanted or core.get_option("record") in ("", "0", "false"):
        return
    if os.path.exists(wanted) and not os.path.isdir(wanted) and not os.path.isfile(wanted):
        # As the recorder has it.
        core.set_option("record", "0")
        say(
            f"recording is off: {wanted} is a device, a pipe or a socket, and a recording needs a file. The program "
            "goes on; set LEVEE_TRACE to a place that can be written, or LEVEE_RECORD=0 to record nothing."
        )
        return
    folder = wanted if wanted.endswith("/") or os.path.isdir(wanted) else os.path.dirname(wanted)
    if "%" in folder:
        return  # only the recorder knows what it stands for
    folder = folder or "."
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        core.set_option("record", "0")
        say(
            f"recording is off: nothing can be written in {folder}: {error.strerror}. The program goes on; "
            "set LEVEE_TRACE to a place that can be written."
        )


# ---- The process ---------------------------------------------------------------------------------


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise LeveeError(
            f"levee needs PyTorch, and this Python cannot import it ({error})."
        ) from None
    if torch.version.cuda is None:
        raise LeveeError(
            f"this PyTorch ({torch.__version__}) is built without CUDA: there is nothing for levee to do."
        )
    return torch


def _check_process(torch: Any) -> None:
    if torch.cuda.is_initialized() or torch.cuda._is_in_bad_fork():
        raise LeveeError(_STARTED)
    if torch.cuda.memory._get_current_allocator().allocator() is not None:
        raise LeveeError(
            "another allocator was put in before levee (torch.cuda.memory.change_current_allocator): "
            "only one can be used in a process."
        )
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise LeveeError(
            "no CUDA driver was found on this machine (libcuda.so.1 is missing); to try levee without "
            "a GPU, start the program with `levee sim --`."
        ) from None


# ---- Doors ---------------------------------------------------------------------------------------


def _fitting_door(torch: Any, wanted: str) -> str:
    """Which door to take; says why where it is not the main one although that was possible to want."""
    if wanted == "plain":
        return "plain"
    built_for = built_for_torch()
    running = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    if built_for == running:
        return "torch"
    reason = (
        f"levee's main door was built for PyTorch {built_for}, and this is {running}"
        if built_for
        else "levee was built without PyTorch"
    )
    rebuild = "install levee again with `pip install --no-build-isolation` in this environment"
    if wanted == "torch":
        raise LeveeError(f"{reason}: {rebuild}.")
    if not plain_door_path().exists():
        raise LeveeError(f"{reason}, and the plain door is missing as well: {rebuild}.")
    say(
        f"{reason}; using the plain door (no memory statistics, snapshots, MemPool or graph trees of "
        f"PyTorch): {rebuild} to get the main one."
    )
    return "plain"


def built_for_torch() -> str:
    """ "2.14": the PyTorch that the main door was compiled for; "" if there is no main door."""
    try:
        from levee import _build
    except ImportError:
        return ""
    return str(_build.TORCH_VERSION)


def plain_door_path() -> Path:
    return Path(__file__).with_name("liblevee_torch.so")


def _enter_main_door() -> None:
    try:
        from levee import _torch
    except ImportError as error:
        raise LeveeError(
            f"levee's main door cannot be loaded ({error}): install levee again with "
            "`pip install --no-build-isolation` in this environment."
        ) from None
    try:
        _torch.install()
    except ValueError as error:  # PyTorch reads its own settings at its allocator's first use
        raise LeveeError(
            f"PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF) cannot be used: {str(error).splitlines()[0]}"
        ) from None
    except RuntimeError as error:
        raise LeveeError(_STARTED if "initialized" in str(error) else str(error)) from None
    if settings.is_caching_off():
        _torch.set_caching(False)
        say("PYTORCH_NO_CUDA_MEMORY_CACHING is set: every request goes to cudaMalloc.")


# The setters of torch.cuda.memory.CUDAPluggableAllocator and the functions that serve them.
_PLAIN_SETTERS = {
    "set_init_fn": "levee_torch_init",
    "set_reset_fn": "levee_torch_reset",
    "set_memory_fraction_fn": "levee_torch_memory_fraction",
    "set_base_alloc_fn": "levee_torch_base_alloc",
    "set_record_stream_fn": "levee_torch_record_stream",
    "set_begin_allocate_to_pool": "levee_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "levee_torch_end_allocate_to_pool",
    "set_release_pool": "levee_torch_release_pool",
}


def _enter_plain_door(torch: Any) -> None:
    path = plain_door_path()
    try:
        library = ctypes.CDLL(str(path))
        pluggable = torch.cuda.memory.CUDAPluggableAllocator(
            str(path), "levee_torch_alloc", "levee_torch_free"
        )
    except OSError as error:
        raise LeveeError(f"levee's plain door cannot be loaded ({error}).") from None
    running = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    library.levee_torch_set_typed_errors(int(built_for_torch() == running))
    inner = pluggable.allocator()
    for setter, function in _PLAIN_SETTERS.items():
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
        getattr(inner, setter)(address)
    try:
        torch.cuda.memory.change_current_allocator(pluggable)
    except RuntimeError:
        raise LeveeError(_STARTED) from None
    _keep_alive.extend((library, pluggable))
    if settings.is_caching_off():
        say("PYTORCH_NO_CUDA_MEMORY_CACHING has no meaning through the plain door.")


# ---- Afterwards ----------------------------------------------------------------------------------


def _start_marks(core: Any, chosen: dict[str, Any]) -> None:
    from levee import marks

    marks.attach(core, chosen["steps"])
    if chosen["phases"] and _door == "torch":
        from levee import _torch

        _torch.observe_phases()
    if chosen["kernels"]:
        marks.start_kernels()


def _notice_another_allocator(torch: Any) -> None:
    """PyTorch lets a program put its own allocator in levee's place, until the first tensor; that is said."""
    original = torch.cuda.memory.change_current_allocator

    @functools.wraps(original)
    def change_current_allocator(allocator: Any) -> None:
        global _door
        original(allocator)
        _door = None
        say(
            "the program has put another allocator in (torch.cuda.memory.change_current_allocator): levee serves none "
            "of its CUDA memory."
        )

    for module in (torch.cuda.memory, torch.cuda):
        if getattr(module, "change_current_allocator", None) is original:
            module.change_current_allocator = change_current_allocator


def _flush_at_exit(core: Any) -> None:
    try:
        core.flush()
    except LeveeError:
        pass  # a recorder that cannot write has already said so


def _announce(torch: Any, entered: str) -> None:
    without_meaning = settings.torch_settings_without_meaning()
    if without_meaning:
        say(without_meaning)
    # Worker processes of a program that has already announced itself stay quiet.
    import multiprocessing

    if multiprocessing.parent_process() is None and not settings.is_on(
        os.environ.get("LEVEE_QUIET")
    ):
        which = "main" if entered == "torch" else "plain"
        say(f"serves the CUDA memory of PyTorch {torch.__version__} ({which} door).")
