"""``levee replay``: what a recorded job would have reserved under other allocators."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Sequence

from levee import _format as fmt
from levee.errors import LeveeError

_EPILOG = """\
Inputs (told apart by their content; .gz and .xz are unpacked):
  RUN.levee           a recording of levee
  SNAPSHOT.pickle     torch.cuda.memory._dump_snapshot(...), with history; read as data, never executed
  TRACE.json[.gz]     a trace of torch.profiler with profile_memory=True
  OPS.csv             "a,ID,BYTES[,STREAM]", "f,ID", "r,ID,,STREAM", "s,N" a line; bench/replay/README.md has it all
  pattern:NAME        a generated pattern; --list names them

  levee replay mine.pickle
  levee replay mine.pickle --capacity 24GiB          would it fit, and under which allocator?
  levee replay run.levee --limit 1.05x --picture reserved.html

Steps have the numbers that `levee report`, or the file itself, gives them. "live" is what the program held; "in use",
where streams share blocks, adds those that were freed while another stream still used them.

levee is replayed by the code that this installation runs, PyTorch's allocators by models of them. Times of driver calls
are modelled by published figures of an A100.
"""


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="what a recorded job would have reserved under levee and other allocators",
        description="Replays the requests of a recorded job under several allocators, without a GPU.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT")
    parser.add_argument(
        "--policies",
        metavar="A,B,...",
        help="allocators to replay (default: native,expandable,levee,bound; --list names all)",
    )
    parser.add_argument(
        "--limit",
        default="",
        metavar="1.05x",
        help="memory of the device, as a factor of what was live (or in use) at most, or a size",
    )
    parser.add_argument(
        "--capacity", metavar="SIZE", help="memory of the device, as 24GiB (default: no limit)"
    )
    parser.add_argument(
        "--device",
        type=int,
        default=-1,
        metavar="N",
        help="which device of the recording (default: the one with most events)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of generated patterns (default: 1)")
    parser.add_argument(
        "--no-marks", action="store_true", help="do not tell levee where steps begin"
    )
    parser.add_argument(
        "--threads",
        choices=("one", "as-recorded"),
        default="one",
        help="which threads make the requests: one for all (default, faster), or for each the one that made it; "
        "thread caches are then filled as they were",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write everything there as JSON; - for the terminal"
    )
    parser.add_argument(
        "--save",
        metavar="OPS.csv[.xz]",
        help="keep the requests alone (sizes, order, streams; no names, addresses or stacks), to share or replay again",
    )
    parser.add_argument("--picture", metavar="FILE", help="draw the reserved lines: .html or .png")
    parser.add_argument("--list", action="store_true", help="name all allocators and patterns")
    parser.add_argument(
        "--width", type=int, help="columns of text (default: those of the terminal)"
    )
    parser.set_defaults(run=run)


def with_negative_values(arguments: Sequence[str]) -> list[str]:
    """`--capacity -5GiB` as one word: argparse would take the value for an option, and miss the value."""
    joined: list[str] = []
    for text in arguments:
        is_value = text[:1] == "-" and text[1:2].isdigit()
        if is_value and joined[-1] in ("--capacity", "--limit", "--seed", "--device"):
            joined[-1] += "=" + text
        else:
            joined.append(text)
    return joined


def run(parsed: argparse.Namespace) -> int:
    from rich.console import Console

    from levee import _replay_lab as lab

    console = Console(width=parsed.width, soft_wrap=False, highlight=False)
    if parsed.list:
        _list(console)
        return 0
    if not parsed.inputs:
        raise LeveeError("name a recording to replay; levee replay --help lists the kinds.")
    policies, capacity = _checked(parsed)
    done = []
    with _Progress(len(parsed.inputs) * len(policies)) as progress:
        for text in parsed.inputs:
            progress.name(f"reading {Path(text).name}")
            recording = lab.open_input(text, device=parsed.device, seed=parsed.seed)
            if parsed.save:
                lab.save(recording, parsed.save)
            done.append(
                lab.replay(
                    recording,
                    policies,
                    lab.capacity_for(recording, capacity, parsed.limit),
                    marks=not parsed.no_marks,
                    threads=parsed.threads,
                    progress=progress.tell,
                )
            )
    if parsed.json:
        _write_json([lab.as_json(replayed) for replayed in done], parsed.json)
    if parsed.json != "-":
        for replayed in done:
            _print(console, replayed)
    if parsed.picture:
        written = lab.picture(done, parsed.picture)
        print(written, file=sys.stderr if parsed.json == "-" else sys.stdout)
    return 0


def _checked(parsed: argparse.Namespace) -> tuple[list[str], int]:
    """Policies and capacity; everything that can be wrong with the options is said before any work."""
    from levee import _replay_lab as lab

    if parsed.limit and parsed.capacity:
        raise LeveeError("--limit and --capacity both set the device's memory; give one of them.")
    if parsed.limit and lab.factor_of(parsed.limit) is None:
        lab.size_of(parsed.limit, "--limit")
    if parsed.save and len(parsed.inputs) != 1:
        raise LeveeError("--save takes one INPUT.")
    if parsed.picture:
        lab.check_picture(parsed.picture)
    if not 0 <= parsed.seed < 2**32:
        raise LeveeError("--seed takes a number from 0 to 4294967295.")
    policies = list(lab.DEFAULT_POLICIES)
    if parsed.policies is not None:
        policies = [name.strip() for name in parsed.policies.split(",") if name.strip()]
    known = [name for name, _ in lab.lab().policies()]
    for name in policies:
        if name not in known:
            raise LeveeError(f'there is no policy "{name}"; there are {", ".join(known)}.')
    if not policies:
        raise LeveeError(f"--policies names none; there are {', '.join(known)}.")
    return policies, lab.size_of(parsed.capacity, "--capacity") if parsed.capacity else 0


def _list(console: Any) -> None:
    from rich.table import Table

    from levee import _replay_lab as lab

    for title, rows in (
        ("allocators", lab.lab().policies()),
        ("patterns", [(lab.PATTERN_PREFIX + name, what) for name, what in lab.lab().patterns()]),
    ):
        table = Table(title, "", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, what in rows:
            table.add_row(name, what)
        console.print(table)
        console.print()


def _print(console: Any, replayed: Any) -> None:
    from rich.text import Text

    from levee import _replay_lab as lab

    console.print(Text(fmt.printable(replayed.recording.name), style="bold"))
    console.print(Text(fmt.printable(lab.about(replayed.recording)), style="dim"))
    console.print()
    console.print(Text(fmt.printable(lab.paragraph(replayed))))
    console.print(lab.table(replayed))
    if said := lab.left_out(replayed):
        console.print(Text(fmt.printable(said), style="dim"))


def _write_json(inputs: list[dict[str, Any]], where: str) -> None:
    from levee._writing import write_whole

    text = json.dumps({"inputs": inputs}, ensure_ascii=False) + "\n"
    if where == "-":
        sys.stdout.write(text)
    else:
        write_whole(where, text.encode())


class _Progress:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, replays: int):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=replays)
        self._done = -1.0
        self._last = 1.0

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def name(self, text: str) -> None:
        self._bar.update(self._task, description=fmt.printable(text))

    def tell(self, policy: str, share: float) -> None:
        if share < self._last or self._done < 0:
            self._done += 1.0
        self._last = share
        self._bar.update(self._task, description=policy, completed=self._done + share)
