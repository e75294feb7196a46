"""Programs of the build other than the lab that the scoreboard runs: model soak, test programs, micro benchmarks.

Promises: a program that is not built, or that fails to run, leaves its rows "not measured" with the reason; nothing of
an earlier run is used.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from .measured import Program

SOAK_OPERATIONS = 10_000_000
SOAK_OPERATIONS_QUICK = 2_000_000
_OPS_A_PROGRAM = 1_850  # of the 2,000 planned those that do something, about


def lines(build: Path, quick: bool) -> dict[str, list[str]]:
    """Command lines by name."""
    operations = SOAK_OPERATIONS_QUICK if quick else SOAK_OPERATIONS
    # Fresh in every run: the seed is the time, and printed with the result.
    seed = int(time.time())
    soak = [
        str(build / "tests/model/model_soak"),
        *("--programs", str(operations // _OPS_A_PROGRAM), "--seconds", "900"),
        *("--seed", str(seed)),
    ]
    micro = [
        str(build / "bench/micro/alloc_bench"),
        "--benchmark_format=json",
        "--benchmark_enable_random_interleaving=true",
    ]
    return {
        "soak": soak,
        "faults": [
            str(build / "tests/unit/core/core_allocator_test"),
            "--gtest_filter=*FaultPositions*",
        ],
        "cases": [str(build / "tests/cases/cases_test")],
        "micro": micro,
        "record": [
            str(build / "bench/micro/record_cost"),
            *("--json", "/dev/stdout", "--seconds", "5" if quick else "60"),
        ],
        "torch": [
            sys.executable,
            str(Path(__file__).resolve().parents[1] / "micro" / "torch_cost.py"),
            *("--json", "-"),
        ],
    }


def run_all(build: Path, quick: bool) -> dict[str, Program]:
    """Each after the other: the micro benchmarks want a core that nobody else of this run uses."""
    done = {}
    limit = (
        240 if quick else 1200
    )  # seconds; a machine that is busy elsewhere must not hold the table up
    for name, line in lines(build, quick).items():
        if not Path(line[0]).exists():
            print(f"  {name}: {line[0]} is not built", file=sys.stderr)
            continue
        began = time.monotonic()
        try:
            ran = subprocess.run(line, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            print(f"  {name}: stopped after {limit} s", file=sys.stderr)
            continue
        seconds = time.monotonic() - began
        done[name] = Program(ran.returncode, ran.stdout, seconds)
        print(f"  {name}: exit code {ran.returncode}, {seconds:.0f} s", file=sys.stderr, flush=True)
    return done
