"""Fixtures that tests of several folders share."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any, Callable

import pytest


def pytest_configure() -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, and every process inherits that. Tests that send it
    # would wait.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def levee() -> Callable[..., tuple[int, str, str]]:
    """levee(*arguments): the command, in a process of its own. Returns (exit code, stdout, stderr)."""

    def run(*arguments: Any, timeout: int = 120) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "levee", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return done.returncode, done.stdout, done.stderr

    return run
