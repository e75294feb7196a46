"""A ResNet in mixed precision, loaded by workers into pinned memory, saved and loaded. Knows nothing of levee."""

import json
import tempfile
from pathlib import Path

import torch
import torchvision
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.full((3, 64, 64), float(index)), index % 10


def train(model, optimizer, scaler):
    labels_seen = []
    loader = DataLoader(Pictures(), batch_size=6, num_workers=2, pin_memory=True)
    for number, (pictures, labels) in enumerate(loader):
        pictures = pictures.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.cuda(non_blocking=True)
        side = (64, 96, 48, 80)[number % 4]
        with torch.autocast("cuda"):
            logits = model(functional.interpolate(pictures, size=(side, side)))
            loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        labels_seen += labels.tolist()
    return labels_seen


def new_job():
    model = torchvision.models.resnet18(num_classes=10).cuda()
    model = model.to(memory_format=torch.channels_last)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def main():
    torch.manual_seed(0)
    model, optimizer = new_job()
    scaler = torch.amp.GradScaler("cuda")
    labels = train(model, optimizer, scaler)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkpoint.pt"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, place)
        del model, optimizer
        model, optimizer = new_job()
        saved = torch.load(place, map_location="cuda")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    del saved
    labels += train(model, optimizer, scaler)
    torch.cuda.synchronize()
    stats = {key: n for key, n in torch.cuda.memory_stats().items() if isinstance(n, int)}
    print(json.dumps({"labels": labels, "stats": stats}))


if __name__ == "__main__":
    main()
