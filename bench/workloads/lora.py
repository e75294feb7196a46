"""Instruction tuning of a Llama-like decoder: frozen bf16 base, LoRA adapters from peft, activation checkpointing.

Recomputed activations come and go layer by layer, between long-lived checkpoints whose size differs from batch to
batch: the
pattern that expandable segments take worst.
"""

from __future__ import annotations

import os

import torch

from .lengths import Lengths


def run(options, meter) -> None:
    """Trains for `options.steps` steps of `options.batch` sequences of 32 to 3,072 tokens."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import peft
    import transformers

    transformers.logging.set_verbosity_error()
    small = options.size == "small"
    longest = 3072
    config = transformers.LlamaConfig(
        hidden_size=512 if small else 2048,
        intermediate_size=1376 if small else 5504,
        num_hidden_layers=4 if small else 22,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=longest,
        use_cache=False,
    )
    with torch.device("cuda"):
        base = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.enable_input_require_grads()
    adapters = peft.LoraConfig(
        r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]
    )
    model = peft.get_peft_model(base, adapters)
    model.train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4)
    lengths = Lengths("conv", options.seed, 32, longest)
    for _ in range(options.steps):
        width = max(lengths.batch(options.batch))
        ids = torch.zeros(options.batch, width, dtype=torch.long, device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del loss, ids
        meter.step()
