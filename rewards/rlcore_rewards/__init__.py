"""Rewards of text, form, length and structure, rewards by a model, and the manager that calls them all."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl

FUNCTIONS = {
    "exact": ("exact", "exact_answer"),
    "numeric": ("numeric_answer",),
    "text": ("exact_match", "token_f1"),
    "form": ("think_answer", "tagged_form"),
    "lengths": ("length_penalty", "overlong_penalty", "repetition_penalty"),
    "structure.tools": ("tool_call",),
}
"""Rewards by the module that defines them, each under its own name."""
CLASSES = {
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
    """Register every reward and reward manager of this package."""
    for module, names in FUNCTIONS.items():
        for name in names:
            add.reward(name, f"{__name__}.{module}:{name}")
    for name, place in CLASSES.items():
        add.reward(name, f"{__name__}.{place}")
    add.reward_manager("default", f"{__name__}.managers.default:DefaultManager")
