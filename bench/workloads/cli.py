"""One workload under one allocator in this process: `python -m workloads WORKLOAD --allocator
native|expandable|levee`.

Owns: the choice of GPU and allocator before torch is imported, the run, its result as one JSON object. Promises: an
out-of-memory ends the run as a result ("finished": false), not as a traceback; every other failure is one sentence
and exit code 1
or 2. The process must be fresh: allocators can be chosen only before CUDA starts.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable

from . import WORKLOADS

ALLOCATORS = {
    "native": "PyTorch's caching allocator with its defaults",
    "expandable": "PyTorch's caching allocator with expandable_segments:True",
    "levee": "levee",
}
ALLOC_CONF = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="workloads", description=__doc__.split("\n", maxsplit=1)[0])
    listed = "; ".join(f"{name}: {what}" for name, what in WORKLOADS.items())
    p.add_argument("workload", choices=sorted(WORKLOADS), help=listed)
    p.add_argument("--allocator", choices=list(ALLOCATORS), default="native")
    p.add_argument(
        "--steps", type=int, default=40, help="training steps, or batches served (default 40)"
    )
    p.add_argument(
        "--warm-up",
        type=int,
        default=None,
        help="steps left out of driver calls a step (default: half, at most 20)",
    )
    p.add_argument(
        "--batch",
        type=int,
        default=8,
        help="sequences a batch (default 8; the encoder takes four times as many)",
    )
    p.add_argument("--seed", type=int, default=1234)
    p.add_argument(
        "--size",
        choices=("full", "small"),
        default="full",
        help="small: a tenth of the layers, for tests",
    )
    p.add_argument(
        "--gpu",
        default="auto",
        metavar="SIZE|real|auto",
        help='simulated GPU, as "levee sim --gpu" takes it ("24GiB", "24GiB,name=X"); real: the machine\'s own; '
        "auto: real if there is one, else a simulated one of 512GiB",
    )
    p.add_argument(
        "--limit",
        type=int,
        metavar="BYTES",
        help="let this process reserve at most so many bytes of a real GPU",
    )
    p.add_argument("--out", type=Path, metavar="FILE", help="write the result there as JSON")
    p.add_argument(
        "--samples",
        type=Path,
        metavar="FILE",
        help="write one JSON line a step there (measure.py has the format)",
    )
    p.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help="record PyTorch's own memory history and dump its snapshot there (native and expandable)",
    )
    p.add_argument(
        "--label", help="name of the run in tables and pictures (default: the allocator)"
    )
    p.add_argument(
        "--progress", action="store_true", help='print "step N" lines for a caller that draws a bar'
    )
    return p


def is_simulated() -> bool:
    """True if this process already runs on simgpu."""
    return hasattr(ctypes.CDLL(None), "simgpu_is_simulated")


def has_real_gpu() -> bool:
    """True if the driver of a real GPU is loadable and counts at least one device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


def enter_gpu(gpu: str, arguments: list[str]) -> None:
    """Starts this program again on a simulated GPU if one is asked for. Returns if the process is already where
    it should be."""
    if gpu == "real" or is_simulated():
        return
    if gpu == "auto":
        if has_real_gpu():
            return
        gpu = "512GiB"
    command = [
        sys.executable,
        "-m",
        "levee",
        "sim",
        "--gpu",
        gpu,
        "--",
        sys.executable,
        "-m",
        __package__,
        *arguments,
    ]
    os.execv(sys.executable, command)


def choose_allocator(name: str) -> None:
    """Before torch is imported. Takes away what the environment says about allocators, so that the run is what
    its name says."""
    for variable in (*ALLOC_CONF, "LEVEE", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        os.environ.pop(variable, None)
    if name == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    elif name == "levee":
        import levee

        levee.install()


def limit_memory(limit: int | None) -> None:
    if limit is None:
        return
    import torch

    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))


def record_history() -> Callable[[int], None]:
    """Records every request from here on; what it returns marks the begin of a step in the history."""
    import torch

    torch.cuda.memory._record_memory_history(
        max_entries=100_000_000, context=None, stacks="python", global_record_annotations=True
    )

    def mark(step: int) -> None:
        with torch.profiler.record_function(f"ProfilerStep#{step}"):
            pass

    return mark


def finish(options: argparse.Namespace, result: dict[str, Any], meter: Any) -> None:
    if options.allocator == "levee":
        import levee

        stats = levee.stats()
        result["emergencies"] = stats.get("num_emergencies", 0)
        result["trace"] = levee.trace_path()
        levee.flush()
    else:
        # PyTorch names no emergencies: an entry into its ladder is a retry, or an out-of-memory.
        result["emergencies"] = result["retries"] + result["ooms"]
    if options.samples:
        meter.write_samples(options.samples)
    if options.history:
        import torch

        torch.cuda.memory._dump_snapshot(str(options.history))
    text = json.dumps(result, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    p = parser()
    options = p.parse_args(arguments)
    if options.steps < 1 or options.batch < 1:
        p.error("--steps and --batch must be at least 1")
    if options.history and (options.allocator == "levee" or options.progress):
        p.error("--history goes with native and expandable, and without --progress")
    enter_gpu(options.gpu, arguments)
    choose_allocator(options.allocator)
    import torch

    if not torch.cuda.is_available():
        print(
            "workloads: torch finds no GPU: take --gpu SIZE for a simulated one, and a CUDA build of torch",
            file=sys.stderr,
        )
        return 1
    from .measure import Meter

    limit_memory(options.limit)
    warm_up = min(20, options.steps // 2) if options.warm_up is None else options.warm_up
    show = (lambda n: print(f"step {n}", flush=True)) if options.progress else None
    if options.history:
        show = record_history()
        show(0)
    meter = Meter(
        options.label or options.allocator, options.workload, options.allocator, warm_up, show
    )
    torch.manual_seed(options.seed)
    finished, why = True, None
    try:
        importlib.import_module(f".{options.workload}", __package__).run(options, meter)
    except torch.OutOfMemoryError as error:
        finished, why = False, str(error).split("\n", maxsplit=1)[0]
    result = meter.result()
    result.update(
        finished=finished,
        why=why,
        seed=options.seed,
        batch=options.batch,
        planned_steps=options.steps,
    )
    finish(options, result, meter)
    return 0
