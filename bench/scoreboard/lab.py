"""Calls of the replay lab, and which of them a scoreboard makes.

Owns: the jobs. Promises: peers and levee replay the same traces in the same run; nothing is kept from earlier runs.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measured import LIMITS, Measured

BENCH = Path(__file__).resolve().parent.parent
ALWAYS = "native,expandable,levee"
ALL_PEERS = "native,native-split,native-pow2,expandable,cub,cudaMallocAsync,levee"
MODES = "levee-move,levee-none"
STREAM_POLICIES = ALWAYS + ",levee-anywhere"
LARGEST_BATCH_LIMIT = 40 << 30

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


@dataclass
class Job:
    """One call of the lab. `kind` says which list of `Measured` its results belong to."""

    kind: str
    arguments: list[str]
    what: str
    seed: int = 1


class Lab:
    """The lab's command; each call returns its results, marked with the set and seed that they belong to."""

    def __init__(self, program: Path, folder: Path):
        self._program = program
        self._folder = folder

    def run(self, job: Job, number: int) -> list[dict[str, Any]]:
        out = self._folder / f"{number}.json"
        line = [str(self._program), *job.arguments, "--json", str(out), "--seed", str(job.seed)]
        line += ["--lengths", str(BENCH / "workloads" / "data")]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(
                f"scoreboard: {' '.join(line)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        if done.stderr:
            print(f"  {done.stderr.strip()}", file=sys.stderr)
        results = json.loads(out.read_text())
        for result in results:
            result["set"] = job.what
            result["seed"] = job.seed
        return results


def unpack(folder: Path) -> dict[str, Path]:
    """The recorded traces as plain CSV files, by name."""
    files = {}
    for source in sorted((BENCH / "traces").glob("*.csv.xz")):
        name = source.name.split(".")[0]
        files[name] = folder / f"{name}.csv"
        files[name].write_bytes(lzma.decompress(source.read_bytes()))
    return files


def jobs_of(folder: Path, recordings: list[str], quick: bool) -> list[Job]:
    """Every call that a scoreboard makes, the longest first."""
    files = unpack(folder)
    named = [
        part
        for name, path in files.items()
        if name in MFLOP_PER_BYTE
        for part in ("--file", f"{path}:{MFLOP_PER_BYTE[name]:.9g}")
    ]
    own = [
        part
        for name, path in files.items()
        if name not in MFLOP_PER_BYTE
        for part in ("--file", str(path))
    ]
    own += [part for recording in recordings for part in ("--file", recording)]
    decoder = ["--set", "decoder"]
    jobs = [
        Job("named", [*named, "--policies", ALL_PEERS], "recorded"),
        Job("named", [*decoder, "--policies", ALWAYS if quick else ALL_PEERS], "decoder"),
        Job("named", ["--set", "streams", "--policies", STREAM_POLICIES], "streams"),
        Job("modes", [*named, "--policies", MODES], "recorded"),
        Job("adversarial", ["--set", "adversarial", "--policies", ALWAYS], "adversarial"),
        Job("long", ["--set", "long", "--policies", "levee"], "long"),
    ]
    if own:
        jobs.append(Job("own", [*own, "--policies", ALL_PEERS], "own"))
    for factor in LIMITS:
        limit = ["--policies", ALWAYS, "--limit", f"{factor}x"]
        jobs.append(Job(f"{factor}", [*named, *limit], "recorded"))
        if not quick:
            jobs.append(Job(f"{factor}", [*decoder, *limit], "decoder"))
    batch = ["--largest-batch", "--limit", str(LARGEST_BATCH_LIMIT), "--policies", ALWAYS]
    for name in ("conv-full", "conv-full-ck") if quick else ("",):
        only = ["--only", name] if name else []
        jobs.append(Job("batch", [*decoder, *only, *batch, "--steps", "40"], "decoder"))
    if not quick:
        jobs.append(Job("modes", [*decoder, "--policies", MODES], "decoder"))
        for seed in (2, 3):
            jobs.append(Job("named", [*decoder, "--policies", ALWAYS], "decoder", seed))
            jobs.append(
                Job("named", ["--set", "streams", "--policies", STREAM_POLICIES], "streams", seed)
            )
    return jobs


def measure(program: Path, folder: Path, recordings: list[str], quick: bool) -> Measured:
    """Runs all jobs on two cores."""
    lab = Lab(program, folder)
    out = Measured()
    jobs = jobs_of(folder, recordings, quick)

    def one(numbered: tuple[int, Job]) -> tuple[Job, list[dict[str, Any]]]:
        number, job = numbered
        results = lab.run(job, number)
        print(
            f"  {job.kind} {job.what} seed {job.seed}: {len(results)} replays",
            file=sys.stderr,
            flush=True,
        )
        return job, results

    with ThreadPoolExecutor(2) as pool:
        for job, results in pool.map(one, enumerate(jobs)):
            out.add(job.kind, results)
    return out
