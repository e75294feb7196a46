"""Runs every measurement of the engine, peers and levee side by side, and prints one table.

    python -m scoreboard --build FOLDER [--quick] [--recording FILE[:MFLOP_PER_BYTE]]... [--json FILE]

with bench/ on PYTHONPATH; `tools/dev scoreboard` does it all. A row whose program is not built says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from . import lab, program_rows, programs, rows
from .measured import Row


def show(table_rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("row", "what", "levee", "target", "", "peers", show_lines=True)
    for row in table_rows:
        state = "–" if row.met is None else ("[green]met[/]" if row.met else "[red]missed[/]")
        peers = "\n".join(f"{name}: {text}" for name, text in row.peers.items())
        table.add_row(
            row.id,
            f"{row.what} [{row.unit}]".replace("[", r"\["),
            row.value,
            row.target,
            state,
            peers,
        )
    Console(width=180).print(table)


def summary(table_rows: list[Row]) -> str:
    """How many targets are met, and which are not."""
    missed = [row.id for row in table_rows if row.met is False]
    unknown = [row.id for row in table_rows if row.met is None and row.target != "–"]
    met = sum(row.met is True for row in table_rows)
    text = f"{met} met, {len(missed)} missed"
    if missed:
        text += f" ({', '.join(missed)})"
    if unknown:
        text += f", {len(unknown)} not measured as the target asks ({', '.join(unknown)})"
    return text + "."


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scoreboard", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--build", type=Path, required=True, help="folder of an optimised build")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one seed, fewer peers, limits on recorded traces alone; under two minutes",
    )
    parser.add_argument(
        "--recording",
        action="append",
        default=[],
        metavar="FILE[:MFLOP_PER_BYTE]",
        help="a recording of yours beside the named ones (what `levee replay` reads, unpacked)",
    )
    parser.add_argument("--json", type=Path, help="also write the rows there")
    options = parser.parse_args()
    program = options.build / "bench/replay/levee_replay_lab"
    if not program.exists():
        parser.error(f"{options.build} has no replay lab; build the target levee_replay_lab")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        measured = lab.measure(program, Path(folder), options.recording, options.quick)
    measured.programs = programs.run_all(options.build, options.quick)
    table_rows = [make(measured) for make in (*rows.ROWS, *program_rows.ROWS)]
    show(table_rows)
    minutes = (time.monotonic() - began) / 60
    print(f"{summary(table_rows)} {minutes:.1f} minutes.")
    if options.json:
        content = {
            "rows": [asdict(row) for row in table_rows],
            "quick": options.quick,
            "minutes": round(minutes, 2),
        }
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
