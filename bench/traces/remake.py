"""Makes the recordings of the repository's own workloads again: `python bench/traces/remake.py [WORKLOAD ...]`.

Runs each workload of bench/workloads under PyTorch's allocator, with and without expandable segments, on a simulated
GPU with PyTorch's own memory history on, keeps the requests (the same under both) as WORKLOAD.csv.xz, and what PyTorch
itself allocated and reserved in recorded.json. Needs levee installed with the extra [dev] and a CUDA build of PyTorch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STEPS = {"decoder": 12, "encoder": 12, "lora": 12, "generate": 2}
ALLOCATORS = ("native", "expandable")
GPU = "512GiB"
SEED = 1234


def run(line: list[str]) -> None:
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": _path()})
    if done.returncode != 0:
        sys.exit(f"remake: {' '.join(line)} ended with {done.returncode}")


def _path() -> str:
    known = os.environ.get("PYTHONPATH")
    return str(HERE.parent) + (f":{known}" if known else "")


def record(workload: str, folder: Path) -> dict[str, Any]:
    """One workload under each allocator; what PyTorch itself says of it."""
    import torch

    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "steps": STEPS[workload],
        "seed": SEED,
        "gpu": GPU,
    }
    for allocator in ALLOCATORS:
        history, result = folder / f"{allocator}.pickle", folder / f"{allocator}.json"
        line = [sys.executable, "-m", "workloads", workload, "--allocator", allocator]
        line += ["--steps", str(STEPS[workload]), "--seed", str(SEED), "--gpu", GPU]
        run([*line, "--history", str(history), "--out", str(result)])
        said = json.loads(result.read_text())
        facts[allocator] = {key: said[key] for key in ("peak_allocated", "peak_reserved")}
    saved = HERE / f"{workload}.csv.xz"
    replay = [sys.executable, "-m", "levee", "replay", str(folder / "native.pickle")]
    run([*replay, "--policies", "bound", "--save", str(saved)])
    return facts


def main(workloads: list[str]) -> None:
    for workload in workloads or list(STEPS):
        if workload not in STEPS:
            sys.exit(f"remake: there is no workload {workload}; there are {', '.join(STEPS)}")
        with tempfile.TemporaryDirectory() as folder:
            facts = record(workload, Path(folder))
        where = HERE / "recorded.json"
        known = json.loads(where.read_text()) if where.exists() else {}
        known[workload] = facts
        where.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
