"""Workloads under several allocators side by side: `levee bench`, and the body of tools/demo.

Owns: the plan of runs, one fresh process each, two at a time; the table; the folder of results. Promises: every
allocator gets the same
batches (same seed) and the same memory; the limited runs get `factor` times the allocated bytes that the *native*
allocator
peaked at, so no allocator is measured with its own yardstick; a run that fails for another reason than out-of-memory
is shown as
failed with the end of its error text and makes the exit code 1.

Files in the output folder: `results.json` (a list of what cli.py writes, one per run), `table.md`,
`NAME.samples.jsonl`,
`NAME.levee` (levee's traces), `NAME.log`, and the pictures `reserved.html` and `reserved.png`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levee import _format as fmt
from levee._tables import Grid
from levee.errors import LeveeError

from . import WORKLOADS
from .cli import ALLOCATORS, has_real_gpu

GIB = 1 << 30
# Seconds from process start to the first step, and per step, on two 2020s cores with both busy: only for the
# estimate shown.
STARTUP_SECONDS = {"decoder": 12.0, "encoder": 20.0, "lora": 20.0, "generate": 20.0}
STEP_SECONDS = {"decoder": 0.35, "encoder": 0.6, "lora": 0.8, "generate": 2.0}


@dataclass
class Run:
    """One process: a workload under an allocator, on all of the GPU or within a limit."""

    workload: str
    allocator: str
    limit: int | None = None
    result: dict[str, Any] | None = None
    error: str = ""
    steps_done: int = 0
    files: dict[str, Path] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    @property
    def name(self) -> str:
        return f"{self.workload}-{self.allocator}" + ("-limited" if self.limit else "")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="levee bench",
        description="Variable-length workloads under several allocators, side by side.",
    )
    p.add_argument(
        "--workloads",
        default="decoder,encoder,lora",
        help=f"of {', '.join(WORKLOADS)} (default: %(default)s)",
    )
    p.add_argument(
        "--allocators",
        default="native,expandable,levee",
        help=f"of {', '.join(ALLOCATORS)} (default: all)",
    )
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--seed", type=int, default=1234)
    p.add_argument("--size", choices=("full", "small"), default="full")
    p.add_argument(
        "--gpu",
        default="auto",
        help="as for a single workload: auto, real, or a simulated size such as 80GiB",
    )
    p.add_argument(
        "--factor",
        type=float,
        default=1.05,
        help="the limited runs get this times native's peak allocated (0: none)",
    )
    p.add_argument(
        "--jobs",
        type=int,
        default=None,
        help="processes at a time (default: 2 on a simulated GPU, 1 on a real one)",
    )
    p.add_argument(
        "--out",
        type=Path,
        default=Path("levee-bench"),
        help="folder for results (default: %(default)s)",
    )
    p.add_argument(
        "--tensorboard",
        type=Path,
        metavar="FOLDER",
        help="also export every levee trace there for TensorBoard",
    )
    return p


def chosen(text: str, known: dict[str, str], what: str, p: argparse.ArgumentParser) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            p.error(f"no {what} called {name!r}: choose of {', '.join(known)}")
    if not names:
        p.error(f"name at least one {what}")
    return names


def command(run: Run, options: argparse.Namespace, simulated: bool) -> list[str]:
    out = options.out
    run.files = {
        "result": out / f"{run.name}.json",
        "samples": out / f"{run.name}.samples.jsonl",
        "log": out / f"{run.name}.log",
    }
    gpu = options.gpu
    if run.limit and simulated:
        device = "" if gpu == "auto" else "".join("," + part for part in gpu.split(",")[1:])
        gpu = f"{run.limit}{device}"
    line = [
        sys.executable,
        "-m",
        __package__,
        run.workload,
        "--allocator",
        run.allocator,
        "--steps",
        str(options.steps),
    ]
    line += [
        "--batch",
        str(options.batch),
        "--seed",
        str(options.seed),
        "--size",
        options.size,
        "--gpu",
        gpu,
        "--progress",
    ]
    line += ["--out", str(run.files["result"]), "--samples", str(run.files["samples"])]
    line += ["--label", run.allocator]
    if run.limit and not simulated:
        line += ["--limit", str(run.limit)]
    return line


def execute(run: Run, options: argparse.Namespace, simulated: bool, advance) -> None:
    """Runs one process to its end; fills `run.result` or `run.error`. `advance(n)` is told of finished steps."""
    line = command(run, options, simulated)
    run.files["result"].unlink(missing_ok=True)
    environment = dict(os.environ)
    if run.allocator == "levee":
        run.files["trace"] = options.out / f"{run.name}.levee"
        # A recording is never written over another: what an earlier bench left would be reported as this one's.
        run.files["trace"].unlink(missing_ok=True)
        environment["LEVEE_TRACE"] = str(run.files["trace"].resolve())
    with run.files["log"].open("w") as log:
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        run.process = process
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("step "):
                run.steps_done += 1
                advance(1)
            else:
                log.write(text)
        code = process.wait()
    if code == 0 and run.files["result"].exists():
        run.result = json.loads(run.files["result"].read_text())
        advance(options.steps - run.steps_done)
        return
    tail = run.files["log"].read_text().strip().splitlines()
    run.error = (
        f"exit code {code}: {tail[-1] if tail else 'no output'} (whole log: {run.files['log']})"
    )
    advance(options.steps - run.steps_done)


def run_all(runs: list[Run], options: argparse.Namespace, simulated: bool, title: str) -> None:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    jobs = options.jobs or (2 if simulated else 1)
    seconds = (
        sum(STARTUP_SECONDS[r.workload] + STEP_SECONDS[r.workload] * options.steps for r in runs)
        / jobs
    )
    print(
        f"{title}: {fmt.counted(len(runs), 'run', 'runs')} of {options.steps} steps, {jobs} at a time, "
        f"about {max(1, round(seconds / 60))} min",
        flush=True,
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    lock = threading.Lock()
    with Progress(*columns) as progress, ThreadPoolExecutor(jobs) as pool:
        bar = progress.add_task(title, total=len(runs) * options.steps)

        def advance(n: int) -> None:
            with lock:
                progress.advance(bar, n)

        def one(run: Run) -> None:
            began = time.monotonic()
            execute(run, options, simulated, advance)
            state = run.error or ("finished" if run.result["finished"] else "out of memory")
            progress.console.print(
                f"  {run.name}: {state}, took {time.monotonic() - began:.0f} s", highlight=False
            )

        try:
            list(pool.map(one, runs))
        except KeyboardInterrupt:
            # Neither the runs that wait nor those that go on are wanted any more.
            pool.shutdown(wait=False, cancel_futures=True)
            for run in runs:
                if run.process is not None and run.process.poll() is None:
                    run.process.terminate()
            raise


def gib(value: int | None) -> str:
    return "–" if value is None else f"{value / GIB:.2f} GiB"


def calls(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def row(run: Run, limited: Run | None) -> list[str]:
    """Cells of the table, in the order of `HEAD`."""
    cells = [run.workload, run.allocator]
    if run.result is None:
        return [*cells, "failed", "", "", "", "", "", ""]
    r = run.result
    if not r["finished"]:
        cells += [f"out of memory in step {r['steps']}", gib(r["peak_reserved"])]
    else:
        cells += [gib(r["peak_allocated"]), gib(r["peak_reserved"])]
    cells += [
        f"{r['ratio']:.4f}" if r["ratio"] else "–",
        str(r["emergencies"]),
        str(r["retries"]),
        calls(r["memory_calls_per_step"]),
    ]
    if limited is None:
        cells.append("")
    elif limited.result is None:
        cells.append("failed")
    else:
        small = limited.result
        if small["finished"]:
            cells.append(
                f"finishes, {fmt.counted(small['emergencies'], 'emergency', 'emergencies')}, "
                f"{calls(small['memory_calls_per_step'])} calls a step"
            )
        else:
            cells.append(f"DIES: out of memory in step {small['steps']}")
    return cells


def head(factor: float) -> list[str]:
    return [
        "workload",
        "allocator",
        "peak allocated",
        "peak reserved",
        "ratio",
        "emergencies",
        "retries",
        "driver calls a step",
        f"in {factor:g} × native's peak allocated",
    ]


def short_row(cells: list[str]) -> list[str]:
    """The cells of `row` as a narrow terminal has room for them: sizes without their unit, the last one in a word."""
    name, sizes, rest, last = (
        " ".join(cells[:2]),
        cells[2:4],
        [cells[4], cells[5], cells[7]],
        cells[8],
    )
    sizes = [size.removesuffix(" GiB") for size in sizes]
    died = re.search(r"out of memory in step (\d+)", sizes[0])
    sizes[0] = f"OOM {died[1]}" if died else sizes[0]
    died = re.search(r"out of memory in step (\d+)", last)
    waited = re.search(r"(\d+) emergenc", last)
    if died:
        last = f"OOM {died[1]}"
    elif waited:
        last = "ok" if waited[1] == "0" else f"ok, {waited[1]} em."
    return [name, *sizes, *rest, last]


def short_head(factor: float) -> list[str]:
    """Titles for `short_row`."""
    limit = f"in {factor:g} × native's alloc."
    return ["", "alloc. GiB", "reserved GiB", "ratio", "emerg. (em.)", "calls a step", limit]


def show_table(rows: list[list[str]], titles: list[str], out: Path, factor: float) -> None:
    from rich.console import Console

    # Workload and allocator in one column: it names a row also where there is no room for a table.
    title = "Variable-length batches"
    table = Grid(" / ".join(titles[:2]), *titles[2:], title=title)
    short = Grid(*short_head(factor), title=title)
    for cells in rows:
        table.add(f"{cells[0]} {cells[1]}", *cells[2:])
        short.add(*short_row(cells))
    console = Console()
    # Without a terminal there is no width to keep to.
    width = console.width if console.is_terminal else max(140, console.width)
    # Side by side is what the runs were made for: a narrow terminal gets fewer words, but a table.
    is_short = not table.fits(width) and short.fits(width)
    Console(width=width).print(short if is_short else table)
    if is_short:
        words = ["alloc., reserved: their peaks", "em.: emergencies"]
        if any(cell.startswith("OOM") for cells in rows for cell in short_row(cells)):
            words.append("OOM 7: out of memory in step 7")
        print(f"{'; '.join(words)}.\nAll columns: table.md.\n")
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows]
    (out / "table.md").write_text("\n".join(lines) + "\n")


def command_of(name: str) -> str:
    """How the person at the terminal reaches a command of this environment, activated or not."""
    beside = Path(sys.executable).with_name(name)
    return name if shutil.which(name) or not beside.exists() else shlex.quote(str(beside))


def show_places(options: argparse.Namespace, written: list[Path], traced: list[Run]) -> None:
    """Each thing to look at, once."""
    print(f"What to look at, in {options.out}/:")
    print("  results.json, table.md   the figures")
    for path in written:
        print(
            f"  {path.name:<24} the reserved lines{', in any browser' if path.suffix == '.html' else ''}"
        )
    if traced:
        trace = shlex.quote(str(traced[-1].files["trace"]))
        print(f"  {command_of('levee')} report {trace}")
    if options.tensorboard:
        folder = shlex.quote(str(options.tensorboard))
        print(f"  {command_of('tensorboard')} --logdir {folder}")
        print('                           then the tab "Levee" at http://localhost:6006')


def pictures(runs: list[Run], options: argparse.Namespace) -> list[Path]:
    """Draws the reserved lines of the runs on the whole GPU; returns what was written."""
    from levee import compare

    sources = [
        (f"{run.workload}: {run.allocator}", run.files["samples"]) for run in runs if run.result
    ]
    if not sources:
        return []
    panels = compare.read(sources)
    # Samples have the lines and no emergencies; those that the table says were counted in the runs.
    for run in runs:
        for line in panels.get(run.workload, []):
            if run.result and line.label == run.allocator:
                line.emergencies = run.result["emergencies"]
    title = "Reserved memory"
    return [
        Path(compare.page_of(panels, options.out / "reserved.html", title)),
        Path(compare.png_of(panels, options.out / "reserved.png", title)),
    ]


def export_tensorboard(runs: list[Run], folder: Path) -> None:
    """One TensorBoard run a levee trace, named like the run; all of them in one folder, for one TensorBoard."""
    from levee import export

    for run in runs:
        trace = run.files.get("trace")
        if run.result and trace and trace.exists():
            try:
                export(trace, "tensorboard", folder / run.name)
            except LeveeError as error:
                run.error = str(error)


def main(arguments: list[str] | None = None) -> int:
    p = parser()
    options = p.parse_args(arguments)
    workloads = chosen(options.workloads, WORKLOADS, "workload", p)
    allocators = chosen(options.allocators, ALLOCATORS, "allocator", p)
    if options.steps < 2:
        p.error("--steps must be at least 2")
    options.out.mkdir(parents=True, exist_ok=True)
    simulated = options.gpu != "real" and not (options.gpu == "auto" and has_real_gpu())
    whole = [Run(w, a) for w in workloads for a in allocators]
    run_all(whole, options, simulated, "whole GPU")
    limited: list[Run] = []
    if options.factor:
        for run in whole:
            base = next(
                (r for r in whole if r.workload == run.workload and r.allocator == "native"), run
            )
            if base.result and base.result["peak_allocated"]:
                limited.append(
                    Run(
                        run.workload,
                        run.allocator,
                        int(base.result["peak_allocated"] * options.factor),
                    )
                )
        run_all(limited, options, simulated, f"{options.factor:g} × peak allocated")
    twins = {(r.workload, r.allocator): r for r in limited}
    results = [dict(r.result, limit=r.limit, name=r.name) for r in (*whole, *limited) if r.result]
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    show_table(
        [row(r, twins.get((r.workload, r.allocator))) for r in whole],
        head(options.factor),
        options.out,
        options.factor,
    )
    written = pictures(whole, options)
    if options.tensorboard:
        export_tensorboard([*whole, *limited], options.tensorboard)
    print(f"Device: {results[0]['device'] if results else 'none'}.")
    show_places(options, written, [r for r in whole if r.result and "trace" in r.files])
    failed = [r for r in (*whole, *limited) if r.error]
    for run in failed:
        print(f"{run.name} failed: {run.error}", file=sys.stderr)
    return 1 if failed else 0
