"""Finds and opens recordings: levee's trace files, and samples of other allocators.

A samples file has one JSON object a line. The first is a header: ``{"samples": 1, "label": …}`` with,
optionally, ``program``, ``allocator``, ``workload``, ``device_name``, ``total_bytes`` and ``is_modelled``.
Each further one is a look at the allocator: ``t`` (seconds since the start, never decreasing), ``allocated``
and ``reserved`` (bytes), and optionally ``step`` (number of the step that ends here), ``reserved_peak`` and
``allocated_peak`` (the largest since the line before). Unknown keys are ignored.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Iterable

from levee.errors import LeveeError

TRACE_SUFFIX = ".levee"
SAMPLES_SUFFIXES = (".samples.jsonl", ".jsonl")
# A line of a samples file is some hundred bytes; what is far longer is no samples file.
_MAX_LINE = 1 << 20
_COLUMNS = ("reserved", "allocated", "reserved_peak", "allocated_peak")


def core() -> Any:
    """levee._core, or one sentence about why not."""
    try:
        from levee import _core
    except ImportError as error:
        raise LeveeError(
            f"This installation has no reader of recordings ({error}); reinstall levee with pip."
        ) from None
    return _core


def find(path: str | Path) -> list[Path]:
    """The recordings at a path: the file itself, or every trace in a folder, by name."""
    path = Path(path)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*" + TRACE_SUFFIX) if p.is_file())
        if not found:
            found = sorted(p for p in path.rglob("*" + SAMPLES_SUFFIXES[0]) if p.is_file())
        if not found:
            raise LeveeError(f"There is no recording (*{TRACE_SUFFIX}) in the folder {path}.")
        return found
    if not path.exists():
        raise LeveeError(f"There is no file or folder {path}.")
    return [path]


def check_is_file(path: Path) -> None:
    """One sentence where the path names no file that can be read anywhere in it, as all readers do.

    Before anything is opened: opening a pipe waits until somebody writes to it.
    """
    if not path.exists():
        raise LeveeError(f"There is no file {path}.")
    if path.is_dir():
        raise LeveeError(f"{path} is a folder; name one recording in it.")
    if not path.is_file():
        raise LeveeError(
            f"{path} is no file but a pipe or a device; write what comes from there to a file, and name that."
        )


def load(path: str | Path, *, keep_blocks: bool = False, activity: bool = True) -> Any:
    """Facts of one recording, as `levee._core.Facts`."""
    path = Path(path)
    check_is_file(path)
    if path.name.endswith(SAMPLES_SUFFIXES):
        return load_samples(path)
    facts = core().open_trace(os.fsencode(path), keep_blocks=keep_blocks, activity=activity)
    # A name of bytes that are no text is shown with marks in their place.
    facts.label = path.stem.encode(errors="replace").decode()
    return facts


def load_samples(path: str | Path) -> Any:
    """Facts of a samples file; every line is checked."""
    path = Path(path)
    header: dict[str, Any] | None = None
    columns: dict[str, list[int]] = {name: [] for name in ("time_ns", "step", *_COLUMNS)}

    def complain(number: int, what: str) -> LeveeError:
        return LeveeError(f"{path}, line {number}: {what}.")

    def size(line: dict[str, Any], number: int, name: str, needed: bool) -> int:
        value = line.get(name)
        if value is None and not needed:
            return 0
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise complain(number, f'"{name}" is not a number of bytes')
        if not math.isfinite(value) or not 0 <= value < 2**62:
            raise complain(number, f'"{name}" is out of range')
        return int(value)

    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(_lines(file, path), 1):
                if not text.strip():
                    continue
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    raise complain(number, "this is not a JSON object") from None
                if not isinstance(line, dict):
                    raise complain(number, "this is not a JSON object")
                if header is None:
                    if line.get("samples") != 1:
                        raise complain(number, 'the header {"samples": 1, …} is missing')
                    header = line
                    continue
                seconds = line.get("t")
                if (
                    isinstance(seconds, bool)
                    or not isinstance(seconds, (int, float))
                    or not math.isfinite(seconds)
                    or not 0 <= seconds < 1e9
                ):
                    raise complain(number, '"t" is not a time in seconds')
                time_ns = round(seconds * 1e9)
                if columns["time_ns"] and time_ns < columns["time_ns"][-1]:
                    raise complain(number, "time runs backwards")
                columns["time_ns"].append(time_ns)
                step = line.get("step")
                is_step = isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 2**62
                columns["step"].append(step if is_step else 2**64 - 1)  # type: ignore[arg-type]
                for name in _COLUMNS:
                    needed = name in ("reserved", "allocated")
                    columns[name].append(size(line, number, name, needed))
    except OSError as error:
        raise LeveeError(f"{path} cannot be read: {error.strerror or error}.") from None
    if header is None or not columns["time_ns"]:
        raise LeveeError(f"{path} holds no samples.")

    import numpy

    about: dict[str, Any] = {
        "label": _text(header, "label") or path.name.split(".")[0],
        "program": _text(header, "program")
        or " ".join(filter(None, (_text(header, "workload"), _text(header, "allocator")))),
        "device_name": _text(header, "device_name"),
        "is_modelled": header.get("is_modelled") is True,
    }
    total = header.get("total_bytes")
    if isinstance(total, int) and not isinstance(total, bool) and 0 <= total < 2**62:
        about["total_bytes"] = total
    arrays = {name: numpy.array(values, dtype="uint64") for name, values in columns.items()}
    return core().facts_from_samples(about, arrays)


def _text(header: dict[str, Any], name: str) -> str:
    value = header.get(name)
    return value if isinstance(value, str) else ""


def _lines(file: Any, path: Path) -> Iterable[str]:
    while True:
        line = file.readline(_MAX_LINE)
        if not line:
            return
        if len(line) >= _MAX_LINE:
            raise LeveeError(f"{path} is no samples file: a line is longer than {_MAX_LINE} bytes.")
        yield line


def report_of(facts: Any, max_emergencies: int = 10_000) -> dict[str, Any]:
    """The report as Python values; schema in allocator/export/README.md."""
    return json.loads(facts.report_json(max_emergencies=max_emergencies))
