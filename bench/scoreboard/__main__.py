"""Runs the replay lab over every named trace, peers and levee side by side, and prints one table.

    python -m scoreboard --lab PROGRAM [--quick] [--json FILE]

with bench/ on PYTHONPATH; `tools/dev scoreboard` does it all.

Owns: which replays are run. Promises: peers and levee replay the same traces in the same run; nothing is kept from
earlier runs.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .rows import ROWS, Measured, Row

BENCH = Path(__file__).resolve().parent.parent
LIMITS = (1.05, 1.02, 1.01)
PEERS = "native,expandable,levee"

# MFLOP of a step for each byte of its first request (bench/traces/README.md has the formulas).
MFLOP_PER_BYTE = {
    "W1": 6 * 354e6 / 8 / 1e6,
    "W2": 8 * 354e6 / 8 / 1e6,
    "W3": 4 * 1.27e9 / 8 / 1e6,
    "W4": 6 * 333e6 / 8 / 1e6,
    "W5": 3 * 268e9 * 4 / 48 / (800 * 1333) / 1e6,
    "W6": 2 * 1.14e9 / 8 / 1e6,
    "W7": 6 * 86e6 / 320 / 1e6,
}


class Lab:
    """Calls of the lab's command; each returns its results, marked with the set and seed that they belong to."""

    def __init__(self, program: Path, folder: Path):
        self._program = program
        self._folder = folder
        self._calls = 0

    def run(self, arguments: list[str], what: str, seed: int = 1) -> list[dict[str, Any]]:
        self._calls += 1
        out = self._folder / f"{self._calls}.json"
        line = [str(self._program), *arguments, "--json", str(out), "--seed", str(seed)]
        line += ["--lengths", str(BENCH / "workloads" / "data")]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(
                f"scoreboard: {' '.join(line)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        results = json.loads(out.read_text())
        for result in results:
            result["set"] = what
            result["seed"] = seed
        return results


def unpack(folder: Path) -> dict[str, Path]:
    """The recorded traces as plain CSV files, by name."""
    files = {}
    for source in sorted((BENCH / "traces").glob("W*.csv.xz")):
        name = source.name.split(".")[0]
        files[name] = folder / f"{name}.csv"
        files[name].write_bytes(lzma.decompress(source.read_bytes()))
    return files


def measure(lab: Lab, folder: Path, seeds: list[int], quick: bool) -> Measured:
    recorded = [
        part
        for name, path in unpack(folder).items()
        for part in ("--file", f"{path}:{MFLOP_PER_BYTE[name]:.9g}")
    ]
    decoder = ["--set", "decoder"]
    jobs: list[tuple[str, list[str], str, int]] = [
        ("named", [*recorded, "--policies", PEERS], "recorded", 1)
    ]
    for seed in seeds:
        jobs.append(("named", [*decoder, "--policies", PEERS], "decoder", seed))
        if not quick or seed == 1:
            jobs.append(("named", ["--set", "streams", "--policies", PEERS], "streams", seed))
    jobs.append(("adversarial", ["--set", "adversarial", "--policies", PEERS], "adversarial", 1))
    for factor in LIMITS:
        jobs.append(
            (f"{factor}", [*recorded, "--policies", PEERS, "--limit", f"{factor}x"], "recorded", 1)
        )
        if not quick:
            jobs.append(
                (
                    f"{factor}",
                    [*decoder, "--policies", PEERS, "--limit", f"{factor}x"],
                    "decoder",
                    1,
                )
            )

    def one(job: tuple[str, list[str], str, int]) -> tuple[str, list[dict[str, Any]]]:
        results = lab.run(job[1], job[2], job[3])
        print(
            f"  {job[0]} {job[2]} seed {job[3]}: {len(results)} replays",
            file=sys.stderr,
            flush=True,
        )
        return job[0], results

    out = Measured([], [], {factor: [] for factor in LIMITS})
    with ThreadPoolExecutor(2) as pool:
        for kind, results in pool.map(one, jobs):
            if kind == "named":
                out.named += results
            elif kind == "adversarial":
                out.adversarial += results
            else:
                out.limited[float(kind)] += results
    return out


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("row", "what", "levee", "target", "", "peers", show_lines=True)
    for row in rows:
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


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scoreboard", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--lab", type=Path, required=True, help="the program levee_replay_lab")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one seed, limits on recorded traces alone; under two minutes",
    )
    parser.add_argument("--json", type=Path, help="also write the rows there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(
            Lab(options.lab, Path(folder)),
            Path(folder),
            [1] if options.quick else [1, 2, 3],
            options.quick,
        )
    rows = [make(measured) for make in ROWS]
    show(rows)
    if options.json:
        options.json.write_text(
            json.dumps({"rows": [asdict(row) for row in rows]}, indent=1, ensure_ascii=False) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
