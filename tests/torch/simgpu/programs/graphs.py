"""CUDA graphs: capture, replay, graphed callables, and PyTorch's cudagraph trees."""

import torch
from torch import nn

from checks import check

D = "cuda"


def milliseconds(work):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


@check
def capture_and_replay():
    x = torch.ones(1024, device=D)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1).relu()
    graph.replay()
    torch.cuda.synchronize()
    return list(y.shape)


@check
def a_replay_takes_the_time_of_its_nodes():
    a = torch.empty(4096, 4096, device=D, dtype=torch.bfloat16)
    a @ a  # makes the library's workspace outside of the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            a @ a
    return {
        "eager": milliseconds(lambda: [a @ a for _ in range(4)]),
        "replayed": milliseconds(graph.replay),
    }


@check
def copies_of_a_graph_happen_at_every_replay():
    source, target = torch.zeros(8, device=D), torch.zeros(8, device=D)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(source)
    seen = []
    for value in (1.0, 2.0):
        source.copy_(torch.full((8,), value))
        graph.replay()
        seen.append(target.cpu().tolist()[0])
    return seen


@check
def graphed_callable():
    model = nn.Linear(16, 16).to(D)
    graphed = torch.cuda.make_graphed_callables(
        model, (torch.randn(8, 16, device=D, requires_grad=True),)
    )
    graphed(torch.randn(8, 16, device=D, requires_grad=True)).sum().backward()
    return model.weight.grad is not None


@check
def memory_of_a_graph_is_its_own():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = torch.empty(64 << 20, device=D, dtype=torch.uint8)
    address = held.data_ptr()
    del held
    other = torch.empty(64 << 20, device=D, dtype=torch.uint8)
    taken = other.data_ptr() == address
    grown = torch.cuda.memory_reserved() - before
    del graph
    return {"taken": taken, "grown": grown >= 128 << 20}


@check
def cudagraph_trees():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(D)
    compiled = torch.compile(model, backend="cudagraphs")
    for _ in range(4):
        out = compiled(torch.ones(4, 16, device=D))
        out.sum().backward()
        model.zero_grad()
    return list(out.shape)


@check
def capture_of_a_forbidden_call_is_refused():
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            torch.cuda.synchronize()
    except (RuntimeError, torch.AcceleratorError) as error:
        text = str(error)
    else:
        text = ""
    ok = torch.ones(2, device=D) + 1  # the device is usable afterwards
    torch.cuda.synchronize()
    return {"refused": "captur" in text.lower(), "alive": list(ok.shape) == [2]}
