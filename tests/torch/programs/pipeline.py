"""A model spread over two devices, forward and backward; prints each device's memory statistics.

Its blocks are small, and the backward pass runs on a thread for each device, which gives back what the main
thread took: the peaks of such turns are what is compared with PyTorch's own allocator.
"""

import json
import sys

if sys.argv[1] != "native":
    import levee

    levee.install(door=sys.argv[1])

import torch

devices = range(torch.cuda.device_count())
parts = [torch.nn.Linear(64, 64).to(f"cuda:{device}") for device in devices]
for rows in (3, 40, 17, 5):
    hidden = torch.randn(rows, 64, device="cuda:0")
    for device, part in zip(devices, parts):
        hidden = part(hidden.to(f"cuda:{device}")).relu()
    hidden.sum().backward()
del hidden
for device in devices:
    torch.cuda.synchronize(device)
print(json.dumps([torch.cuda.memory_stats(device) for device in devices]))
