"""A small training of changing length that leaves its memory history behind, for the tests of `levee replay`.

    levee sim --gpu 8GiB -- python record_job.py FOLDER

writes history.pickle (from the first request on), late.pickle (recording began in mid-run), ring.pickle (a ring that
overflowed), trace.json.gz (the profiler, two steps) and facts.json (what PyTorch itself says).
"""

import json
import sys
from pathlib import Path

import torch

folder = Path(sys.argv[1])
record = torch.cuda.memory._record_memory_history
device = torch.device("cuda")


def work(model, optimizer, side, length):
    batch = torch.zeros(8, length, 256, device=device)
    with torch.cuda.stream(side):
        ahead = torch.zeros(8, length, 64, device=device)
    out = model(batch)
    out.sum().backward()
    ahead.record_stream(torch.cuda.current_stream())
    ahead.add_(1)
    optimizer.step()
    optimizer.zero_grad()


record(max_entries=1_000_000)
torch.manual_seed(7)
side = torch.cuda.Stream()
model = torch.nn.Sequential(
    *[layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for length in (300, 100, 700, 220, 900, 40):
    work(model, optimizer, side, length)
torch.cuda.memory._dump_snapshot(str(folder / "history.pickle"))
facts = {
    "peak_allocated": torch.cuda.max_memory_allocated(),
    "peak_reserved": torch.cuda.max_memory_reserved(),
    "live_at_end": torch.cuda.memory_allocated(),
}
record(enabled=None)

record(max_entries=1_000_000)
live_before = torch.cuda.memory_allocated()
for length in (500, 120):
    work(model, optimizer, side, length)
torch.cuda.memory._dump_snapshot(str(folder / "late.pickle"))
record(enabled=None)

record(max_entries=200)
for length in (500, 120):
    work(model, optimizer, side, length)
torch.cuda.memory._dump_snapshot(str(folder / "ring.pickle"))
record(enabled=None)

torch.cuda.reset_peak_memory_stats()
profile_before = torch.cuda.memory_allocated()
schedule = torch.profiler.schedule(wait=0, warmup=0, active=2, repeat=1)
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU],
    profile_memory=True,
    schedule=schedule,
    on_trace_ready=lambda p: p.export_chrome_trace(str(folder / "trace.json.gz")),
) as profiler:
    for length in (640, 80):
        work(model, optimizer, side, length)
        profiler.step()
facts.update(
    live_before_late=live_before,
    live_before_profile=profile_before,
    profile_peak_allocated=torch.cuda.max_memory_allocated(),
    profile_peak_reserved=torch.cuda.max_memory_reserved(),
)
(folder / "facts.json").write_text(json.dumps(facts))
