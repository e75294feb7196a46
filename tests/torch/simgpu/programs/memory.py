"""Copies that a program can see, pinned memory, streams and events, DataLoader, checkpoints, statistics."""

import gc
import os
import pickle
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from checks import check

D = "cuda"
FOLDER = Path(os.environ["SIMGPU_TEST_FOLDER"])


@check
def round_trips():
    values = torch.arange(100_000, dtype=torch.float32)
    on_device = values.to(D)
    copy = torch.empty_like(on_device)
    copy.copy_(on_device)  # device to device
    strided = torch.arange(24).reshape(4, 6)[:, ::2]
    return {
        "host": torch.equal(on_device.cpu(), values),
        "device": torch.equal(copy.cpu(), values),
        "slice": torch.equal(on_device[500:700].cpu(), values[500:700]),
        "strided": torch.equal(strided.to(D).cpu(), strided),
        "item": on_device[7].item(),
        "types": [
            torch.ones(3, dtype=t).to(D).cpu().tolist()
            for t in (torch.bool, torch.bfloat16, torch.int64)
        ],
    }


@check
def memset_is_true():
    values = torch.ones(1000).to(D)
    values.zero_()
    return values.cpu().abs().max().item()


@check
def kernels_have_no_effect_and_leave_no_stale_values():
    values = torch.ones(1000).to(D)
    del values
    fresh = torch.randn(1000, device=D)  # the same block
    return (fresh + 1).cpu().abs().max().item()


@check
def pinned_memory():
    source = torch.arange(1000).pin_memory()
    target = source.to(D, non_blocking=True)
    torch.cuda.synchronize()
    return [
        source.is_pinned(),
        torch.arange(3).is_pinned(),
        torch.equal(target.cpu(), torch.arange(1000)),
    ]


@check
def data_loader_with_workers():
    data = TensorDataset(torch.arange(64).float(), torch.arange(64))
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
    seen = []
    for values, labels in loader:
        assert values.is_pinned()
        seen += labels.to(D, non_blocking=True).cpu().tolist()
        assert torch.equal(values.to(D).cpu().long(), labels)
    return sorted(seen) == list(range(64))


@check
def events_are_not_done_at_once():
    a = torch.empty(8192, 8192, device=D, dtype=torch.bfloat16)
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        a @ a
    end.record()
    at_once = end.query()
    end.synchronize()
    return {"at_once": at_once, "after": end.query(), "ms": begin.elapsed_time(end)}


@check
def streams_order_by_events():
    a = torch.empty(4096, 4096, device=D, dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        a @ a
    independent = torch.cuda.Event()
    with torch.cuda.stream(side):
        independent.record()
    before = independent.query()  # nothing on the side stream to wait for
    done = torch.cuda.Event()
    done.record()
    side.wait_event(done)
    dependent = torch.cuda.Event()
    with torch.cuda.stream(side):
        dependent.record()
    return {"independent": before, "dependent": dependent.query(), "idle": side.query()}


@check
def record_stream_keeps_the_block():
    side = torch.cuda.Stream()
    big = torch.empty(8192, 8192, device=D, dtype=torch.bfloat16)
    torch.cuda.synchronize()
    used = torch.empty(32 << 20, device=D, dtype=torch.uint8)
    address = used.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            big @ big
        used.add_(1)
    used.record_stream(side)
    del used
    while_busy = torch.empty(32 << 20, device=D, dtype=torch.uint8)
    was_reused = while_busy.data_ptr() == address
    del while_busy
    torch.cuda.synchronize()
    later = [torch.empty(32 << 20, device=D, dtype=torch.uint8) for _ in range(2)]
    return {
        "reused_while_busy": was_reused,
        "reused_later": address in [t.data_ptr() for t in later],
    }


@check
def checkpoint_round_trip():
    model = torch.nn.Linear(16, 16)
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.to(D)
    optimizer = torch.optim.AdamW(model.parameters())
    torch.save({"model": model.state_dict(), "step": 3}, FOLDER / "model.pt")
    loaded = torch.load(FOLDER / "model.pt", map_location="cpu", weights_only=True)
    again = torch.nn.Linear(16, 16, device=D)
    again.load_state_dict(torch.load(FOLDER / "model.pt", weights_only=True)["model"])
    del optimizer
    return {
        "on_host": all(torch.equal(loaded["model"][n], expected[n]) for n in expected),
        "on_device": all(torch.equal(p.cpu(), expected[n]) for n, p in again.named_parameters()),
        "step": loaded["step"],
    }


@check
def activation_checkpointing():
    from torch.utils.checkpoint import checkpoint

    model = torch.nn.Linear(16, 16).to(D)
    checkpoint(
        model, torch.randn(4, 16, device=D, requires_grad=True), use_reentrant=False
    ).sum().backward()
    return model.weight.grad is not None


@check
def statistics_and_snapshot():
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.memory._record_memory_history(max_entries=1000)
    block = torch.empty(64 << 20, device=D, dtype=torch.uint8)
    taken = torch.cuda.memory_allocated() - before
    torch.cuda.memory._dump_snapshot(str(FOLDER / "snapshot.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)
    with open(FOLDER / "snapshot.pickle", "rb") as file:
        snapshot = pickle.load(file)
    free, total = torch.cuda.mem_get_info()
    del block
    return {
        "taken": taken,
        "traced": [e["action"] for e in snapshot["device_traces"][0]][:2],
        "total": total,
        "used_is_reserved": total - free >= torch.cuda.memory_reserved(),
        "keys": len(torch.cuda.memory_stats()),
    }
