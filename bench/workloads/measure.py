"""What a workload's run is judged by: peaks, the reserved line over time, and driver calls a step.

Owns: the `Meter`, told by a workload at the end of each step. Promises: it asks only torch's public statistics and,
where the
GPU is simulated, the counters of the simulation; it allocates nothing on the device and never synchronises.
Samples are kept in memory and written at the end, one JSON object a line:
`{"t": seconds since start, "step": n, "allocated": bytes, "reserved": bytes, "reserved_peak": bytes}`;
`reserved_peak` is
the largest reserved within the step, which a reading at its end alone would miss. The first line is a header
`{"samples": 1, "label": …, "workload": …, "allocator": …}`.
"""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path
from typing import Any

# Calls that take memory or addresses from the device or give them back, or change what is mapped where: what a
# report counts as driver memory calls (`is_memory_call` in allocator/analysis).
MEMORY_CALLS = (
    "cudaMalloc",
    "cudaFree",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
)


class DriverCounters:
    """Counts of driver calls in this process; `source` says where they come from."""

    def __init__(self) -> None:
        self._simulated = None
        try:
            library = ctypes.CDLL(None)
            counter = library.simgpu_counter
            counter.restype = ctypes.c_uint64
            counter.argtypes = [ctypes.c_char_p]
            self._simulated = counter
            self._now = library.simgpu_now_ns
            self._now.restype = ctypes.c_int64
        except (OSError, AttributeError):
            pass
        self.source = "simgpu" if self._simulated else "torch"

    def memory_calls(self) -> int:
        """Driver memory calls so far. On a real GPU: the allocator's own count of cudaMalloc/cuMemCreate and
        their ends."""
        if self._simulated:
            return sum(self._simulated(name.encode()) for name in MEMORY_CALLS)
        import torch

        stats = torch.cuda.memory_stats()
        return stats.get("num_device_alloc", 0) + stats.get("num_device_free", 0)

    def now(self) -> float:
        """Seconds on the clock that driver calls are charged to."""
        return self._now() / 1e9 if self._simulated else time.monotonic()


class Meter:
    """Collects one sample a step. `warm_up` steps are left out of the driver calls a step."""

    def __init__(
        self, label: str, workload: str, allocator: str, warm_up: int, progress: Any = None
    ):
        import torch

        self._torch = torch
        self._counters = DriverCounters()
        self._header = {"samples": 1, "label": label, "workload": workload, "allocator": allocator}
        self._warm_up = warm_up
        self._progress = progress
        self._samples: list[dict[str, float]] = []
        self._calls_at_warm: int | None = None
        self._begin = self._counters.now()
        self._peak_allocated = 0
        self._peak_reserved = 0
        self._peak_active = 0

    def step(self) -> None:
        """One training step or request is done."""
        cuda = self._torch.cuda
        stats = cuda.memory_stats()
        peak_reserved = stats.get("reserved_bytes.all.peak", 0)
        self._peak_allocated = max(self._peak_allocated, stats.get("allocated_bytes.all.peak", 0))
        self._peak_active = max(self._peak_active, stats.get("active_bytes.all.peak", 0))
        self._peak_reserved = max(self._peak_reserved, peak_reserved)
        self._samples.append(
            {
                "t": self._counters.now() - self._begin,
                "step": len(self._samples),
                "allocated": stats.get("allocated_bytes.all.current", 0),
                "reserved": stats.get("reserved_bytes.all.current", 0),
                "reserved_peak": peak_reserved,
                "allocated_peak": stats.get("allocated_bytes.all.peak", 0),
            }
        )
        cuda.reset_peak_memory_stats()
        if len(self._samples) == self._warm_up:
            self._calls_at_warm = self._counters.memory_calls()
        if self._progress:
            self._progress(len(self._samples))

    @property
    def steps(self) -> int:
        return len(self._samples)

    def result(self) -> dict[str, Any]:
        """Everything the tables show. Bytes, counts, seconds."""
        stats = self._torch.cuda.memory_stats()
        calls = self._counters.memory_calls()
        measured = len(self._samples) - self._warm_up
        per_step = None
        if self._calls_at_warm is not None and measured > 0:
            per_step = (calls - self._calls_at_warm) / measured
        out: dict[str, Any] = dict(self._header)
        out.pop("samples")
        out.update(
            steps=len(self._samples),
            peak_allocated=self._peak_allocated,
            peak_active=self._peak_active,
            peak_reserved=self._peak_reserved,
            ratio=self._peak_reserved / self._peak_allocated if self._peak_allocated else None,
            retries=stats.get("num_alloc_retries", 0),
            ooms=stats.get("num_ooms", 0),
            memory_calls=calls,
            memory_calls_per_step=per_step,
            calls_from=self._counters.source,
            seconds=self._counters.now() - self._begin,
            device=self._torch.cuda.get_device_name(),
        )
        return out

    def write_samples(self, path: Path) -> None:
        with path.open("w") as file:
            file.write(json.dumps(self._header) + "\n")
            for sample in self._samples:
                file.write(json.dumps(sample) + "\n")
