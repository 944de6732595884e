"""Right or wrong by the form of the whole output: a grammar with counts, not a pattern that may match anywhere."""

from __future__ import annotations

from rlcore.errors import ConfigError
from rlcore_rewards.calling import bounded

END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<end_of_turn>", "<eos>", "</s>")


@bounded
def think_answer(completion: str, *, end_tokens: tuple[str, ...] = END_TOKENS) -> float:
    """Return 1.0 if the whole output is `<think>...</think><answer>...</answer>`, else 0.0.

    Each tag stands exactly once, both bodies say something, and nothing but space stands before, between or after.
    The text counts up to the first of `end_tokens`, for samplers that leave the end of a turn in it.
    """
    return float(bodies(completion, ("think", "answer"), end_tokens) is not None)


@bounded
def tagged_form(
    completion: str, *, tags: tuple[str, ...] = ("think", "answer"), end_tokens: tuple[str, ...] = END_TOKENS
) -> dict[str, float | str | None]:
    """Return 1.0 if the whole output is one `<tag>...</tag>` after another, in the order of `tags`, else 0.0.

    The rules are those of `think_answer`. Extracted is what stands in the last one.

    Raises:
        ConfigError: no tag, one that stands twice, or one that is no word.
    """
    if not tags or len(set(tags)) < len(tags) or not all(tag.replace("-", "_").isidentifier() for tag in tags):
        raise ConfigError(f"tagged_form: tags={tags}; expected different words such as think, answer")
    found = bodies(completion, tags, end_tokens)
    return {"score": float(found is not None), "extracted": found[-1] if found else None}


def bodies(completion: str, tags: tuple[str, ...], end_tokens: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return what stands in each tag, without space around it, or None if the output has not got the form."""
    for token in end_tokens:
        completion = completion.partition(token)[0]
    found = []
    rest = completion
    for tag in tags:
        before, opened, rest = rest.partition(f"<{tag}>")
        body, closed, rest = rest.partition(f"</{tag}>")
        visible = any(one.isprintable() and not one.isspace() for one in body)  # spaces of no width are not
        if before.strip() or not opened or not closed or not visible:
            return None
        found.append(body.strip())
    # Taking the first end of each tag alone would let a second block, or a tag inside another one's body, pass.
    once = all(completion.count(mark) == 1 for tag in tags for mark in (f"<{tag}>", f"</{tag}>"))
    return tuple(found) if once and not rest.strip() else None
