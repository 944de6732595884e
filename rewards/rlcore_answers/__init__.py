"""Mathematical answers: found in a completion, parsed, compared and graded."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl

REWARDS = {
    "gsm8k": "grading:gsm8k",
    "math": "grading:Math",
    "verl/gsm8k": "peers:verl_gsm8k",
    "verl/math_dapo": "peers:verl_math_dapo",
    "hendrycks_math": "peers:hendrycks_math",
    "math_verify": "peers:MathVerify",
    "expression_answer": "arithmetic:expression_answer",
    "countdown": "countdown:countdown",
}


@hookimpl
def register(add: Any) -> None:
    """Register every reward of this package."""
    for name, place in REWARDS.items():
        add.reward(name, f"{__name__}.{place}")
