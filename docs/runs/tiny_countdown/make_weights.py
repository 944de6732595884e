"""Makes the weights of the default run: a small Qwen3 that knows the form of Countdown, and half of what is right.

    python docs/runs/tiny_countdown/make_weights.py OUT

Supervised training from random weights, on demonstrations made on the fly from the `warm` split of `data=countdown`.
The first steps show right solutions; the last ones mix in careless demonstrations, which use the numbers but do not
look at the target. What comes out knows much more than it shows when sampled, which is what a reward can change.
The README beside this file has the figures of the run that made the weights in the wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from rlcore import Batch
from rlcore.component import bind
from rlcore.protocols import Request, SamplingParams, Term, Update
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.seeding import seeded, stream
from rlcore.train.model import LanguageModel
from rlcore.train.optimizers import adamw
from rlcore.train.schedule import cosine
from rlcore.train.trainer import TrainerConfig
from rlcore_algorithms.losses import nll
from rlcore_algorithms.reductions import token_mean
from rlcore_answers.arithmetic import expression_answer
from rlcore_envs.datasets.countdown import countdown, demonstration, problems

SPECIALS = ("<pad>", "<eos>", "<unk>")
# Every printable character of ASCII and the line break: the tokenizer reads any task of that alphabet.
CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
PAD, EOS, UNK = range(3)


def make_tokenizer():
    """Return a tokenizer of one token per character, which adds nothing to a text and decodes it exactly."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate((*SPECIALS, *CHARACTERS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )


def make_model(*, layers: int, hidden: int, intermediate: int, seed: int) -> LanguageModel:
    """Return a random Qwen3 with that tokenizer."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = make_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    with seeded(seed, "weights"):
        return LanguageModel(Qwen3ForCausalLM(config), tokenizer)


def supervised_batch(model: LanguageModel, shown: list[tuple[str, str]]) -> Batch:
    """Return prompts and completions as rows; the completion and its end are what is trained on."""
    prompts, completions = (model.tokenizer(list(texts))["input_ids"] for texts in zip(*shown, strict=True))
    rows = [(prompt, [*completion, EOS]) for prompt, completion in zip(prompts, completions, strict=True)]
    sampled = [flag for prompt, answer in rows for flag in [False] * len(prompt) + [True] * len(answer)]
    return Batch(
        {
            "tokens": torch.tensor([token for prompt, answer in rows for token in (*prompt, *answer)]),
            "length": torch.tensor([len(prompt) + len(answer) for prompt, answer in rows]),
            "prompt_length": torch.tensor([len(prompt) for prompt, _ in rows]),
            "sampled": torch.tensor(sampled),
            "mask": torch.tensor(sampled),
            "group": torch.arange(len(rows)),
        }
    )


def success(model: LanguageModel, rows: list[dict], *, greedy: bool = False, seed: int = 0) -> float:
    """Return the share of rows solved when each is answered once, sampled at temperature 1 or greedily."""
    sampler = EmbeddedSampler(model, precision="bfloat16", max_rows=512)
    params = SamplingParams(max_new_tokens=16, greedy=greedy)
    requests = [
        Request(tuple(model.tokenizer(row["prompt"])["input_ids"]), params, stream(seed, index), index)
        for index, row in enumerate(rows)
    ]
    texts = [model.tokenizer.decode(done.tokens, skip_special_tokens=True) for done in sampler.generate(requests)]
    grades = [expression_answer(text, row["target"], row["numbers"]) for text, row in zip(texts, rows, strict=True)]
    return sum(grades) / len(grades)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=4000, help="with right demonstrations only")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--careless-steps", type=int, default=400, help="with the careless share, after them")
    parser.add_argument("--careless-learning-rate", type=float, default=3e-4)
    parser.add_argument("--careless", type=float, default=0.4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--start", type=Path, help="a folder to start from, in place of random weights")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--intermediate", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report-every", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = {"layers": options.layers, "hidden": options.hidden, "intermediate": options.intermediate}
    model = LanguageModel.load(options.start) if options.start else make_model(**size, seed=options.seed)
    right = {"name": "right", "steps": options.steps, "learning_rate": options.learning_rate, "careless": 0.0}
    careless = {
        "name": "careless",
        "steps": options.careless_steps,
        "learning_rate": options.careless_learning_rate,
        "careless": options.careless,
    }
    for phase, folder in ((right, options.out / "right"), (careless, options.out)):
        if phase["steps"]:
            teach(model, folder, **phase, batch=options.batch, seed=options.seed, every=options.report_every)


def teach(
    model: LanguageModel,
    folder: Path,
    *,
    name: str,
    steps: int,
    learning_rate: float,
    careless: float,
    batch: int,
    seed: int,
    every: int,
) -> None:
    """Train on demonstrations of which a share is careless; print figures and save now and then, and at the end."""
    trainer = TrainerConfig(
        learning_rate=learning_rate,
        optimizer=bind(adamw, betas=(0.9, 0.98), weight_decay=0.01),
        schedule=bind(cosine, warmup_steps=min(50, steps)),
        total_steps=steps,
    ).start(model)
    heldout, warm = countdown(split="heldout", rows=1024), countdown(split="warm", rows=512)
    update = Update(terms=(Term(nll, token_mean),))
    generator = random.Random(stream(seed, "demonstrations", name))
    source = problems(generator, "warm", count=3, largest=20)
    start = time.process_time()
    for step in range(1, steps + 1):
        drawn = [next(source) for _ in range(batch)]
        shown = [(problem.prompt, demonstration(problem, generator, careless)) for problem in drawn]
        trainer.update(supervised_batch(model, shown), update, seed=step)
        if step % every == 0 or step == steps:
            figures = {
                "phase": name,
                "step": step,
                "heldout_sampled": round(success(model, heldout), 3),
                "heldout_greedy": round(success(model, heldout, greedy=True), 3),
                "warm_sampled": round(success(model, warm), 3),
                "cpu_seconds": round(time.process_time() - start),
            }
            print(json.dumps(figures), flush=True)
            save(model, folder)


def save(model: LanguageModel, folder: Path) -> None:
    """Write the model in bfloat16, half the size; whoever trains it loads it into float32 again."""
    weights = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    model.module.to(torch.bfloat16)
    model.save(folder)
    model.module.to(torch.float32)
    model.module.load_state_dict(weights)


if __name__ == "__main__":
    main()
