"""What a pair of alloc and free costs through PyTorch, under levee and under PyTorch's own allocator. Row S7.

    python bench/micro/torch_cost.py [--smoke] [--bursts N] [--json FILE|-]

needs the installed package and PyTorch; without a GPU both run on the simulated one (`levee sim`). Two processes, one
for each allocator, are told in turn to run a short burst, and the best burst of each counts, since other programs use
the machine too. levee records, as it does by default. The loops are the same for both: `raw_alloc` and `raw_delete` in
C++, and `torch.empty` from Python.

Exit status: 0 measured; 77 skipped, with the reason (no PyTorch, or a levee built without it).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SMALL = 1 << 10
LARGE = 8 << 20

# name -> (target: levee's share of native's time, what it is)
CASES = {
    "raw_small": (0.2, "raw_alloc and raw_delete of 1 KiB"),
    "raw_large": (0.6, "the same of 8 MiB"),
    "raw_small_two_threads": (0.1, "1 KiB, two threads on two streams"),
    "python_small": (0.9, "torch.empty of 1 KiB, from Python"),
    "python_large": (0.9, "torch.empty of 8 MiB, from Python"),
}


# ---- In the process of one allocator


def _raw(count: int, size: int) -> float:
    import levee._torch

    return levee._torch.time_raw_pairs(size, count)


def _two_threads(count: int) -> float:
    import levee._torch

    return levee._torch.time_raw_pairs_on_threads(SMALL, count, 2)


def _python(count: int, size: int) -> float:
    import time

    import torch

    empty, n = torch.empty, size // 4
    start = time.perf_counter_ns()
    for _ in range(count):
        empty(n, device="cuda")
    return (time.perf_counter_ns() - start) / count


def work() -> int:
    """Answers one line of JSON for each line with the name of a case and a count."""
    import torch

    import levee

    if os.environ["LEVEE_COST_ALLOCATOR"] == "levee":
        levee.install()
    import levee._torch  # noqa: F401  # before the first burst, not in it

    torch.empty(1, device="cuda")
    cases = {
        "raw_small": lambda count: _raw(count, SMALL),
        "raw_large": lambda count: _raw(count, LARGE),
        "raw_small_two_threads": _two_threads,
        "python_small": lambda count: _python(count, SMALL),
        "python_large": lambda count: _python(count, LARGE),
    }
    for line in sys.stdin:
        name, count = line.split()
        print(json.dumps(cases[name](int(count))), flush=True)
    return 0


# ---- The one who asks


class Worker:
    def __init__(self, allocator: str, folder: str):
        environment = dict(
            os.environ,
            LEVEE_COST_ALLOCATOR=allocator,
            LEVEE_TRACE=f"{folder}/cost.levee",
            SIMGPU_JUDGE="off",  # PyTorch's allocator tells it nothing
        )
        command = [sys.executable, str(Path(__file__).resolve()), "--work"]
        if not os.environ.get("LEVEE_COST_ON_GPU"):
            command = [sys.executable, "-m", "levee", "sim", "--gpu", "24GiB", "--", *command]
        self._errors = open(f"{folder}/{allocator}.err", "w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )

    def ask(self, name: str, count: int) -> float:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{name} {count}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._errors.seek(0)
            raise SystemExit(f"torch_cost: the process ended: {self._errors.read()[-2000:]}")
        return float(json.loads(answer))

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)
        self._errors.close()


def measure(bursts: int, count: int) -> dict[str, Any]:
    best: dict[str, dict[str, float]] = {name: {} for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        workers = {name: Worker(name, folder) for name in ("native", "levee")}
        for burst in range(bursts):
            for case in CASES:
                for name, worker in workers.items():
                    took = worker.ask(case, count)
                    if burst > 0:  # the first one warms up
                        best[case][name] = min(took, best[case].get(name, took))
        for worker in workers.values():
            worker.end()
    return {
        case: {**times, "share": times["levee"] / times["native"], "target": CASES[case][0]}
        for case, times in best.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--smoke", action="store_true", help="two bursts: is the program whole?")
    parser.add_argument("--bursts", type=int, default=60, help="bursts of each case (60)")
    parser.add_argument("--json", type=Path, help="also write the figures there; -: them alone")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        import torch  # noqa: F401

        import levee._torch  # noqa: F401
    except ImportError as why:
        print(f"torch_cost: skipped: {why}")
        return 77
    if options.work:
        return work()
    found = measure(*((2, 200) if options.smoke else (options.bursts, 500)))
    if options.json == Path("-"):
        print(json.dumps(found))
        return 0
    for case, row in found.items():
        print(
            f"{CASES[case][1]:<36} native {row['native']:8.1f} ns, levee {row['levee']:8.1f} ns, "
            f"share {row['share']:.3f} (target {row['target']})"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
