"""A judge: a language model behind an OpenAI-compatible chat endpoint that grades completions."""

from rlcore_rewards.judge.reward import Judge

__all__ = ["Judge"]
