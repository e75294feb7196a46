"""Writes results so that a file appears complete or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from levee.errors import LeveeError


def write_whole(path: str | Path, content: bytes) -> Path:
    """Puts `content` under a temporary name beside `path`, then renames it."""
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise LeveeError(f"Cannot write {path}: {error.strerror or error}.") from None
    return path


def make_folder(path: Path) -> None:
    """The folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LeveeError(f"Cannot make the folder {path}: {error.strerror or error}.") from None
