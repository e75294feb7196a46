"""Resumes training from a checkpoint loaded onto the card; far less is kept of copies than it is large."""

import os
from pathlib import Path

import torch
from torch import nn

from checks import check

FILE = Path(os.environ["SIMGPU_TEST_FOLDER"]) / "checkpoint.pt"


def train(model, optimizer):
    model(torch.randn(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def new_pair():
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).cuda()
    return model, torch.optim.AdamW(model.parameters())


@check
def resumed_on_the_card():
    model, optimizer = new_pair()
    for _ in range(3):
        train(model, optimizer)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, FILE)
    del model, optimizer
    model, optimizer = new_pair()
    found = torch.load(FILE, map_location="cuda")
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    del found
    train(model, optimizer)
    return sorted({float(state["step"]) for state in optimizer.state.values()})
