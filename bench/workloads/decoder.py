"""Pre-training of a GPT-style decoder: batches padded to their longest sequence, bf16 autocast, fused AdamW, clipping.

Shape of GPT-2 medium (24 layers, 1,024 wide, 16 heads, 50,257 words) unless made smaller. The logits of a long batch
are by far the
largest tensor, and their size differs in nearly every step: that is what tears an allocator's cache apart.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from .lengths import Lengths


class DecoderBlock(nn.Module):
    """Attention and MLP, each behind a LayerNorm, causal."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(self.norm1(x))
            .view(batch, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Token and position embeddings, blocks, and an output projection that shares the embedding."""

    def __init__(self, words: int, longest: int, width: int, layers: int, heads: int):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def run(options, meter) -> None:
    """Trains for `options.steps` steps. Batch: `options.batch` sequences of 16 to `longest` tokens."""
    longest, words = 2048, 50257
    small = options.size == "small"
    with torch.device("cuda"):
        model = Decoder(words, longest, 256 if small else 1024, 4 if small else 24, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    lengths = Lengths("conv", options.seed, 16, longest)
    for _ in range(options.steps):
        width = max(lengths.batch(options.batch))
        ids = (
            torch.zeros(options.batch, width, dtype=torch.long)
            .pin_memory()
            .to("cuda", non_blocking=True)
        )
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids)
            loss = functional.cross_entropy(
                logits[:, :-1].reshape(-1, words).float(), ids[:, 1:].reshape(-1)
            )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del logits, loss, ids
        meter.step()
