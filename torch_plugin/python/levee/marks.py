"""Marks that a program sets in levee's record: phases, steps, and where kernels are timed."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from levee.errors import say

# Set by installing.py once levee runs: levee._core, or None. Marks cost one test until then.
_core: Any = None
_marks_by_hand = False


class phase(
    contextlib.ContextDecorator
):  # noqa: N801 - reads as a statement: with levee.phase("x")
    """A named span of the program: ``with levee.phase("validation"):`` or ``@levee.phase("load")``.

    Phases of a thread nest. They appear in reports, timelines and out-of-memory analyses. Without
    levee installed they do nothing.
    """

    __slots__ = ("name", "_pushed")

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self._pushed: list[bool] = []

    def _recreate_cm(self) -> "phase":
        return phase(self.name)

    def __enter__(self) -> "phase":
        recording = _core is not None
        if recording:
            _core.push_phase(self.name)
        self._pushed.append(recording)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pushed.pop():
            _core.pop_phase()


def mark_step() -> None:
    """A new training step, or request, begins. From the first call on, optimizer steps no longer count."""
    global _marks_by_hand
    _marks_by_hand = True
    if _core is not None:
        _core.mark_step()


@contextlib.contextmanager
def kernels() -> Iterator[None]:
    """Records kernel, copy and memset times inside the ``with`` block.

    Says so in one sentence, and records none, where they cannot be had: no CUPTI, or another profiler
    uses it.
    """
    started = start_kernels()
    try:
        yield
    finally:
        if started:
            _core.stop_kernels()


def start_kernels() -> bool:
    """Starts the timing of kernels; False, with one sentence said, where that is not possible."""
    from levee.errors import LeveeError

    if _core is None:
        return False
    try:
        _core.start_kernels()
    except LeveeError as error:
        say(str(error))
        return False
    return True


def _after_optimizer_step(*_: object) -> None:
    import torch

    # While torch.compile traces an optimizer this reads as "true" and ends here, so that no graph
    # is broken for it.
    if torch.compiler.is_compiling() or _marks_by_hand:
        return
    _core.end_step()


def attach(core: Any, steps: bool) -> None:
    """Called by install(): marks go to the record from now on."""
    global _core
    _core = core
    if steps:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(_after_optimizer_step)
