"""A reward model: a sequence classifier of Hugging Face's transformers that grades completions."""

from rlcore_rewards.reward_model.reward import RewardModel

__all__ = ["RewardModel"]
