"""Hugging Face's Trainer and accelerate under torchrun, with a small model of random weights."""

import os
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from checks import check

RANK = int(os.environ["RANK"])
FOLDER = Path(os.environ["SIMGPU_TEST_FOLDER"])


class Sentences(Dataset):
    """Token ids of changing length; the labels are true, since they only travel."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        length = 4 + index % 5
        return {"input_ids": torch.arange(length), "labels": index % 2}


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for row, to_ids, to_mask in zip(rows, ids, mask):
        to_ids[: len(row["input_ids"])] = row["input_ids"]
        to_mask[: len(row["input_ids"])] = 1
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": torch.tensor([r["labels"] for r in rows]),
    }


@check
def trainer():
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
    }
    model = BertForSequenceClassification(BertConfig(vocab_size=50, **sizes))
    arguments = TrainingArguments(
        output_dir=str(FOLDER / "trainer"),
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        max_steps=3,
        bf16=True,
        report_to=[],
        logging_steps=1,
        save_steps=3,
        disable_tqdm=True,
    )
    runner = Trainer(
        model=model,
        args=arguments,
        train_dataset=Sentences(),
        eval_dataset=Sentences(),
        data_collator=collate,
    )
    steps = runner.train().global_step
    predicted = runner.predict(Sentences())
    runner.accelerator.wait_for_everyone()
    return {
        "steps": steps,
        "labels": predicted.label_ids.tolist(),
        "logits": list(predicted.predictions.shape),
        "saved": (FOLDER / "trainer" / "checkpoint-3" / "model.safetensors").exists(),
    }


@check
def accelerator():
    accelerate = Accelerator()
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader([torch.full((4,), float(i)) for i in range(8)], batch_size=2)
    model, optimizer, loader = accelerate.prepare(model, optimizer, loader)
    seen = []
    for batch in loader:
        accelerate.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()
        seen.append(accelerate.gather(batch[:, 0]).cpu().tolist())
    padded = accelerate.pad_across_processes(torch.ones(2 + RANK).to(accelerate.device))
    accelerate.wait_for_everyone()
    accelerate.end_training()
    return {"seen": sorted(sum(seen, [])), "padded": padded.cpu().tolist()}
