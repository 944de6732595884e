"""Fixed columns that registered components are called with: three shapes of batch, as estimators and as losses see one.

Made here and not by `rlcore.testing`, so that a change there moves nothing here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.numbers import product

SHAPES = {"ragged": (12, 9), "short": (6, 2), "long": (8, 40)}
"""Rows and the width of the longest."""

DIFFERENTIATED = ("logprob", "entropy", "new_value", "square_sum", "full_kl")
"""Columns made from the weights of the moment: what a loss is differentiated by."""


def columns_of(shape: str, view: str) -> dict[str, Any]:
    """Return every column of a batch; `view` is "estimator" (sampled tokens alone) or "rows" (prompts before them)."""
    rows, width = SHAPES[shape]
    random = torch.Generator().manual_seed(1000 + sorted(SHAPES).index(shape))
    position = torch.arange(width)[None]
    length = torch.randint(1, width + 1, (rows,), generator=random)
    length[0] = width
    before = torch.zeros_like(length) if view == "estimator" else (length // 3).clamp(max=length - 1)
    real = position < length[:, None]
    sampled = real & (position >= before[:, None])
    if view == "rows":
        sampled &= torch.rand(rows, width, generator=random) < 0.85
    mask = sampled & (torch.rand(rows, width, generator=random) < 0.8)
    mask[0] = sampled[0]
    if view == "estimator":
        mask[:, 0] = True
    else:
        mask[1] = False

    def tokens(scale: float = 1.0, where: Tensor = sampled) -> Tensor:
        return torch.where(where, scale * torch.randn(rows, width, generator=random), 0)

    group = torch.tensor([7, 7, 7, 19, 19, 42, 42, 42, 42, 5, 19, 5])[:rows]
    old = -tokens().abs()
    own = old.exp()
    current = (old + tokens(0.3)).clamp(max=0)
    score = torch.randint(0, 3, (rows,), generator=random) / 2
    score[group == 5] = 1.0
    columns: dict[str, Any] = {
        "tokens": torch.randint(3, 50, (rows, width), generator=random) * real,
        "length": length,
        "prompt_length": before,
        "mask": mask,
        "sampled": sampled,
        "group": group,
        "session": torch.arange(rows) + 5,
        "segment": torch.zeros(rows, dtype=torch.int64),
        "pair": torch.arange(rows) // 2,
        "chosen": torch.arange(rows) % 2 == 0,
        "stop": torch.randint(0, 2, (rows,), generator=random),
        "old_logprob": old,
        "old_entropy": tokens().abs(),
        "old_square_sum": torch.where(sampled, own.square() + 0.5 * (1 - own).square(), 0),
        "ref_logprob": (old + tokens(0.2)).clamp(max=0),
        "rollout_logprob": (old + tokens(0.1)).clamp(max=0),
        "kept_logmass": -0.05 * tokens().abs(),
        "reward_model_logprob": (old + tokens(0.25)).clamp(max=0),
        "logprob": torch.where(mask, current, 0) if view == "rows" else current,
        "entropy": tokens(1.0, mask).abs(),
        "square_sum": torch.where(mask, own.square() + 0.3 * (1 - own).square(), 0),
        "full_kl": tokens(1.0, mask).abs(),
        "new_value": tokens(1.0, mask),
        "value": tokens(),
        "bootstrap_value": torch.randn(rows, generator=random) * (torch.arange(rows) % 3 == 0),
        "returns": tokens(),
        "advantage": tokens(),
        "process_reward": tokens(0.1),
        "weight": torch.where(mask, 1 + 0.2 * tokens().abs(), 0),
        "selected": mask & (torch.rand(rows, width, generator=random) < 0.4),
        "score": score,
        "score_components": torch.randn(rows, 3, generator=random),
        "greedy_reward": torch.randn(rows, generator=random),
        "token_version": torch.randint(0, 3, (rows, width), generator=random),
        "kl_coefficient": 0.05,
        "progress": 0.25,
        "seed": 11,
    }
    last = (sampled * (position + 1)).argmax(1)
    columns["reward"] = score.clone()
    columns["token_reward"] = torch.zeros(rows, width).scatter(1, last[:, None], score[:, None])
    columns["token_reward"] = torch.where(sampled, columns["token_reward"], 0) + 0.01 * tokens(1.0)
    columns["reward"] = columns["token_reward"].sum(1)
    columns["counts"] = product.counts(mask, group, width)
    return columns
