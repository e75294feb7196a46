"""Serving: batches of prompts, then token after token with a key/value cache that grows by concatenation.

Every generated token makes each layer's cache one token longer, in a new allocation. Answers stop after as many
tokens as the recorded service gave;
the values that the model computes do not matter.
"""

from __future__ import annotations

import os

import torch

from .lengths import Lengths


def run(options, meter) -> None:
    """Serves `options.steps` batches of `options.batch` requests: prompts of 16 to 3,072 tokens, at most 48
    answer tokens."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    small = options.size == "small"
    config = transformers.LlamaConfig(
        hidden_size=512 if small else 2048,
        intermediate_size=1376 if small else 5504,
        num_hidden_layers=4 if small else 16,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=32000,
        max_position_embeddings=4096,
    )
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.eval()
    lengths = Lengths("conv", options.seed, 16, 3072)
    with torch.inference_mode():
        for _ in range(options.steps):
            requests = [lengths.request() for _ in range(options.batch)]
            prompt = max(request.context for request in requests)
            answer = min(48, max(request.generated for request in requests))
            ids = torch.zeros(options.batch, prompt, dtype=torch.long, device="cuda")
            cache = transformers.DynamicCache()
            for _ in range(answer):
                logits = model(
                    input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1
                ).logits
                ids = logits[:, -1].argmax(-1, keepdim=True)
            del cache, logits, ids
            meter.step()
