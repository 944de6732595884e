"""Penalties for length and repetition, from the text alone, to be added to a reward of its content.

A reward sees text and no tokens. Where the bound is one of tokens, the shaping node `soft_overlong` counts them.
"""

from __future__ import annotations

from typing import Literal

from rlcore.errors import ConfigError
from rlcore_rewards.calling import bounded

Unit = Literal["words", "characters"]


@bounded
def length_penalty(
    completion: str, *, max_length: int = 1000, factor: float = 1.0, unit: Unit = "words"
) -> dict[str, float]:
    """Return -factor * min(length / max_length, 1): every word costs the same, up to the whole penalty at `max_length`.

    Args:
        completion: the text that is measured.
        max_length: in units, at least 1.
        factor: the whole penalty, not negative.
        unit: words are what stands between spaces; a script without spaces is measured in "characters".

    Raises:
        ConfigError: a max_length or factor out of range.
    """
    check_range("length_penalty", max_length=max_length, factor=factor)
    length = len(units(completion, unit))
    return {"score": 0.0 - factor * min(length / max_length, 1.0), "length": float(length)}


@bounded
def overlong_penalty(
    completion: str, *, max_length: int = 1000, buffer: int = 200, factor: float = 1.0, unit: Unit = "words"
) -> dict[str, float]:
    """Return 0 up to max_length - buffer, then falling evenly, -factor from `max_length` on.

        -factor min(max((L - (max_length - buffer)) / buffer, 0), 1)

    With buffer 0 only what is longer than `max_length` pays. `unit` as for `length_penalty`. The ramp is that of
    DAPO (Yu et al. 2025, arXiv:2503.14476, equation 13), there over tokens: as an option of a run, `soft_overlong`.

    Raises:
        ConfigError: a max_length, buffer or factor out of range.
    """
    check_range("overlong_penalty", max_length=max_length, factor=factor)
    if not 0 <= buffer <= max_length:
        raise ConfigError(f"overlong_penalty: buffer={buffer}; allowed: 0 to max_length={max_length}")
    length = len(units(completion, unit))
    over = length - (max_length - buffer)
    share = min(max(over / buffer, 0.0), 1.0) if buffer else float(over > 0)
    return {"score": 0.0 - factor * share, "length": float(length)}


@bounded
def repetition_penalty(
    completion: str, *, ngram: int = 3, factor: float = 1.0, unit: Unit = "words"
) -> dict[str, float]:
    """Return -factor times the share of n-grams that stood before: 0 for a text without repetition.

        -factor (1 - distinct n-grams / n-grams)

    A text of fewer than `ngram` units is without repetition. Case does not count. Source: the repetition penalty of
    Yeo et al. 2025 (arXiv:2502.03373), as one value for the whole text.

    Raises:
        ConfigError: an ngram or factor out of range.
    """
    check_range("repetition_penalty", ngram=ngram, factor=factor)
    read = units(completion.lower(), unit)
    grams = len(read) - ngram + 1
    share = 1 - len({tuple(read[i : i + ngram]) for i in range(grams)}) / grams if grams > 0 else 0.0
    return {"score": 0.0 - factor * share, "repeated": share}


def units(text: str, unit: Unit) -> list[str]:
    """Return the words or characters of a text; space around it does not count."""
    return text.split() if unit == "words" else list(text.strip())


def check_range(name: str, *, factor: float, **least_one: int) -> None:
    """Raise ConfigError for a factor that would pay, or a whole number below 1."""
    if factor < 0:
        raise ConfigError(f"{name}: factor={factor}; allowed: 0 or more (the score is what it costs, with its sign)")
    for option, value in least_one.items():
        if value < 1:
            raise ConfigError(f"{name}: {option}={value}; allowed: 1 or more")
