"""Mathematical answers: found in a completion, parsed, compared and graded."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl


@hookimpl
def register(add: Any) -> None:
    """Register every reward of this package, each by its place: nothing is imported before it is used."""
    add.reward("gsm8k", "rlcore_answers.grading:gsm8k")
    add.reward("math", "rlcore_answers.grading:Math")
    add.reward("verl/gsm8k", "rlcore_answers.peers:verl_gsm8k")
    add.reward("verl/math_dapo", "rlcore_answers.peers:verl_math_dapo")
    add.reward("hendrycks_math", "rlcore_answers.peers:hendrycks_math")
    add.reward("math_verify", "rlcore_answers.peers:MathVerify")
    add.reward("expression_answer", "rlcore_answers.arithmetic:expression_answer")
    add.reward("countdown", "rlcore_answers.arithmetic:countdown")
