"""Calls of math-verify and sympy for worker processes, where they can be stopped; their own timers are off."""

from __future__ import annotations

import logging


def equal_by_sympy(left: str, right: str) -> bool:
    """Return whether math-verify takes two LaTeX answers for the same, whichever of them is the gold one."""
    from math_verify import LatexExtractionConfig, parse, verify

    silence_timer_warning()
    how = (LatexExtractionConfig(),)
    one, two = (parse(f"${text}$", how, fallback_mode="no_fallback", parsing_timeout=None) for text in (left, right))
    if not one or not two:
        return False
    return bool(verify(one, two, timeout_seconds=None) and verify(two, one, timeout_seconds=None))


def score_by_math_verify(completion: str, gold: str) -> tuple[float, str | None]:
    """Return 1.0 or 0.0 as verl 0.9 scores by math-verify 0.9, and the text that it read in the completion, if any."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    silence_timer_warning()
    golds = parse(f"\\boxed{{{gold}}}", (LatexExtractionConfig(),), parsing_timeout=None)
    answers = parse(completion, (ExprExtractionConfig(), LatexExtractionConfig()), parsing_timeout=None)
    read = next((answer for answer in reversed(answers) if isinstance(answer, str)), None)
    right = any(verify(one, answer, timeout_seconds=None) for one in golds for answer in answers)
    return float(right), read


def silence_timer_warning() -> None:
    """Keep math-verify from warning that its timers are off: the worker has its own."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
