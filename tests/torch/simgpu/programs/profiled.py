"""torch.profiler on the stand-in GPU: kernels, copies and memory in one trace."""

import collections
import json
import os
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from checks import check

D = "cuda"
TRACE = Path(os.environ["SIMGPU_TEST_FOLDER"]) / "trace.json"


def events_of(profiler):
    profiler.export_chrome_trace(str(TRACE))
    return json.loads(TRACE.read_text(encoding="utf-8"))


@check
def kernels_and_memory():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.LazyLinear(16)).to(D)
    batch = torch.randn(4, 3, 16, 16)
    model(batch.to(D))
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, profile_memory=True) as profiler:
        with record_function("one step"):
            model(batch.pin_memory().to(D, non_blocking=True)).sum().backward()
        torch.cuda.synchronize()
    trace = events_of(profiler)
    kinds = collections.Counter(e.get("cat") for e in trace["traceEvents"])
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    names = {e["name"] for e in kernels}
    launches = {
        e["args"]["correlation"]
        for e in trace["traceEvents"]
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    memory = [
        e
        for e in trace["traceEvents"]
        if e.get("name") == "[memory]" and e["args"]["Device Type"] == 1
    ]
    by_stream = collections.defaultdict(list)
    for kernel in kernels:
        by_stream[kernel["tid"]].append((kernel["ts"], kernel["ts"] + kernel["dur"]))
    overlaps = sum(
        later[0] < earlier[1] - 0.01
        for spans in by_stream.values()
        for earlier, later in zip(sorted(spans), sorted(spans)[1:])
    )
    return {
        "kernels": len(kernels),
        "durations": min(e["dur"] for e in kernels) > 0,
        "copies": kinds["gpu_memcpy"],
        "memory": len(memory),
        "cudnn": sorted(n for n in names if n.startswith("cudnn_convolution")),
        "elementwise": any("elementwise" in n for n in names),
        "gemm": any("cublas" in n for n in names),
        "launched": sum(e["args"]["correlation"] in launches for e in kernels),
        "overlaps": overlaps,
        "device": trace["deviceProperties"][0]["name"],
        "annotated": any(e.get("name") == "one step" for e in trace["traceEvents"]),
    }


@check
def kernel_table():
    a = torch.empty(4096, 4096, device=D, dtype=torch.bfloat16)
    a @ a
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            a @ a
        torch.cuda.synchronize()
    rows = {
        r.key: (r.count, r.device_time_total)
        for r in profiler.key_averages()
        if r.device_time_total > 0
    }
    return max(rows.values(), key=lambda row: row[1])


@check
def scheduled():
    model = nn.Linear(64, 64).to(D)
    waits = schedule(wait=1, warmup=1, active=2)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=waits
    ) as profiler:
        for _ in range(4):
            model(torch.randn(8, 64, device=D)).sum().backward()
            profiler.step()
    kernels = [e for e in events_of(profiler)["traceEvents"] if e.get("cat") == "kernel"]
    return len(kernels)


@check
def graph_replays_are_seen():
    x = torch.ones(1024, device=D)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            x = x + 1
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        graph.replay()
        torch.cuda.synchronize()
    return len([e for e in events_of(profiler)["traceEvents"] if e.get("cat") == "kernel"])
