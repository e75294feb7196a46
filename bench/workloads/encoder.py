"""Fine-tuning of a BERT-like classifier with Hugging Face's Trainer and dynamic padding, as its examples do it.

Random weights and made-up token ids, no download. The Trainer's own loop, optimizer, data loader and collator run;
only a callback is ours.
"""

from __future__ import annotations

import os
import tempfile

import torch

from .lengths import Lengths


class _Sentences(torch.utils.data.Dataset):
    """`count` sentences of realistic lengths; every token id is 7."""

    def __init__(self, count: int, seed: int, longest: int):
        lengths = Lengths("conv", seed, 8, 4096)
        # Prompts of chat services are longer than what BERT takes: an eighth of them has the spread of sentence pairs.
        self._lengths = [max(8, min(longest, n // 8)) for n in lengths.batch(count)]

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"input_ids": [7] * self._lengths[index], "labels": index % 2}


def _tokenizer():
    """A tokenizer with BERT's special tokens and no vocabulary file: the collator needs it only for padding."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {
        token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    }
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")


def run(options, meter) -> None:
    """Trains for `options.steps` steps of `options.batch` * 4 sentences of up to 512 tokens."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    small = options.size == "small"
    config = transformers.BertConfig(
        hidden_size=256 if small else 1024,
        num_hidden_layers=4 if small else 24,
        num_attention_heads=4 if small else 16,
        intermediate_size=1024 if small else 4096,
        num_labels=2,
    )
    with torch.device("cuda"):
        model = transformers.BertForSequenceClassification(config)

    class Marks(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            meter.step()

    batch = options.batch * 4
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=batch,
            bf16=True,
            learning_rate=2e-5,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=0,
            dataloader_pin_memory=True,
            seed=options.seed,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=_Sentences(options.steps * batch, options.seed, 512),
            data_collator=transformers.DataCollatorWithPadding(_tokenizer()),
            callbacks=[Marks()],
        )
        trainer.train()
