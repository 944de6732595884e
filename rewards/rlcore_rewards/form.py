"""Right or wrong by the form of the whole output: a grammar with counts, not a pattern that may match anywhere."""

from __future__ import annotations

import re

END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<end_of_turn>", "<eos>", "</s>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
FORM = re.compile(r"\s*<think>(?P<think>.*)</think>\s*<answer>(?P<answer>.*)</answer>\s*", re.DOTALL)


def think_answer(completion: str, *, end_tokens: tuple[str, ...] = END_TOKENS) -> float:
    """1.0 if the whole output is `<think>...</think><answer>...</answer>`, else 0.0.

    Each tag stands exactly once, both bodies say something, and nothing but space stands before, between or after.
    The text counts up to the first of `end_tokens`, for samplers that leave the end of a turn in it.
    """
    for token in end_tokens:
        completion = completion.partition(token)[0]
    # The pattern alone would take a second think block for the first one's content.
    if any(completion.count(tag) != 1 for tag in TAGS):
        return 0.0
    match = FORM.fullmatch(completion)
    return float(match is not None and bool(match["think"].strip()) and bool(match["answer"].strip()))
