"""Rewards of text, form, length and structure, rewards by a model, and the manager that calls them all."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl


@hookimpl
def register(add: Any) -> None:
    """Register every reward and the reward manager of this package, by place: nothing is imported before it is used."""
    add.reward("exact", "rlcore_rewards.text:exact")
    add.reward("exact_answer", "rlcore_rewards.text:exact_answer")
    add.reward("numeric_answer", "rlcore_rewards.numeric:numeric_answer")
    add.reward("exact_match", "rlcore_rewards.text:exact_match")
    add.reward("token_f1", "rlcore_rewards.text:token_f1")
    add.reward("think_answer", "rlcore_rewards.form:think_answer")
    add.reward("tagged_form", "rlcore_rewards.form:tagged_form")
    add.reward("environment", "rlcore_rewards.turns:environment_reward")
    add.reward("length_penalty", "rlcore_rewards.lengths:length_penalty")
    add.reward("overlong_penalty", "rlcore_rewards.lengths:overlong_penalty")
    add.reward("repetition_penalty", "rlcore_rewards.lengths:repetition_penalty")
    add.reward("tool_call", "rlcore_rewards.structure.schema:tool_call")
    add.reward("json_schema", "rlcore_rewards.structure.schema:JsonSchema")
    add.reward("json_fields", "rlcore_rewards.structure.fields:JsonFields")
    add.reward("judge", "rlcore_rewards.judge.reward:Judge")
    add.reward("reward_model", "rlcore_rewards.reward_model:RewardModel")
    add.reward("weighted", "rlcore_rewards.combinations:Weighted")
    add.reward("gated", "rlcore_rewards.combinations:Gated")
    add.reward("per_source", "rlcore_rewards.combinations:PerSource")
    add.reward_manager("default", "rlcore_rewards.managers.default:DefaultManager")
