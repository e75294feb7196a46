"""Copies that a program can see, pinned memory, streams and events, DataLoader, checkpoints, statistics."""

import gc
import itertools
import math
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


def _dirty():
    """Leaves bytes of copies in the blocks that the next requests of these sizes get."""
    kept = [torch.full((n,), 7, dtype=torch.int64).to(D) for n in (1, 8, 64, 512, 4096) * 4]
    kept += [torch.full((n,), 7.0).to(D) for n in (70_000, 300_000) * 2]
    torch.cuda.synchronize()
    del kept


@check
def no_kernel_shows_bytes_of_a_former_owner():
    """The names of the operators whose results were not zero everywhere."""
    x = torch.full((64, 64), 3.0).to(D)
    image = torch.full((2, 4, 16, 16), 3.0).to(D)
    ids = torch.full((8, 8), 5).to(D)
    index = torch.full((8,), 1).to(D)
    f = torch.nn.functional
    norm = torch.nn.BatchNorm2d(4).to(D)
    operators = {
        "index": lambda: x[index],
        "index_select": lambda: torch.index_select(x, 0, index),
        "gather": lambda: torch.gather(ids, 1, index.unsqueeze(1)),
        "masked_select": lambda: x[x > 0],
        "where": lambda: torch.where(x > 0, x, x),
        "argmax": lambda: x.argmax(-1),
        "max": lambda: x.max(-1),
        "arange": lambda: torch.arange(64, device=D),
        "sum": lambda: x.sum(0),
        "mean": lambda: x.mean(),
        "cumsum": lambda: ids.cumsum(0),
        "topk": lambda: x.topk(3),
        "unique": lambda: torch.unique(ids),
        "layer_norm": lambda: f.layer_norm(x, (64,)),
        "rms_norm": lambda: f.rms_norm(x, (64,)),
        "batch_norm": lambda: norm(image),
        "group_norm": lambda: f.group_norm(image, 2),
        "softmax": lambda: x.softmax(-1),
        "cross_entropy": lambda: f.cross_entropy(x, torch.full((64,), 1).to(D)),
        "max_pool2d": lambda: f.max_pool2d(image, 2),
        "interpolate": lambda: f.interpolate(image, scale_factor=2.0, mode="bilinear"),
        "embedding": lambda: f.embedding(index, x),
        "one_hot": lambda: f.one_hot(index, 9),
        "multinomial": lambda: torch.multinomial(x.softmax(-1), 1),
        "attention": lambda: f.scaled_dot_product_attention(*[image.to(torch.bfloat16)] * 3),
        "attention_float": lambda: f.scaled_dot_product_attention(image, image, image),
        "to_half": lambda: x.to(torch.float16),
        "foreach": lambda: torch._foreach_add([x, x], 1.0)[0],
        "norms": lambda: torch._foreach_norm([x, x])[0],
        "scatter_reduce": lambda: torch.zeros(64, device=D).scatter_reduce(
            0, index, x[0, :8], "sum"
        ),
        "big": lambda: torch.full((300_000,), 1.0).to(D) * 2,
    }
    found = {}
    for name, operator in operators.items():
        _dirty()
        result = operator()
        first = result if isinstance(result, torch.Tensor) else result[0]
        if first.detach().cpu().float().abs().sum().item() != 0:
            found[name] = first.detach().cpu().flatten()[:4].tolist()
    return {"tried": len(operators), "stale": found}


@check
def kernels_that_only_move_bytes_are_true():
    """Shapes and types whose concatenation, transposition or slices differ from the host's."""
    wrong = []
    tried = 0

    def compare(what, on_device, on_host):
        nonlocal tried
        tried += 1
        if not torch.equal(on_device.cpu(), on_host):
            wrong.append(what)

    def numbered(shape, dtype):
        return (torch.arange(math.prod(shape)) % 113 + 1).to(dtype).reshape(shape)

    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64):
        for shape in ((8,), (3, 5), (2, 3, 4), (2, 8, 16, 8)):
            for axis in range(len(shape)):
                for count in (2, 5, 130):
                    parts = []
                    for i in range(count):
                        size = list(shape)
                        size[axis] += i % 3
                        parts.append(numbered(size, dtype))
                    _dirty()
                    joined = torch.cat([part.to(D) for part in parts], axis)
                    compare(f"cat {dtype} {shape} {axis} {count}", joined, torch.cat(parts, axis))
            whole = numbered(shape, dtype)
            for order in itertools.permutations(range(len(shape))):
                _dirty()
                turned = whole.to(D).permute(order).contiguous()
                compare(f"permute {dtype} {shape} {order}", turned, whole.permute(order))
    grid = numbered((6, 8), torch.float32)
    there = grid.to(D)
    halves = torch.cat([there[:, ::2], there[:, 1::2]], 1)
    compare("cat of slices", halves, torch.cat([grid[:, ::2], grid[:, 1::2]], 1))
    target = torch.full((6, 8), 9.0).to(D)
    target[:, 2:5] = there[:, 2:5]
    expected = torch.full((6, 8), 9.0)
    expected[:, 2:5] = grid[:, 2:5]
    compare("assignment to a slice", target, expected)
    compare("expand", there[:1].expand(6, 8).contiguous(), grid[:1].expand(6, 8).contiguous())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        joined = torch.cat([there, there])
        turned = there.t().contiguous()
    there.copy_(grid + 1)
    graph.replay()
    compare("cat in a graph", joined, torch.cat([grid + 1, grid + 1]))
    compare("transposed in a graph", turned, (grid + 1).t())
    return {"tried": tried, "wrong": wrong}


@check
def small_results_that_decide_are_true():
    """What loops and branches ask: fills, logic on whole numbers, their maximum; and that floats stay zeros."""
    _dirty()
    unfinished = torch.ones(3, dtype=torch.long, device=D)
    is_done = torch.full((3,), False, device=D) | torch.tensor([True, False, True]).to(D)
    left = unfinished & ~is_done
    numbers = torch.tensor([5, -2, 5], dtype=torch.int32).to(D)
    return {
        "left": left.tolist(),
        "finished": [(left.max() == 0).item(), ((left & 0).max() == 0).item()],
        "compared": [(numbers == 5).tolist(), (numbers != 5).tolist(), (5 == numbers).tolist()],
        "reduced": [numbers.max().item(), numbers.min().item(), left.sum().item()],
        "any and all": [is_done.any().item(), is_done.all().item(), (~is_done).all().item()],
        "inverted": (~numbers).tolist(),
        "product": (left * torch.tensor([3, 4, 5]).to(D)).tolist(),
        "filled": torch.full((3,), 2.5, device=D).tolist(),
        "computed": (torch.full((3,), 2.5, device=D) * 2).tolist(),
        "many": torch.full((5000,), 7, device=D).max().item(),
    }


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
