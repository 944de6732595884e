"""Evaluation on held-out problems, each time with the same prompts and seeds, so that two can be compared."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.batch import first_row_by_id
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

    With several samples of a problem also `pass@k` and `maj@n` (see `success_figures`). A figure's standard error
    stands beside it as NAME_se. Sessions run as in training, whatever the environment, but over the whole distribution
    at the temperature of `settings`, or greedily, and from seeds of their own. A sample that could not be scored is no
    success.
    """
    params = replace(
        rollout.params, temperature=settings.temperature, greedy=settings.greedy, top_p=1, top_k=0, min_p=0
    )
    rollout = replace(rollout, params=params, seed=stream(rollout.seed, "eval"))
    # A grader keeps the names of the components that it met: these rows must not add to those of training.
    grader = replace(grader, components=())
    samples = 1 if settings.greedy else settings.samples
    scores: list[float] = []
    answers: list[str | None] = []
    lengths, truncated = [], []
    with progress.phase("evaluating", len(rows) * samples) as phase:
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            batch = rollout.draw(range(first, first + len(chunk)), chunk, samples=samples, table=COLUMNS)
            grades = grader.grade(batch)
            # A session may have several rows; it is one sample.
            sessions = list(first_row_by_id(batch["session"]).values())
            scores += [grades[row].score for row in sessions]
            answers += [grades[row].extracted for row in sessions]
            lengths.append(batch["sampled"].sum(1))
            truncated.append(batch["stop"] == int(Stop.LENGTH))
            phase.advance(len(sessions))
    score = torch.tensor(scores)
    scored = ~score.isnan()
    success = (score >= SUCCESS).numpy().reshape(len(rows), samples)
    return {
        **success_figures(success, [answers[i : i + samples] for i in range(0, len(answers), samples)]),
        "success": float((score >= SUCCESS).float().mean()),
        "score": float(score[scored].mean()) if bool(scored.any()) else 0.0,
        "length": float(torch.cat(lengths).float().mean()),
        "truncated": float(torch.cat(truncated).float().mean()),
        "samples": float(len(score)),
        "unscored": float((~scored).sum()),
    }


def success_figures(success: NDArray[np.bool_], answers: Sequence[Sequence[str | None]]) -> dict[str, float]:
    """Return the figures of success [P, n] of n samples of each of P problems, each with its standard error (_se).

    `success` is the share of right samples. With several samples there is `pass@k`, for k = 2, 4, ... and n: the
    probability that at least one of k samples is right, 1 - C(n - c, k) / C(n, k) of a problem with c right ones
    (Chen et al. 2021, arXiv:2107.03374, equation 1). And where the reward says what it extracted, `maj@n`: the share
    of problems of which the answer that most samples gave is right; a tie goes to the one that was drawn first, and
    samples without an answer have no vote (Wang et al. 2022, arXiv:2203.11171).

    Standard errors are those of a mean over problems, whose samples are not independent of each other: the deviation
    of the problems' own figures over the root of their number. One problem has none.
    """
    problems, count = success.shape
    figures = {"success": success.mean(1)}
    right = success.sum(1)
    for k in [*(2**i for i in range(1, count.bit_length()) if 2**i < count), *([count] if count > 1 else [])]:
        # The product of (1 - k / i) over i = n - c + 1 ... n; it passes 0 where fewer than k are wrong.
        wrong = [np.prod(1 - k / np.arange(count - c + 1, count + 1)) if count - c >= k else 0.0 for c in right]
        figures[f"pass@{k}"] = 1 - np.array(wrong)
    if count > 1 and any(answer is not None for of_problem in answers for answer in of_problem):
        figures[f"maj@{count}"] = np.array(
            [_majority_is_right(of_problem, row) for of_problem, row in zip(answers, success, strict=True)], dtype=float
        )
    values: dict[str, float] = {}
    for name, each in figures.items():
        values[name] = float(each.mean())
        if problems > 1:
            values[f"{name}_se"] = float(each.std(ddof=1) / math.sqrt(problems))
    return values


def _majority_is_right(answers: Sequence[str | None], success: NDArray[np.bool_]) -> bool:
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return False
    # Counted in the order in which they were drawn, so that of equals the first is the most common.
    chosen = counts.most_common(1)[0][0]
    return bool(success[answers.index(chosen)])


def shown(values: Mapping[str, float], name: str) -> str:
    """Return a figure with its standard error, for a line of text."""
    error = f" +/- {values[f'{name}_se']:.3f}" if f"{name}_se" in values else ""
    return f"{name} {values[name]:.3f}{error}"


def write_heldout(path: Path, rows: Sequence[Mapping[str, Any]], show: Callable[[Any], str]) -> None:
    """Write the held-out problems: each row's own columns, with `prompt` as the text that the model is given."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, "prompt": show(row["prompt"])}, ensure_ascii=False, default=str) + "\n")
