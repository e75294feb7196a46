"""A training with varying lengths, side streams and odd sizes; prints PyTorch's memory statistics at its end.

Run once with PyTorch's own allocator and once with levee: what the program asks for is the same.
"""

import json
import sys

if sys.argv[1] != "native":
    import levee

    levee.install(door=sys.argv[1])

import torch

torch.manual_seed(1)
device = torch.device("cuda")
lengths = torch.randint(16, 200, (12,), generator=torch.Generator().manual_seed(7)).tolist()
model = torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(96, 4, 192, batch_first=True), num_layers=3
).to(device)
head = torch.nn.Linear(96, 1000).to(device)
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
side = torch.cuda.Stream()
kept = []
for step, length in enumerate(lengths):
    data = torch.randn(4, length, 96).pin_memory().to(device, non_blocking=True)
    loss = torch.nn.functional.cross_entropy(
        head(model(data)).flatten(0, 1), torch.zeros(4 * length, dtype=torch.long, device=device)
    )
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        copy = data * 2
    data.record_stream(side)
    copy.record_stream(torch.cuda.default_stream())
    kept.append(torch.empty(step * 30_011 + 1, device=device))
    if step % 4 == 3:
        torch.cuda.synchronize()
        kept = kept[1::2]
del data, loss, copy
torch.cuda.synchronize()
torch.empty(1, device=device)  # lets the allocator look at what has completed
late = torch.empty(5 << 20, dtype=torch.uint8, device=device)
big = torch.empty(8192, 8192, dtype=torch.bfloat16, device=device)
with torch.cuda.stream(side):
    for _ in range(100):  # a few milliseconds each
        torch.mm(big, big, out=big)
late.record_stream(side)
del late, big
waiting = torch.cuda.memory_stats()
torch.cuda.synchronize()
torch.empty(1, device=device)
stats = torch.cuda.memory_stats()
for counter in ("requested_bytes", "allocation", "active"):
    stats[f"waiting.{counter}"] = waiting[f"{counter}.all.current"]
stats.pop("reserved_bytes_by_private_pools", None)
print(json.dumps({key: value for key, value in stats.items() if isinstance(value, int)}))
