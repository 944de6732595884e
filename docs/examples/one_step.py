"""One step of GRPO by hand: load, sample, grade, estimate, update. No `Run`, no configuration, no graph.

    python docs/examples/one_step.py

This is what `rlcore train` does at each step, in the order in which it does it, with rlcore's own pieces.
Read it to see how they fit together; take it apart to build a loop of your own. It takes a few seconds on one CPU core.
"""

from __future__ import annotations

from typing import Any

import torch

from rlcore import Batch, get
from rlcore.data import completion_text, encode_prompt
from rlcore.protocols import Completion, Request, SamplingParams, Term, Update
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.train.model import LanguageModel
from rlcore.train.trainer import TrainerConfig
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import clipped
from rlcore_algorithms.reductions import sequence_mean_token_mean
from rlcore_answers.arithmetic import expression_answer
from rlcore_envs.datasets.countdown import countdown

PROMPTS, GROUP_SIZE, MAX_NEW_TOKENS = 8, 8, 16
Row = dict[str, Any]


def sample(sampler: EmbeddedSampler, prompts: list[list[int]], *, seed: int) -> list[list[Completion]]:
    """Return GROUP_SIZE completions of each prompt. A request is its prompt, how to draw, and a seed of its own."""
    params = SamplingParams(temperature=1.0, max_new_tokens=MAX_NEW_TOKENS)
    requests = [
        Request(tuple(prompt), params, seed=seed + group * GROUP_SIZE + number, group=group)
        for group, prompt in enumerate(prompts)
        for number in range(GROUP_SIZE)
    ]
    completions = sampler.generate(requests)
    return [completions[start : start + GROUP_SIZE] for start in range(0, len(completions), GROUP_SIZE)]


def grade(model: LanguageModel, rows: list[Row], groups: list[list[Completion]]) -> torch.Tensor:
    """Return the score of each completion, float32 [B]: 1 where its expression is worth the target, else 0."""
    return torch.tensor(
        [
            expression_answer(
                completion_text(model.tokenizer, completion.tokens, eos_ids=model.eos_ids),
                row["target"],
                row["numbers"],
            )
            for row, completions in zip(rows, groups, strict=True)
            for completion in completions
        ]
    )


def rollouts(prompts: list[list[int]], groups: list[list[Completion]]) -> Batch:
    """Return the rows to train on: prompt and response of each completion, end to end and without padding."""
    sequences = [(p, c) for p, completions in zip(prompts, groups, strict=True) for c in completions]
    sampled = [on for p, c in sequences for on in [False] * len(p) + [True] * len(c.tokens)]
    return Batch(
        {
            "tokens": [token for p, c in sequences for token in (*p, *c.tokens)],
            "length": [len(p) + len(c.tokens) for p, c in sequences],
            "prompt_length": [len(p) for p, _ in sequences],
            "sampled": sampled,
            "mask": sampled,  # every sampled token is trained on
            "group": [group for group, completions in enumerate(groups) for _ in completions],
            "session": list(range(len(sequences))),
        }
    )


def estimate(batch: Batch, score: torch.Tensor) -> Batch:
    """Return the batch with `advantage`: an estimator is a plain function of columns, here of reward and group."""
    advantage = group_norm(score, batch["group"])
    # One advantage a row, laid on the row's sampled tokens.
    return batch.assign({"reward": score, "advantage": torch.where(batch["sampled"], advantage[:, None], 0.0)})


def step(number: int, model: LanguageModel, trainer: Any, sampler: EmbeddedSampler, rows: list[Row]) -> dict[str, Any]:
    """Do one step; return the mean score and the metrics of the update."""
    prompts = [encode_prompt(model.tokenizer, row["prompt"]) for row in rows]
    groups = sample(sampler, prompts, seed=1000 * number)
    score = grade(model, rows, groups)
    batch = estimate(rollouts(prompts, groups), score)
    # With one optimizer update a step the old log-probabilities are those of its own first pass.
    update = Update((Term(clipped, sequence_mean_token_mean, name="policy"),), provides={"old_logprob": "logprob"})
    result = trainer.update(batch, update, seed=number, temperature=1.0, scalars={}, max_new_tokens=MAX_NEW_TOKENS)
    if not result.finite:
        raise RuntimeError("the gradient was not finite, so nothing was updated")
    sampler.update_weights(trainer.weights().items(), trainer.version)
    return {"score": float(score.mean()), **result.metrics.values()}


def main(steps: int = 3) -> list[dict[str, Any]]:
    """Train the packaged model for a few steps; return what each measured."""
    torch.set_num_threads(1)
    model = LanguageModel.load(get("model", "tiny_countdown")())
    trainer = TrainerConfig(learning_rate=5e-4, measure=("entropy",)).start(model)
    # The sampler draws from the trainer's own parameters: no weights are copied, it only learns their version.
    sampler = EmbeddedSampler(model)
    rows = list(countdown(rows=steps * PROMPTS))
    measured = []
    for number in range(steps):
        measured.append(step(number, model, trainer, sampler, rows[number * PROMPTS : (number + 1) * PROMPTS]))
        print(f"step {number + 1}  " + "  ".join(f"{name} {value:.4g}" for name, value in measured[-1].items()))
    return measured


if __name__ == "__main__":
    main()
