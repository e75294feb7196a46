"""Training as programs do it: autograd, optimizers, mixed precision, attention, cuDNN."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from checks import check

D = "cuda"


def steps_of(model, make_input, optimizer, steps=3):
    for _ in range(steps):
        loss = model(make_input()).float().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return len([p for p in model.parameters() if p.grad is not None])


@check
def device():
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "memory": properties.total_memory,
        "capability": torch.cuda.get_device_capability(),
    }


@check
def autograd_with_adamw():
    model = nn.Sequential(
        nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Dropout(0.1), nn.Linear(128, 10)
    ).to(D)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = F.cross_entropy(
            model(torch.randn(8, 64, device=D)), torch.randint(0, 10, (8,), device=D)
        )
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    states = sum(len(s) for s in optimizer.state.values())
    return {"loss": loss.item(), "norm": norm.item(), "states": states}


@check
def fused_and_foreach_adamw():
    results = []
    for options in ({"fused": True}, {"foreach": True}):
        model = nn.Linear(32, 32).to(D)
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        results.append(steps_of(model, lambda: torch.randn(4, 32, device=D), optimizer))
    return results


@check
def bf16_autocast():
    model = nn.Linear(64, 64).to(D)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(torch.randn(8, 64, device=D))
    out.float().sum().backward()
    return [str(out.dtype), str(model.weight.grad.dtype)]


@check
def grad_scaler():
    model = nn.Linear(16, 16).to(D)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(4, 16, device=D)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return {"scale": scaler.get_scale(), "momenta": len(optimizer.state)}


def attention(backend, dtype, masked=False):
    q = torch.randn(2, 4, 64, 32, device=D, dtype=dtype, requires_grad=True)
    mask = torch.ones(2, 1, 64, 64, device=D, dtype=torch.bool) if masked else None
    if backend is None:
        out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=not masked)
    else:
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=not masked)
    out.sum().backward()
    return out.grad_fn.name()


@check
def attention_backends():
    return {
        "math": attention(SDPBackend.MATH, torch.float32),
        "flash": attention(SDPBackend.FLASH_ATTENTION, torch.bfloat16),
        "efficient": attention(SDPBackend.EFFICIENT_ATTENTION, torch.float32),
        "cudnn": attention(SDPBackend.CUDNN_ATTENTION, torch.bfloat16),
    }


@check
def attention_that_pytorch_chooses():
    return {
        "fp32": attention(None, torch.float32),
        "bf16": attention(None, torch.bfloat16),
        "masked": attention(None, torch.bfloat16, masked=True),
    }


@check
def convolution_and_batch_norm():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.ConvTranspose2d(8, 4, 3)).to(D)
    out = model(torch.randn(2, 3, 16, 16, device=D))
    out.sum().backward()
    return {"shape": list(out.shape), "grads": sum(p.grad is not None for p in model.parameters())}


@check
def convolution_channels_last_bf16_benchmark():
    torch.backends.cudnn.benchmark = True
    model = nn.Conv2d(8, 16, 3, padding=1).to(D, memory_format=torch.channels_last)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(torch.randn(2, 8, 9, 13, device=D).to(memory_format=torch.channels_last))
    out.float().sum().backward()
    torch.backends.cudnn.benchmark = False
    return {
        "shape": list(out.shape),
        "channels_last": out.is_contiguous(memory_format=torch.channels_last),
    }


@check
def recurrent_networks():
    shapes = {}
    for name, network in (
        ("lstm", nn.LSTM(12, 16, num_layers=2, bidirectional=True)),
        ("lstm_projected", nn.LSTM(12, 16, proj_size=5)),
        ("gru", nn.GRU(12, 16, num_layers=2, dropout=0.1)),
        ("rnn_without_bias", nn.RNN(12, 16, bias=False)),
    ):
        network = network.to(D)
        out, _ = network(torch.randn(5, 3, 12, device=D))
        out.sum().backward()
        missing = [n for n, p in network.named_parameters() if p.grad is None]
        shapes[name] = [list(out.shape), missing]
    return shapes


@check
def recurrent_weights_stay_one_buffer():
    # cuDNN's layout: PyTorch copies the parameters into one buffer and complains if they are not adjacent in it.
    network = nn.LSTM(12, 16, num_layers=2, bidirectional=True).to(D)
    network.flatten_parameters()
    pointers = [p.data_ptr() for p in network.parameters()]
    size = sum(p.numel() for p in network.parameters()) * 4
    return {
        "distinct": len(set(pointers)) == len(pointers),
        "span": max(pointers) - min(pointers),
        "size": size,
    }


@check
def embedding_and_indexing():
    table = nn.Embedding(100, 16).to(D)
    rows = table(torch.randint(0, 100, (4, 8), device=D))
    values = torch.randn(50, 6, device=D, requires_grad=True)
    picked = values[torch.randint(0, 50, (7,), device=D)]
    top = torch.topk(torch.randn(10, 1000, device=D), 5).values
    (rows.sum() + picked.sum()).backward()
    return [list(rows.shape), list(picked.shape), list(top.shape), list(values.grad.shape)]


@check
def matmul_takes_the_time_of_its_arithmetic():
    def milliseconds(dtype, n):
        a = torch.empty(n, n, device=D, dtype=dtype)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        a @ a
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    torch.backends.cuda.matmul.allow_tf32 = False
    times = {
        "half": milliseconds(torch.bfloat16, 8192),
        "half_small": milliseconds(torch.bfloat16, 4096),
    }
    times["single"] = milliseconds(torch.float32, 8192)
    torch.backends.cuda.matmul.allow_tf32 = True
    times["tf32"] = milliseconds(torch.float32, 8192)
    return times
