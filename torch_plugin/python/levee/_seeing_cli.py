"""The commands that look at recordings: report, timeline, export, dump, compare."""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

from levee import _export
from levee import _format as fmt
from levee import _launches, _recordings
from levee.errors import LeveeError

# Narrower, lines of text are no sentences any more.
_LEAST_WIDTH = 20


def register(subparsers: Any) -> None:
    """Adds the commands to `levee`'s parser."""
    _add_report(subparsers)
    _add_timeline(subparsers)
    _add_export(subparsers)
    _add_dump(subparsers)
    _add_compare(subparsers)


def _add_report(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "report",
        help="what happened to memory in a recording, and why",
        description="Peaks, emergencies with cause and cost, storms, steps, driver calls, advice. The ranks of one "
        "launch in a folder are merged: which rank holds the others up. A folder with several runs is listed, newest "
        "first.",
    )
    p.add_argument(
        "recording", type=Path, help="a .levee file, a samples file, or a folder of them"
    )
    p.add_argument(
        "--run",
        type=int,
        dest="number",
        metavar="N",
        help="the whole report of one of several runs in the folder: its number in the list, 1 for the newest",
    )
    p.add_argument("--json", action="store_true", help="print everything as JSON")
    p.add_argument("--full", action="store_true", help="list every emergency")
    p.add_argument("--width", type=int, help="columns of text (default: those of the terminal)")
    p.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    from levee import _report as reports

    if options.width is not None and options.width < _LEAST_WIDTH:
        raise LeveeError(
            f"--width {options.width}: a report needs at least {_LEAST_WIDTH} columns."
        )
    launches = [_launches.Launch([options.recording])]
    if options.recording.is_dir() or not options.recording.exists():
        launches = _launches.group(_recordings.find(options.recording))
    elif options.number is not None:
        raise LeveeError(
            f"--run {options.number}: {options.recording} is one recording; --run goes with a folder of several."
        )
    if options.number is not None:
        if not 1 <= options.number <= len(launches):
            there = fmt.counted(len(launches), "run is", "runs are")
            raise LeveeError(f"--run {options.number}: {there} in {options.recording}.")
        launches = [launches[options.number - 1]]
    if options.json:
        is_list = len(launches) > 1
        content = {"runs": _readable_as_json(launches)} if is_list else _as_json(launches[0])
        json.dump(content, sys.stdout, ensure_ascii=False)
        print()
        return 0
    from rich.console import Console

    console = Console(width=options.width, soft_wrap=False)
    printer = reports.Printer(console)
    if len(launches) > 1:
        printer.launches(launches, options.recording)
        return 0
    found, merged = reports.of_launch(launches[0])
    if merged is not None:
        printer.ranks(merged)
    for i, report in enumerate(found):
        if i or merged is not None:
            console.rule(style="dim")
        printer.run(report, full=options.full)
    return 0


def _readable_as_json(launches: list[_launches.Launch]) -> list[Any]:
    """Those of several runs that can be read. The others are told where they do not get between the JSON."""
    runs = []
    for number, launch in enumerate(launches, 1):
        try:
            runs.append(_as_json(launch))
        except LeveeError as error:
            print(fmt.printable(f"levee: Run {number}: {error}"), file=sys.stderr)
    return runs


def _as_json(launch: _launches.Launch) -> Any:
    from levee import _report as reports

    found, merged = reports.of_launch(launch)
    return found[0] if merged is None else {"merged": merged, "ranks": found}


def _add_timeline(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "timeline",
        help="write the interactive timeline of a recording as one HTML file",
        description="Reserved (red) and allocated (blue) memory over time, storms, steps, driver calls, kernels and "
        "phases on one axis, in one file that needs no network.",
    )
    p.add_argument("recording", type=Path)
    p.add_argument("-o", "--out", type=Path, help="HTML file (default: the recording's name)")
    p.add_argument("--title", default="", help="heading of the page")
    p.add_argument(
        "--detail", action="store_true", help="keep every sample, however large the file"
    )
    p.add_argument("--open", action="store_true", help="open it in the browser")
    p.set_defaults(run=_timeline)


def _timeline(options: argparse.Namespace) -> int:
    from levee import _timeline as timelines

    written = timelines.timeline(
        options.recording, options.out, title=options.title, detail=options.detail
    )
    print(written)
    if options.open:
        webbrowser.open(written.resolve().as_uri())
    return 0


def _add_export(subparsers: Any) -> None:
    formats = "\n".join(f"  {name:12} {what}" for name, what in _export.FORMATS.items())
    p = subparsers.add_parser(
        "export",
        help="a recording in the format of another tool",
        description="Formats:\n" + formats,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("recording", type=Path)
    p.add_argument("--to", required=True, choices=list(_export.FORMATS), metavar="FORMAT")
    p.add_argument("-o", "--out", type=Path, help="file or folder (default: the recording's name)")
    p.add_argument(
        "--profiler",
        action="store_true",
        help="tensorboard: also write the file that torch_tb_profiler reads",
    )
    p.set_defaults(run=_run_export)


def _run_export(options: argparse.Namespace) -> int:
    extra: dict[str, Any] = {}
    if options.profiler:
        if options.to != "tensorboard":
            raise LeveeError("--profiler goes with --to tensorboard.")
        extra["profiler"] = True
    if options.to == "memory_viz":
        extra["tell"] = lambda line: print(line, file=sys.stderr)
    written = _export.export(options.recording, options.to, options.out, **extra)
    for path in written:
        print(path)
    if options.to == "tensorboard":
        folder = options.out or written[0].parent
        print(f"Look at it with: tensorboard --logdir {folder}", file=sys.stderr)
    return 0


def _add_dump(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "dump",
        help="every event of a recording as one line of text",
        description="For grep and for comparing runs: time, thread, kind and fields of each event, in order.",
    )
    p.add_argument("recording", type=Path)
    p.add_argument("-n", "--lines", type=int, default=0, help="stop after that many events")
    p.add_argument("--no-header", action="store_true", help="leave the lines about the file out")
    p.set_defaults(run=_dump)


def _dump(options: argparse.Namespace) -> int:
    if options.lines < 0:
        raise LeveeError("--lines takes a number that is not negative.")
    _recordings.check_is_file(options.recording)
    _recordings.core().dump_trace(
        os.fsencode(options.recording),
        sys.stdout.write,
        max_lines=options.lines,
        header=not options.no_header,
    )
    return 0


def _add_compare(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "compare",
        help="the reserved lines of several runs in one picture",
        description="Takes traces and samples files, each as FILE or LABEL=FILE. Runs whose labels begin alike "
        '("decoder: native", "decoder: levee") share a panel.',
    )
    p.add_argument("recordings", nargs="+", metavar="[LABEL=]FILE")
    p.add_argument("-o", "--out", type=Path, required=True, help="picture: .html or .png")
    p.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    from levee import compare

    sources: list[tuple[str, Path]] = []
    for text in options.recordings:
        label, equals, path = text.partition("=")
        if equals and not Path(text).exists():
            sources.append((label, Path(path)))
        else:
            sources.append(("", Path(text)))
    if options.out.suffix == ".png":
        print(compare.write_png(sources, options.out))
    elif options.out.suffix in (".html", ".htm"):
        print(compare.write_html(sources, options.out))
    else:
        raise LeveeError(f"{options.out}: the picture's name must end in .html or .png.")
    return 0
