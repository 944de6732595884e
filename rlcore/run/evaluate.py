"""Grading held-out problems: the same prompts and sampling seeds each time, so that two evaluations compare."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlcore.data import Row, encode_prompt
from rlcore.execute.grade import messages_of
from rlcore.protocols import Environment, Request, RewardManager, Sample, Sampler, SamplingParams
from rlcore.run.progress import Progress
from rlcore.seeding import stream
from rlcore.settings import Eval

SUCCESS = 1.0 - 1e-6
"""A sample succeeds if its score reaches 1: what a full answer earns."""
CHUNK = 512


def evaluate(
    rows: Sequence[Row],
    *,
    sampler: Sampler,
    manager: RewardManager,
    environment: Environment,
    tokenizer: Any,
    decode: Callable[[Sequence[int]], str],
    show: Callable[[Any], str],
    settings: Eval,
    params: SamplingParams,
    seed: int,
    progress: Progress,
) -> dict[str, float]:
    """Return `success` (share of samples with a score of 1), `score` (mean), `length` and `truncated`, with counts."""
    params = replace(params, temperature=settings.temperature, greedy=settings.greedy, top_p=1.0, top_k=0, min_p=0.0)
    scores: list[float] = []
    lengths: list[int] = []
    cut = 0
    work = [(i, row, k) for i, row in enumerate(rows) for k in range(1 if settings.greedy else settings.samples)]
    with progress.phase("evaluating", len(work)) as phase:
        for first in range(0, len(work), CHUNK):
            part = work[first : first + CHUNK]
            requests = [
                Request(
                    tuple(encode_prompt(tokenizer, environment.begin(row))), params, stream(seed, "eval", i, k), group=i
                )
                for i, row, k in part
            ]
            drawn = sampler.generate(requests)
            samples = [
                Sample(show(row["prompt"]), decode(c.tokens), messages_of(row["prompt"]), row)
                for (_, row, _), c in zip(part, drawn, strict=True)
            ]
            grades = manager.score(samples)
            scores += [g.score for g in grades]
            lengths += [len(c.tokens) for c in drawn]
            cut += sum(int(c.stop) == 1 for c in drawn)
            phase.advance(len(part))
    known = [s for s in scores if not math.isnan(s)]
    return {
        "success": sum(s >= SUCCESS for s in known) / max(len(scores), 1),
        "score": sum(known) / max(len(known), 1),
        "length": sum(lengths) / max(len(lengths), 1),
        "truncated": cut / max(len(lengths), 1),
        "samples": float(len(scores)),
        "unscored": float(len(scores) - len(known)),
    }


def write_heldout(path: Path, rows: Sequence[Mapping[str, Any]], show: Callable[[Any], str]) -> None:
    """Write the held-out problems: each row's own columns, with `prompt` as the text that the model is given."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, "prompt": show(row["prompt"])}, ensure_ascii=False, default=str) + "\n")
