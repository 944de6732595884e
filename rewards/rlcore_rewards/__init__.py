"""Rewards of text, form, length and structure, rewards by a model, and the manager that calls them all."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl

REWARDS = {
    "exact": "exact:exact",
    "exact_answer": "exact:exact_answer",
    "numeric_answer": "numeric:numeric_answer",
    "exact_match": "text:exact_match",
    "token_f1": "text:token_f1",
    "think_answer": "form:think_answer",
    "tagged_form": "form:tagged_form",
    "length_penalty": "lengths:length_penalty",
    "overlong_penalty": "lengths:overlong_penalty",
    "repetition_penalty": "lengths:repetition_penalty",
    "tool_call": "structure.tools:tool_call",
    "json_schema": "structure.schema:JsonSchema",
    "json_fields": "structure.fields:JsonFields",
    "judge": "judge.reward:Judge",
    "reward_model": "reward_model.reward:RewardModel",
    "weighted": "combinations:Weighted",
    "gated": "combinations:Gated",
    "per_source": "combinations:PerSource",
}


@hookimpl
def register(add: Any) -> None:
    """Register every reward and the reward manager of this package."""
    for name, place in REWARDS.items():
        add.reward(name, f"{__name__}.{place}")
    add.reward_manager("default", f"{__name__}.managers.default:DefaultManager")
