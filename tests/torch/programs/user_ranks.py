"""Two ranks train a small model, wrapped as the first argument says. Knows nothing of levee.

Each rank writes what it saw to rank<number>.json in the current folder.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel


def batches(rank):
    for number in range(8):
        yield torch.full((3, 9 + 13 * (number % 4) + rank, 64), 1.0)


def layers():
    return nn.Sequential(
        *[nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)]
    )


def by_hand(kind, rank):
    model = layers().cuda()
    if kind == "fsdp":
        for layer in model:
            fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
        fully_shard(model)
    else:
        model = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in batches(rank):
        model(batch.cuda()).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def by_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = layers()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for batch in batches(accelerator.process_index):
        with accelerator.accumulate(model):
            accelerator.backward(model(batch.to(accelerator.device)).float().mean())
            optimizer.step()
            optimizer.zero_grad()


def main():
    kind = sys.argv[1]
    rank = int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)
    torch.cuda.set_device(rank)
    if kind == "accelerate":
        by_accelerate()
    else:
        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
        by_hand(kind, rank)
    total = torch.tensor([rank + 1.0], device="cuda")
    dist.all_reduce(total)
    torch.cuda.synchronize()
    stats = {key: n for key, n in torch.cuda.memory_stats().items() if isinstance(n, int)}
    said = {"backend": torch.cuda.get_allocator_backend(), "total": total.item(), "stats": stats}
    with open(f"rank{rank}.json", "w", encoding="utf-8") as file:
        json.dump(said, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
