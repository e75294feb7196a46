"""Recordings in the formats of other tools."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable

from levee import _format as fmt
from levee import _recordings
from levee._writing import make_folder
from levee.errors import LeveeError

# What `levee export --to` and `levee.export` know, with what each is for.
FORMATS = {
    "tensorboard": "a folder for TensorBoard: the Levee tab, and scalars that need no plugin",
    "html": "the interactive timeline as one file",
    "chrome": "Chrome's trace format as PyTorch's profiler writes it (.json or .json.gz)",
    "perfetto": "Perfetto's own format (.pftrace), for ui.perfetto.dev",
    "memory_viz": "a memory snapshot (.pickle) for torch.cuda._memory_viz and pytorch.org/memory_viz",
    "parquet": "a folder of Parquet tables with a stable schema",
}
_SUFFIX = {
    "tensorboard": ".tensorboard",
    "html": ".html",
    "chrome": ".json.gz",
    "perfetto": ".pftrace",
    "memory_viz": ".pickle",
    "parquet": ".parquet",
}
# Names under which an existing file is taken for an earlier export, which a new one may replace.
_REPLACED = {
    "html": (".html", ".htm"),
    "chrome": (".json", ".json.gz"),
    "perfetto": (".pftrace", ".perfetto-trace"),
    "memory_viz": (".pickle", ".pkl"),
}
# Most events the memory view of torch_tb_profiler draws without dropping some.
_TB_PROFILER_EVENTS = 5_000


def export(
    recording: str | Path, to: str, out: str | Path | None = None, **options: Any
) -> list[Path]:
    """Writes a recording in another format; returns what was written.

    `to` is one of FORMATS. `out` is a file, or a folder for tensorboard and parquet; by default the recording's name
    with the format's suffix. An existing file is replaced only if its name ends as the format's do.
    """
    if to not in FORMATS:
        raise LeveeError(f'There is no format "{to}"; choose one of {", ".join(FORMATS)}.')
    recording = Path(recording)
    if out is None:
        name = recording.name
        for suffix in (*_recordings.SAMPLES_SUFFIXES, _recordings.TRACE_SUFFIX):
            name = name[: -len(suffix)] if name.endswith(suffix) else name
        out = recording.with_name(name + _SUFFIX[to])
    out = Path(out)
    _spare_other_files(out, _REPLACED.get(to, ()))
    needs_blocks = to in ("chrome", "memory_viz", "parquet") or (
        to == "tensorboard" and options.get("profiler", False)
    )
    facts = _recordings.load(recording, keep_blocks=needs_blocks)
    if facts.is_sampled and needs_blocks:
        raise LeveeError(
            f"{recording} holds samples, not events; {to} needs a trace. tensorboard and html take samples."
        )
    writers: dict[str, Callable[..., list[Path]]] = {
        "tensorboard": _tensorboard,
        "html": _html,
        "chrome": _chrome,
        "perfetto": _perfetto,
        "memory_viz": _memory_viz,
        "parquet": _parquet,
    }
    return writers[to](facts, recording, out, **options)


def _spare_other_files(out: Path, suffixes: tuple[str, ...]) -> None:
    """An option too few, and `-o` is followed by the user's script: it must not be lost."""
    if suffixes and out.is_file() and not out.name.endswith(suffixes):
        raise LeveeError(
            f"{out} exists and is no earlier export by its name; choose another one, ending in {suffixes[0]}."
        )


def _file(out: Path) -> None:
    if out.is_dir():
        raise LeveeError(f"Cannot write {out}: it is a folder.")


def _tensorboard(facts: Any, recording: Path, out: Path, profiler: bool = False) -> list[Path]:
    make_folder(out)
    # A second export replaces the first: TensorBoard would draw both event files as one zigzag line.
    for old in out.glob("events.out.tfevents.*") if out.is_dir() else ():
        old.unlink()
    written = [Path(facts.write_scalars(os.fsencode(out)))]
    folder = out / "levee_view"
    facts.write_view(os.fsencode(folder), facts.label)
    written += [folder / "view.json", folder / "view.bin"]
    if profiler:
        host = "".join(c if c.isalnum() else "_" for c in facts.host) or "host"
        name = f"{host}_{facts.pid}.{facts.start_unix_ns}.pt.trace.json.gz"
        written += map(
            Path,
            facts.write_chrome(
                str(out / name),
                for_tensorboard=True,
                max_memory_events=_TB_PROFILER_EVENTS,
                max_part_bytes=0,
            ),
        )
    return written


def _html(facts: Any, recording: Path, out: Path, detail: bool = False) -> list[Path]:
    from levee import _timeline

    return [_timeline.write_page(facts, out, detail=detail)]


def _chrome(facts: Any, recording: Path, out: Path, max_part_bytes: int = 100 << 20) -> list[Path]:
    _file(out)
    gzip = out.name.endswith(".gz")
    return [
        Path(p)
        for p in facts.write_chrome(os.fsencode(out), gzip=gzip, max_part_bytes=max_part_bytes)
    ]


def _perfetto(facts: Any, recording: Path, out: Path) -> list[Path]:
    _file(out)
    facts.write_perfetto(os.fsencode(out))
    return [out]


def _memory_viz(
    facts: Any,
    recording: Path,
    out: Path,
    max_entries: int = 1_000_000,
    tell: Callable[[str], None] | None = None,
) -> list[Path]:
    _file(out)
    facts.write_memory_viz(os.fsencode(out), max_entries=max_entries)
    if tell is not None:
        tell(_about_segments(_recordings.report_of(facts, max_emergencies=0)["devices"]))
    return [out]


def _about_segments(devices: list[dict[str, Any]]) -> str:
    used = [device for device in devices if device["peak_reserved_bytes"]]
    peaks = [
        fmt.size(device["peak_reserved_bytes"])
        + (f" on device {device['id']}" if len(used) > 1 else "")
        for device in used
    ]
    reserved = ", ".join(peaks) or "nothing"
    return f"Its segments are the address ranges ever used, whose sum can exceed what was reserved: {reserved} at most."


def _parquet(facts: Any, recording: Path, out: Path) -> list[Path]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise LeveeError("Parquet needs pyarrow: pip install 'levee[parquet]'.") from None
    if out.exists() and not out.is_dir():
        raise LeveeError(f"Cannot write the folder {out}: a file of that name is in the way.")
    about = {
        b"levee.format": b"levee-parquet",
        b"levee.version": b"1",
        b"levee.recording": os.fsencode(recording),
        b"levee.host": facts.host.encode(),
        b"levee.pid": str(facts.pid).encode(),
        b"levee.rank": str(facts.rank).encode(),
        b"levee.start_unix_ns": str(facts.start_unix_ns).encode(),
        b"levee.times_are_modelled": str(facts.is_modelled).lower().encode(),
    }

    def table_of(columns: dict[str, Any], name: str) -> Any:
        arrays, fields = [], []
        for column, values in columns.items():
            if isinstance(values, list):
                # Names and stacks recur: a dictionary keeps each once.
                array = pyarrow.array(values, pyarrow.string()).dictionary_encode()
            else:
                array = pyarrow.array(values)
            arrays.append(array)
            fields.append(pyarrow.field(column, array.type, nullable=False))
        rank = pyarrow.array([facts.rank] * len(arrays[0]), pyarrow.int32())
        arrays.insert(0, rank)
        fields.insert(0, pyarrow.field("rank", pyarrow.int32(), nullable=False))
        return pyarrow.Table.from_arrays(
            arrays, schema=pyarrow.schema(fields, {**about, b"levee.table": name.encode()})
        )

    make_folder(out.parent)
    # All tables appear at once: a folder beside the final one, renamed when it is complete.
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        names = list(_recordings.core().TABLES)
        for name in names:
            # By an open file: a path has to be text there.
            with (part / f"{name}.parquet").open("wb") as file:
                parquet.write_table(table_of(facts.table(name), name), file, compression="zstd")
        with (part / "events.parquet").open("wb") as file:
            _events(recording, file, table_of)
        part.chmod(0o755)
        if out.is_dir():
            for file in sorted(part.iterdir()):
                os.replace(file, out / file.name)
            part.rmdir()
        else:
            os.replace(part, out)
    except OSError as error:
        raise LeveeError(f"Cannot write {out}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [out / f"{name}.parquet" for name in (*names, "events")]


def _events(recording: Path, file: Any, table_of: Callable[[dict[str, Any], str], Any]) -> None:
    """Every raw event: what analyses of tomorrow start from. Written in batches, so memory stays small."""
    import pyarrow
    import pyarrow.parquet as parquet

    writer: Any = None

    def on_batch(columns: dict[str, Any]) -> None:
        nonlocal writer
        table = table_of(columns, "events")
        # Dictionaries differ from batch to batch; plain text is the same everywhere.
        plain = [
            f.with_type(pyarrow.string()) if pyarrow.types.is_dictionary(f.type) else f
            for f in table.schema
        ]
        table = table.cast(pyarrow.schema(plain, table.schema.metadata))
        if writer is None:
            writer = parquet.ParquetWriter(file, table.schema, compression="zstd")
        writer.write_table(table)

    try:
        _recordings.core().event_batches(os.fsencode(recording), on_batch)
    finally:
        if writer is not None:
            writer.close()
