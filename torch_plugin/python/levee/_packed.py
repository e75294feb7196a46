"""Opens a file for readers that want all its bytes: mapped as it is, or unpacked from .gz or .xz.

Promises: a packed file that is cut off, damaged or not what its name says is one sentence; a small file that unpacks to
a huge one is refused before it fills memory.
"""

from __future__ import annotations

import gzip
import lzma
import mmap
import zlib
from pathlib import Path
from typing import Any

from levee._recordings import check_is_file
from levee.errors import LeveeError

_CHUNK = 1 << 22
# Text of one event after the other packs well, but not like this; and what is small may always unpack.
_MAX_RATIO = 300
_SMALL = 1 << 28


def contents(path: str | Path) -> Any:
    """The bytes of a file, as a buffer."""
    path = Path(path)
    check_is_file(path)
    try:
        with path.open("rb") as file:
            head = file.read(6)
            if head[:2] == b"\x1f\x8b":
                return _unpacked(path, gzip.open(path, "rb"))
            if head == b"\xfd7zXZ\x00":
                return _unpacked(path, lzma.open(path, "rb"))
            if not head:
                raise LeveeError(f"{path} is empty.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise LeveeError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or error
        raise LeveeError(f"{path} cannot be read: {what}.") from None


def _unpacked(path: Path, source: Any) -> bytearray:
    most = max(_SMALL, _MAX_RATIO * path.stat().st_size)
    out = bytearray()
    with source:
        try:
            while chunk := source.read(_CHUNK):
                out += chunk
                if len(out) > most:
                    raise LeveeError(
                        f"{path} unpacks to more than {most >> 20:,} MiB, which no recording of its size does."
                    )
        except EOFError:
            raise LeveeError(
                f"{path} is cut off: unpacking it ends in the middle after {len(out):,} bytes."
            ) from None
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise LeveeError(f"{path} is damaged and cannot be unpacked ({error}).") from None
    return out
