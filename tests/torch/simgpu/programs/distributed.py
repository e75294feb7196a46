"""Two ranks, started by torchrun, each on a simulated GPU of its own: what they tell each other is true."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from checks import check

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
D = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
FOLDER = Path(os.environ["SIMGPU_TEST_FOLDER"])
torch.cuda.set_device(D)
dist.init_process_group("nccl", device_id=D)


def here(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(D)


@check
def reductions():
    results = {}
    for op in ("SUM", "PRODUCT", "MAX", "MIN", "AVG"):
        x = here([1.0 + RANK, 4.0 - RANK])
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        results[op] = x.cpu().tolist()
    x = here([3.0 + RANK])
    dist.reduce(x, 0)
    results["reduce"] = x.item() if RANK == 0 else None
    return results


@check
def types():
    results = {}
    for dtype in (
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int32,
        torch.int64,
        torch.uint8,
    ):
        x = here([1 + RANK, 100], dtype)
        dist.all_reduce(x)
        results[str(dtype)] = x.cpu().tolist()
    return results


@check
def gathers_and_scatters():
    gathered = [torch.zeros(2, device=D) for _ in range(WORLD)]
    dist.all_gather(gathered, here([RANK, RANK + 10.0]))
    flat = torch.zeros(2 * WORLD, device=D)
    dist.all_gather_into_tensor(flat, here([RANK, -1.0]))
    given = torch.zeros(1, device=D)
    dist.scatter(given, [here([7.0]), here([8.0])] if RANK == 0 else None, src=0)
    swapped = torch.zeros(WORLD, device=D)
    dist.all_to_all_single(swapped, here([RANK * 10.0, RANK * 10.0 + 1]))
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK})
    return {
        "gathered": [t.cpu().tolist() for t in gathered],
        "flat": flat.cpu().tolist(),
        "given": given.item(),
        "swapped": swapped.cpu().tolist(),
        "objects": objects,
    }


@check
def reduce_scatter_of_true_bytes():
    out = torch.zeros(2, device=D)
    dist.reduce_scatter_tensor(out, here([1.0, 2.0, 3.0, 4.0]))
    return out.cpu().tolist()


@check
def broadcast_and_pairs():
    x = here([5.0, 6.0]) if RANK == 1 else torch.zeros(2, device=D)
    dist.broadcast(x, 1)
    y = torch.zeros(3, device=D)
    if RANK == 0:
        dist.send(here([1.0, 2.0, 3.0]), 1)
    else:
        dist.recv(y, 0)
    box = torch.zeros(1, device=D)
    operations = [
        dist.P2POp(dist.isend, here([RANK + 0.5]), 1 - RANK),
        dist.P2POp(dist.irecv, box, 1 - RANK),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    return {"broadcast": x.cpu().tolist(), "received": y.cpu().tolist(), "swapped": box.item()}


@check
def large_collectives_keep_ranks_in_step():
    # Above the limit contents are not exchanged; the call must come back on every rank and take modelled time.
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x = torch.empty(256 << 20, device=D, dtype=torch.uint8)
    torch.cuda.synchronize()
    begin.record()
    dist.all_reduce(x)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


@check
def groups():
    alone = [dist.new_group([rank]) for rank in range(WORLD)]
    both = dist.new_group(list(range(WORLD)))
    x, y = here([1.0]), here([1.0])
    dist.all_reduce(x, group=alone[RANK])
    dist.all_reduce(y, group=both)
    dist.barrier()
    return [x.item(), y.item()]


@check
def split_group():
    part = dist.split_group(split_ranks=[[0], [1]])
    x = here([2.0 + RANK])
    dist.all_reduce(x, group=part)
    return x.item()


@check
def data_parallel_training():
    torch.manual_seed(RANK)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    wrapped = DistributedDataParallel(model.to(D), device_ids=[D.index])
    optimizer = torch.optim.AdamW(wrapped.parameters())
    for _ in range(3):
        wrapped(torch.randn(8, 16, device=D)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(wrapped.module.state_dict(), FOLDER / f"rank{RANK}.pt")
    dist.barrier()
    other = torch.load(FOLDER / f"rank{1 - RANK}.pt", map_location="cpu", weights_only=True)
    mine = wrapped.module.state_dict()
    return all(torch.equal(mine[n].cpu(), other[n]) for n in other)


@check
def data_parallel_training_of_unequal_batches():
    # Several buckets of gradients, and ranks that take turns with the longer batch. What each step
    # took beyond the host's own time: the clocks of the ranks must not drive each other up.
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(10))).to(D)
    wrapped = DistributedDataParallel(model, device_ids=[D.index])
    beyond = []
    for step in range(6):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin_host = time.monotonic()
        begin.record()
        wrapped(torch.randn(2000 if (step + RANK) % 2 else 100, 2048, device=D)).sum().backward()
        end.record()
        host = time.monotonic() - begin_host
        torch.cuda.synchronize()
        beyond.append(begin.elapsed_time(end) / 1000 - host)
    return beyond


@check
def sharded_training():
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 4)).to(D)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(8, 16, device=D)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.to_local().numel() for p in model.parameters()]


# Last: one rank raises, the other goes on alone and must not wait for ever.
@check
def data_parallel_refuses_other_shapes():
    model = nn.Linear(4 + RANK, 2).to(D)
    try:
        DistributedDataParallel(model, device_ids=[D.index])
    except RuntimeError as error:
        return str(error)
    return ""


dist.destroy_process_group()


@check
def after_the_end():
    return not dist.is_initialized()
