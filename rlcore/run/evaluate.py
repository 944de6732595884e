"""Evaluation on held-out problems, each time with the same prompts and seeds, so that two can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rlcore.columns import COLUMNS
from rlcore.data import Row
from rlcore.execute.grader import Grader
from rlcore.execute.rollout import Rollout
from rlcore.protocols import Stop
from rlcore.run.progress import Progress
from rlcore.seeding import stream
from rlcore.settings import Eval

SUCCESS = 1.0 - 1e-6
"""The least score of a success: 1, the score of a right answer, but for rounding."""
CHUNK = 512


def evaluate(
    rows: Sequence[Row], *, rollout: Rollout, grader: Grader, settings: Eval, progress: Progress
) -> dict[str, float]:
    """Return `success` (share of samples with a score of 1), `score` (mean), `length` and `truncated`, with counts.

    Sessions run as in training, whatever the environment, but over the whole distribution at the temperature of
    `settings`, or greedily, and from seeds of their own. A sample that could not be scored is no success.
    """
    params = replace(
        rollout.params, temperature=settings.temperature, greedy=settings.greedy, top_p=1, top_k=0, min_p=0
    )
    rollout = replace(rollout, params=params, seed=stream(rollout.seed, "eval"))
    # A grader keeps the names of the components that it met: these rows must not add to those of training.
    grader = replace(grader, components=())
    samples = 1 if settings.greedy else settings.samples
    scores, lengths, truncated = [], [], []
    with progress.phase("evaluating", len(rows) * samples) as phase:
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            batch = rollout.draw(range(first, first + len(chunk)), chunk, samples=samples, table=COLUMNS)
            scores.append(grader.score(batch)["score"])
            lengths.append(batch["sampled"].sum(1))
            truncated.append(batch["stop"] == int(Stop.LENGTH))
            phase.advance(len(batch))
    score = torch.cat(scores)
    scored = ~score.isnan()
    return {
        "success": float((score >= SUCCESS).float().mean()),
        "score": float(score[scored].mean()) if bool(scored.any()) else 0.0,
        "length": float(torch.cat(lengths).float().mean()),
        "truncated": float(torch.cat(truncated).float().mean()),
        "samples": float(len(score)),
        "unscored": float((~scored).sum()),
    }


def write_heldout(path: Path, rows: Sequence[Mapping[str, Any]], show: Callable[[Any], str]) -> None:
    """Write the held-out problems: each row's own columns, with `prompt` as the text that the model is given."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, "prompt": show(row["prompt"])}, ensure_ascii=False, default=str) + "\n")
