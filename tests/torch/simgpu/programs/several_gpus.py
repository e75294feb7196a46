"""Several simulated GPUs in one process: copies between them, collectives, data parallel modules."""

import torch
from torch import nn

from checks import check


@check
def devices():
    return [
        torch.cuda.device_count(),
        sorted({torch.cuda.get_device_properties(i).name for i in range(3)}),
    ]


@check
def each_has_its_own_memory():
    block = torch.empty(1 << 30, device="cuda:1", dtype=torch.uint8)
    used = [torch.cuda.mem_get_info(i)[1] - torch.cuda.mem_get_info(i)[0] for i in range(3)]
    del block
    torch.cuda.empty_cache()
    return [used[0] < 1 << 30, used[1] >= 1 << 30, used[2] < 1 << 30]


@check
def copies_between_devices():
    values = torch.arange(1000)
    there = values.to("cuda:0").to("cuda:2")
    return [
        there.device.index,
        torch.equal(there.cpu(), values),
        torch.cuda.can_device_access_peer(0, 1),
    ]


@check
def collectives_of_one_process():
    tensors = [torch.full((5,), float(i + 1)).to(f"cuda:{i}") for i in range(3)]
    torch.cuda.nccl.all_reduce(tensors)
    reduced = [t.cpu().tolist() for t in tensors]
    sources = [
        torch.arange(4.0).to("cuda:0"),
        *(torch.zeros(4, device=f"cuda:{i}") for i in (1, 2)),
    ]
    torch.cuda.nccl.broadcast(sources)
    pieces = [torch.full((2,), i).to(f"cuda:{i}") for i in range(3)]
    gathered = [torch.zeros(6, dtype=torch.int64, device=f"cuda:{i}") for i in range(3)]
    torch.cuda.nccl.all_gather(pieces, gathered)
    return {
        "reduced": reduced,
        "broadcast": sources[2].cpu().tolist(),
        "gathered": gathered[1].cpu().tolist(),
    }


@check
def broadcast_and_gather_of_comm():
    from torch.cuda import comm

    copies = comm.broadcast(torch.arange(3.0).to("cuda:0"), (0, 1, 2))
    whole = comm.gather(copies, destination=1)
    return [[c.cpu().tolist() for c in copies], whole.cpu().tolist()]


@check
def data_parallel():
    model = nn.DataParallel(nn.Linear(8, 4).to("cuda:0"), device_ids=[0, 1, 2])
    out = model(torch.randn(9, 8, device="cuda:0"))
    out.sum().backward()
    return [list(out.shape), model.module.weight.grad is not None]


@check
def model_split_over_devices():
    first, second = nn.Linear(8, 8).to("cuda:0"), nn.Linear(8, 2).to("cuda:1")
    out = second(first(torch.randn(4, 8, device="cuda:0")).to("cuda:1"))
    out.sum().backward()
    return [out.device.index, first.weight.grad.device.index, second.weight.grad.device.index]
