"""The model families that rlcore knows: Hugging Face's `model_type`, and what each needs besides its own module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcore.errors import ModelError, nearest


@dataclass(frozen=True)
class Family:
    """A model family by its `model_type`.

    `llama_like`: its layers are pre-norm, with plain grouped-query attention and a gated MLP, so that the sampler may
    use its fused decode step. Other families are run through their own modules.
    """

    name: str
    llama_like: bool = False


FAMILIES = {
    family.name: family
    for family in (
        Family("qwen3", llama_like=True),
        Family("qwen2", llama_like=True),
        Family("llama", llama_like=True),
        Family("gemma2"),
        Family("deepseek_v2"),
        Family("deepseek_v3"),
    )
}


def find_family(config: Any) -> Family:
    """Return the family of a Hugging Face configuration.

    Raises:
        ModelError: its `model_type` is none that rlcore knows; other models would run, but nobody has checked that
            their attention needs no more than what rlcore hands it.
    """
    model_type = str(getattr(config, "model_type", None))
    if model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        match = nearest(model_type, FAMILIES)
        raise ModelError(f"model family {model_type!r} is not supported; known: {known}.{match}")
    return FAMILIES[model_type]


def logit_softcap(config: Any) -> float | None:
    """Return the bound of the final soft-capping, `cap * tanh(logits / cap)`, or None where there is none (Gemma 2)."""
    cap = getattr(config, "final_logit_softcapping", None)
    return None if cap is None else float(cap)
