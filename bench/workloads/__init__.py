"""Real PyTorch training and serving loops with batches of changing length.

Each workload is one module with a `run(options, meter)`; `cli.py` prepares the process (allocator, GPU or simulated
GPU) and
`measure.py` counts. Values do not matter to any of them: what they exercise is which memory is asked for, when, on
which
stream, and how that changes from batch to batch.
"""

WORKLOADS = {
    "decoder": "GPT-style decoder of GPT-2-medium's shape, padded batches, bf16 autocast, fused AdamW",
    "encoder": "BERT-like classifier fine-tuned with Hugging Face's Trainer and dynamic padding",
    "lora": "Llama-like decoder, frozen bf16 base with LoRA adapters (peft), activation checkpointing",
    "generate": "batched generation with a key/value cache that grows by concatenation",
}
