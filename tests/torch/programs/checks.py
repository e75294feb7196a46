"""Runs the check_* functions of a program, one after the other, and prints each outcome as JSON."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import traceback
from typing import Any, Callable


class Skip(Exception):
    """Why a check cannot be made here."""


class Judge:
    """What the simulated GPU saw done that a real one would not forgive; sees nothing elsewhere."""

    def __init__(self) -> None:
        process = ctypes.CDLL(None)
        self._count = getattr(process, "simgpu_violation_count", lambda: 0)
        self._text = getattr(process, "simgpu_violation_text", None)
        if self._text is not None:
            self._count.restype = ctypes.c_uint64
            self._text.restype = ctypes.c_char_p
            self._text.argtypes = [ctypes.c_uint64]
        self._seen = self._count()

    def new_violations(self) -> list[str]:
        first, self._seen = self._seen, self._count()
        return [self._text(number).decode() for number in range(first, self._seen)]


def run_all(namespace: dict[str, Any]) -> None:
    """Every check starts with nothing allocated by the one before it. Arguments: names of checks."""
    import torch

    outcomes = {}
    judge = Judge()
    checks: list[tuple[str, Callable[[], None]]] = [
        (name[len("check_") :], function)
        for name, function in namespace.items()
        if name.startswith("check_")
    ]
    if sys.argv[1:]:
        checks = [(name, check) for name, check in checks if name in sys.argv[1:]]
    for name, check in checks:
        try:
            check()
            torch.cuda.synchronize()
            violations = judge.new_violations()
            outcomes[name] = "ok" if not violations else "hazards:\n" + "\n".join(violations)
        except Skip as skip:
            outcomes[name] = f"skip: {skip}"
        except Exception:
            outcomes[name] = traceback.format_exc()
        gc.collect()
        torch.cuda.empty_cache()
    print(json.dumps(outcomes))


def raises(kind: type[BaseException], call: Callable[[], Any]) -> BaseException:
    """The exception that `call` must raise."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")
