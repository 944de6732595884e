"""The report of a step: metrics of its rows, and the rows as text for `rollouts.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch, first_row_by_id
from rlcore.execute.adapters import scored_sessions, voting_rows
from rlcore.execute.local import StepResult
from rlcore.math import group_max, group_min, group_size, group_std
from rlcore.metrics import Metrics
from rlcore.protocols import Stop


def step_metrics(
    result: StepResult, texts: Sequence[str], phrases: Sequence[str], parts: Sequence[str], updates: Sequence[str] = ()
) -> Metrics:
    """Return the metrics of a step's rows and those of its nodes.

    `texts` are those of rows that a policy drew. `parts` are the names of the score components, `updates` those of the
    nodes that update weights.
    """
    metrics = Metrics()
    batch = result.batch
    scored = scored_sessions(batch)
    if "score" in batch:
        _score_metrics(metrics, batch, scored)
        for i, name in enumerate(parts):
            metrics.add(f"score/{name}", batch["score_components"][:, i])
    if "reward" in batch:
        metrics.add("reward", batch["reward"], scored)
    if "advantage" in batch:
        _advantage_metrics(metrics, batch)
    drawn = _per_row(batch, batch.flat("sampled").float())
    metrics.add("response/length", drawn)
    metrics.add("response/length_max", drawn, kind="max")
    if "stop" in batch:
        metrics.add("response/truncated", batch["stop"] == int(Stop.LENGTH))
    if phrases and texts:
        reflects = [any(p.casefold() in text.casefold() for p in phrases) for text in texts]
        metrics.add("response/reflection", torch.tensor(reflects))
    metrics.put("rows/trained", float(voting_rows(batch).sum()), kind="sum")
    metrics.put("rows/unscored", float((~scored).sum()), kind="sum")
    metrics.put("rollout/tokens", float(result.drawn_tokens), kind="sum")
    metrics.put("rollout/rounds", float(result.rounds), kind="sum")
    metrics.merge(result.metrics)
    _kl(metrics, batch, updates)
    return metrics


def _kl(metrics: Metrics, batch: Batch, updates: Sequence[str]) -> None:
    """Add `policy/kl`: k1 between the policy that sampled and the updated one, in nats per trained token."""
    after = next((metrics[f"{name}/logprob"] for name in updates if f"{name}/logprob" in metrics), None)
    if after is None or "rollout_logprob" not in batch:
        return
    drawn = Metrics()
    drawn.add("logprob", batch.flat("rollout_logprob") + batch.flat("kept_logmass"), batch.flat("mask"))
    if drawn["logprob"].weight:
        metrics.put("policy/kl", drawn["logprob"].value - after.value, drawn["logprob"].weight)


def _score_metrics(metrics: Metrics, batch: Batch, scored: Tensor) -> None:
    score, group = batch["score"], batch["group"]
    metrics.add("score", score, scored)
    metrics.add("score/max", score, scored, kind="max")
    if bool(scored.any()):
        values, of_group = score[scored], group[scored]
        metrics.add("score/group_variance", group_std(values, of_group) ** 2)
        equal = group_max(values, of_group) == group_min(values, of_group)
        single = group_size(of_group) < 2
        first = list(first_row_by_id(of_group).values())
        metrics.add("groups/without_variance", equal[first])
        metrics.put("groups/singleton", float(single[first].sum()), kind="sum")


def _advantage_metrics(metrics: Metrics, batch: Batch) -> None:
    voting = voting_rows(batch)
    if not bool(voting.any()):
        return
    sampled = batch.flat("sampled").float()
    mean = _per_row(batch, batch.flat("advantage") * sampled) / _per_row(batch, sampled).clamp(min=1)
    metrics.add("advantage", mean, voting)
    metrics.add("advantage/group_variance", group_std(mean[voting], batch["group"][voting]) ** 2)


def _per_row(batch: Batch, flat: Tensor) -> Tensor:
    return torch.zeros(len(batch), dtype=flat.dtype).index_add(0, batch.row_of_token, flat)


def completions(batch: Batch, decode: Callable[[Sequence[int]], str]) -> list[str]:
    """Return the text of what was sampled in each row."""
    ids, on = batch.flat("tokens"), batch.flat("sampled")
    split = batch.length.tolist()
    return [decode(t[m].tolist()) for t, m in zip(ids.split(split), on.split(split), strict=True)]


def rollout_rows(
    batch: Batch, texts: Sequence[str], show: Callable[[Any], str], parts: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a step's rows for `rollouts.jsonl`: strict JSON, NaN as null."""
    advantage = _per_row(batch, batch.flat("advantage") * batch.flat("sampled")) if "advantage" in batch else None
    drawn = _per_row(batch, batch.flat("sampled").float())
    advantages = (advantage / drawn.clamp(min=1)).tolist() if advantage is not None else None
    # Lists, once: to ask a tensor for each of its numbers costs more than all the rest of a row.
    column = {n: batch[n].tolist() for n in ("group", "session", "score", "stop", "reward") if n in batch}
    components = batch["score_components"].tolist() if parts else []
    prompts = list(batch["data.prompt"]) if "data.prompt" in batch else [""] * len(batch)
    targets = list(batch["data.target"]) if "data.target" in batch else [None] * len(batch)
    tokens = drawn.tolist()
    rows = []
    for i, text in enumerate(texts):
        row: dict[str, Any] = {
            "group": column["group"][i],
            "session": column["session"][i],
            "prompt": show(prompts[i]),
            "completion": text,
            "target": _jsonable(targets[i]),
            "score": _number(column["score"][i]) if "score" in column else None,
            "tokens": int(tokens[i]),
            "stop": Stop(column["stop"][i]).name.lower(),
        }
        if "reward" in column:
            row["reward"] = _number(column["reward"][i])
        if advantages is not None:
            row["advantage"] = _number(advantages[i])
        if parts:
            row["components"] = {name: _number(components[i][k]) for k, name in enumerate(parts)}
        rows.append(row)
    return rows


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict) or value is None else str(value)
