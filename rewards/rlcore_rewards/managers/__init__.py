"""Reward managers: how rewards are called, not what they say."""

from rlcore_rewards.managers.default import DefaultManager

__all__ = ["DefaultManager"]
