"""What levee raises, and how it speaks to the person at the terminal."""

from __future__ import annotations

import contextlib
import os
import sys


class LeveeError(RuntimeError):
    """Something that levee cannot do, as one sentence that says what to do about it."""


_said: set[str] = set()


def say(sentence: str) -> None:
    """Prints a line about levee, once; under a launcher only the first process of a machine speaks.

    A sentence may hold names of the user's files and values of the environment: nothing of them commands the terminal.
    """
    if sentence in _said or os.environ.get("LOCAL_RANK", "0") != "0":
        return
    _said.add(sentence)
    # Not above: the start-up hook imports this module in every Python process, and few ever say anything.
    from levee._format import printable

    # Whoever cannot be told must not be harmed by it either.
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"levee: {printable(sentence)}", file=sys.stderr, flush=True)
