"""What levee knows about this process: counters, the recording."""

from __future__ import annotations

import json

from levee.errors import LeveeError


def stats(device: int | None = None) -> dict[str, int]:
    """Every counter of a device, levee's own included, by name.

    The names are those of ``torch.cuda.memory_stats()`` where both have the counter. Works through
    both doors. ``device``: an index; the current one if left out.
    """
    from levee import installing

    if not installing.is_installed():
        raise LeveeError("levee is not installed in this process; call levee.install() first.")
    from levee import _core

    if device is None:
        import torch

        device = torch.cuda.current_device()
    counters: dict[str, int] = json.loads(_core.stats_json(device))
    return counters


def trace_path() -> str | None:
    """The file that this process records into; None while nothing is recorded."""
    from levee import installing

    if not installing.is_installed():
        return None
    from levee import _core

    return _core.trace_path() or None


def flush() -> None:
    """Everything recorded so far is in the file when this returns."""
    from levee import installing

    if installing.is_installed():
        from levee import _core

        _core.flush()
