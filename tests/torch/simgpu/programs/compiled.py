"""torch.compile: Inductor with Triton, alone and with CUDA graphs."""

import torch
from torch import nn

from checks import check

D = "cuda"


def model():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).to(D)


def train(compiled, parameters, steps):
    for _ in range(steps):
        compiled(torch.randn(4, 32, device=D)).sum().backward()
    grads = sum(p.grad is not None for p in parameters)
    return grads


@check
def inductor():
    plain = model()
    return train(torch.compile(plain), list(plain.parameters()), 2)


@check
def reduce_overhead():
    plain = model()
    compiled = torch.compile(plain, mode="reduce-overhead")
    grads = 0
    for _ in range(4):
        plain.zero_grad()
        grads = train(compiled, list(plain.parameters()), 1)
    return grads


@check
def inductor_launches_its_own_kernels():
    from torch.profiler import ProfilerActivity, profile

    compiled = torch.compile(lambda x: (x * 2 + 1).relu().sum())
    x = torch.randn(1000, device=D)
    compiled(x)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        compiled(x)
        torch.cuda.synchronize()
    return sorted(r.key for r in profiler.key_averages() if r.key.startswith("triton"))
