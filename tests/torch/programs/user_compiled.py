"""A compiled training and a compiled model that is asked now and then, with CUDA graphs. Knows nothing of levee.

PyTorch captures the graphs on a stream of its own, launches them on the current one, and frees outputs in between;
inputs of two shapes make a tree with branches, on which its pool goes back to earlier states.
"""

import json
import sys

import torch
from torch import nn


def network():
    return nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64)
    ).cuda()


def train():
    model = network()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(torch.randn(32, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return optimizer.state[model[0].weight]["step"].dim()


@torch.no_grad()
def ask():
    first = torch.compile(network(), mode="reduce-overhead", dynamic=False)
    second = torch.compile(network(), mode="reduce-overhead", dynamic=False)
    side = torch.cuda.Stream()
    kept = []
    for step in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        out = first(torch.randn(16 if step % 3 else 8, 64, device="cuda"))
        if step % 2:
            out = second(out)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # reads an output elsewhere, and is waited for
            kept.append(out.clone())
        torch.cuda.current_stream().wait_stream(side)
        del out
    torch.cuda.synchronize()
    return [list(one.shape) for one in kept]


def main():
    torch.manual_seed(0)
    said = {"argv": sys.argv[1:], "step": train(), "shapes": ask()}
    torch.cuda.synchronize()
    stats = {key: n for key, n in torch.cuda.memory_stats().items() if isinstance(n, int)}
    print(json.dumps({**said, "stats": stats}))


if __name__ == "__main__":
    main()
