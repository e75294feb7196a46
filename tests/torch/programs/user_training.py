"""A training as people write it. Knows nothing of levee.

Loader workers, pinned batches of changing length, autocast with GradScaler, a convolution in channels_last,
clipping, a schedule, checkpoints, a profiler.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        length = int(torch.randint(10, 200, (1,), generator=generator))
        return torch.randint(0, 500, (length,), generator=generator), index % 5


def collate(rows):
    ids = nn.utils.rnn.pad_sequence([ids for ids, _ in rows], batch_first=True)
    return ids, torch.tensor([label for _, label in rows])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 128)
        self.layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
        self.convolution = nn.Conv2d(1, 8, 3, padding=1)
        self.head = nn.Linear(128, 5)

    def forward(self, ids):
        hidden = self.layer(self.embedding(ids))
        image = hidden.unsqueeze(1).to(memory_format=torch.channels_last)
        return self.head(self.convolution(image).mean(1).mean(1))


def main():
    folder = Path(tempfile.mkdtemp())
    torch.manual_seed(0)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4)
    order = torch.Generator().manual_seed(1)
    loader = DataLoader(
        Sequences(), 4, True, num_workers=2, pin_memory=True, collate_fn=collate, generator=order
    )
    with torch.profiler.profile(profile_memory=True) as profiler:
        for ids, labels in loader:
            ids = ids.cuda(non_blocking=True)
            labels = labels.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(ids), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
    assert any(event.key == "[memory]" for event in profiler.key_averages())
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "c.pt")
    saved = torch.load(folder / "c.pt", map_location="cuda")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    del saved
    torch.cuda.synchronize()
    stats = {key: n for key, n in torch.cuda.memory_stats().items() if isinstance(n, int)}
    print(json.dumps({"argv": sys.argv[1:], "stats": stats, "last": labels.sum().item()}))


if __name__ == "__main__":
    main()
