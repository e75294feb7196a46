"""Adapters trained on a language model of random weights, then text generated. Knows nothing of levee."""

import json

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    base = LlamaForCausalLM(LlamaConfig(vocab_size=300, **sizes, **heads)).to(torch.bfloat16)
    adapters = LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(base.cuda(), adapters)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for length in (20, 70, 45):
        ids = torch.randint(1, 300, (2, length)).cuda()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    prompt = torch.randint(1, 300, (2, 12))
    with torch.no_grad():
        text = model.generate(
            input_ids=prompt.cuda(),
            attention_mask=torch.ones_like(prompt).cuda(),
            max_new_tokens=10,
            pad_token_id=0,
        ).cpu()
    torch.cuda.synchronize()
    stats = {key: n for key, n in torch.cuda.memory_stats().items() if isinstance(n, int)}
    kept = torch.equal(text[:, :12], prompt)
    print(json.dumps({"shape": list(text.shape), "prompt": kept, "stats": stats}))


if __name__ == "__main__":
    main()
