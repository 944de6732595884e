"""Reward models for tests: tiny random sequence classifiers, and one that is trained on pairs of answers to sums."""

import random

import torch
import torch.nn.functional as F

from tests.tiny import CHARACTERS, character_tokenizer, tiny_config

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
SUMS = {f"{a}+{b}=": str(a + b) for a in range(5) for b in range(5)}


def classifier(*, seed=0, labels=1, tokenizer=None, family="qwen3", **overrides):
    """A random classifier whose padding token is the tokenizer's."""
    from transformers import AutoModelForSequenceClassification

    tokenizer = tokenizer or character_tokenizer()
    config = tiny_config(
        family,
        **{**SIZES, "head_dim": 8, "num_labels": labels, "initializer_range": 0.1, "vocab_size": len(tokenizer)},
        **overrides,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForSequenceClassification.from_config(config).eval()


def save(folder, module=None, tokenizer=None):
    """Write a classifier with its tokenizer as a Hugging Face folder, and return the folder."""
    (module if module is not None else classifier()).save_pretrained(folder)
    (tokenizer or character_tokenizer()).save_pretrained(folder)
    return folder


def pairs(seed=0):
    """(problem, right, wrong) with every wrong character, those of digits four times: to train on, and held out."""
    generator = random.Random(seed)
    made = [
        (prompt, right, wrong)
        for prompt, right in SUMS.items()
        for wrong in CHARACTERS
        if wrong != right and wrong != " "
    ]
    generator.shuffle(made)
    held = made[: len(made) // 5]
    kept = [pair for pair in made[len(held) :] for _ in range(4 if pair[2].isdigit() else 1)]
    return kept, held


def rewards_of(module, tokenizer, texts):
    encoded = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt")
    return module(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits[:, 0]


def trained(steps=100, rows=64, learning_rate=5e-3):
    """A classifier trained by -log sigmoid(r(right) - r(wrong)) (Bradley and Terry 1952), and its tokenizer."""
    tokenizer, module = character_tokenizer(), classifier()
    optimizer = torch.optim.AdamW(module.parameters(), lr=learning_rate)
    generator, (kept, _) = random.Random(1), pairs()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / 10, 1.5 * (1 - step / steps))
        drawn = generator.choices(kept, k=rows)
        texts = [p + right for p, right, _ in drawn] + [p + wrong for p, _, wrong in drawn]
        good, bad = rewards_of(module, tokenizer, texts).split(rows)
        loss = -F.logsigmoid(good - bad).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return module.eval(), tokenizer
