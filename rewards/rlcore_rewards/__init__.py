"""The rewards that come with rlcore, offered by the same hook as anyone's."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl
from rlcore_rewards.combine import Gated, PerSource, Weighted
from rlcore_rewards.countdown import countdown
from rlcore_rewards.exact import exact, exact_answer
from rlcore_rewards.expression import expression_answer
from rlcore_rewards.form import tagged_form, think_answer
from rlcore_rewards.lengths import length_penalty, overlong_penalty, repetition_penalty
from rlcore_rewards.managers import DefaultManager
from rlcore_rewards.numeric import numeric_answer
from rlcore_rewards.text import exact_match, token_f1

__all__ = [
    "DefaultManager",
    "Gated",
    "PerSource",
    "Weighted",
    "countdown",
    "exact",
    "exact_answer",
    "exact_match",
    "expression_answer",
    "length_penalty",
    "numeric_answer",
    "overlong_penalty",
    "register",
    "repetition_penalty",
    "tagged_form",
    "think_answer",
    "token_f1",
]


@hookimpl
def register(add: Any) -> None:
    """Offer every reward and reward manager of this package."""
    add.reward("numeric_answer", numeric_answer)
    add.reward("exact_answer", exact_answer)
    add.reward("exact", exact)
    add.reward("gsm8k", "rlcore_rewards.math:gsm8k")
    add.reward("math", "rlcore_rewards.math:Math")
    add.reward("verl/gsm8k", "rlcore_rewards.math:verl_gsm8k")
    add.reward("verl/math_dapo", "rlcore_rewards.math:verl_math_dapo")
    add.reward("hendrycks_math", "rlcore_rewards.math:hendrycks_math")
    add.reward("math_verify", "rlcore_rewards.math:MathVerify")
    add.reward("expression_answer", expression_answer)
    add.reward("countdown", countdown)
    add.reward("think_answer", think_answer)
    add.reward("tagged_form", tagged_form)
    add.reward("exact_match", exact_match)
    add.reward("token_f1", token_f1)
    add.reward("length_penalty", length_penalty)
    add.reward("overlong_penalty", overlong_penalty)
    add.reward("repetition_penalty", repetition_penalty)
    add.reward("json_schema", "rlcore_rewards.structure:JsonSchema")
    add.reward("json_fields", "rlcore_rewards.structure:JsonFields")
    add.reward("tool_call", "rlcore_rewards.structure:tool_call")
    add.reward("code", "rlcore_rewards.code:PythonCode")
    add.reward("judge", "rlcore_rewards.judge:Judge")
    add.reward("reward_model", "rlcore_rewards.reward_model:RewardModel")
    add.reward("weighted", Weighted)
    add.reward("gated", Gated)
    add.reward("per_source", PerSource)
    add.reward_manager("default", DefaultManager)
