"""Tokens per CPU second of the embedded sampler and of transformers' `generate`, one beside the other, alternately.

usage: python tests/bench/sampler_vs_generate.py [--model DIR] [--rows 128] [--prompt 8] [--new 16] [--group 8]
           [--precision float32|bfloat16] [--threads 1] [--repeat 5]

Without --model a random Qwen3 of 4.7M parameters is made (hidden 256, 6 layers, 83 ids). Every row draws exactly --new
tokens at temperature 1. `generate` gets the same prompts as one batch, in the weights' type that --precision names
(bfloat16 weights are its fastest form). Prints one JSON line; best of the repeats.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    for name, value in (("rows", 128), ("prompt", 8), ("new", 16), ("group", 8), ("threads", 1), ("repeat", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    runs = {"sampler": sampler_run(options), "generate": generate_run(options)}
    seconds = {name: float("inf") for name in runs}
    for repeat in range(options.repeat + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            if repeat:  # the first round warms up
                seconds[name] = min(seconds[name], time.process_time() - start)
    tokens = options.rows * options.new
    print(
        json.dumps(
            {name: round(tokens / taken, 1) for name, taken in seconds.items()}
            | {"ratio": round(seconds["generate"] / seconds["sampler"], 2), "unit": "tokens per CPU second"}
            | vars(options)
        )
    )


def load(options: argparse.Namespace) -> Any:
    from rlcore.train.model import LanguageModel

    if options.model:
        return LanguageModel.load(Path(options.model))
    from tiny import make_tiny

    size = dict(hidden_size=256, intermediate_size=768, num_hidden_layers=6, head_dim=64, max_position_embeddings=512)
    return make_tiny("qwen3", initializer_range=0.02, **size)


def prompts(options: argparse.Namespace) -> list[list[int]]:
    """Groups of equal prompts, all of one length."""
    rng = random.Random(0)
    drawn = [[rng.randrange(5, 70) for _ in range(options.prompt)] for _ in range(-(-options.rows // options.group))]
    return [drawn[row // options.group] for row in range(options.rows)]


def sampler_run(options: argparse.Namespace) -> Any:
    from rlcore.protocols import Request, SamplingParams
    from rlcore.sample.embedded import EmbeddedSampler

    sampler = EmbeddedSampler(load(options), precision=options.precision, max_rows=options.rows)
    params = SamplingParams(max_new_tokens=options.new, ignore_eos=True)
    requests = [Request(tuple(p), params, seed=i, group=i // options.group) for i, p in enumerate(prompts(options))]
    return lambda: sampler.generate(requests)


def generate_run(options: argparse.Namespace) -> Any:
    from transformers import GenerationConfig

    module = load(options).module.to(getattr(torch, options.precision))
    module.set_attn_implementation("sdpa")
    ids = torch.tensor(prompts(options))
    how = GenerationConfig(
        max_new_tokens=options.new,
        min_new_tokens=options.new,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        pad_token_id=0,
        eos_token_id=module.config.eos_token_id,
        disable_compile=True,
    )

    def run() -> None:
        with torch.no_grad():
            module.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=how)

    return run


if __name__ == "__main__":
    main()
