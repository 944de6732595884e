"""Every prompt weighs the same, however many tokens it drew (Yu et al. 2025, arXiv:2503.14476, equation 8)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import Counts


def prompt_mean(mask: Bool[Tensor, "B T"], group: Int[Tensor, " B"], counts: Counts) -> Float[Tensor, "B T"]:
    """Return token weights [B, T]: 1 / (prompts of the update x tokens of this prompt); 0 off the mask.

        L = mean_g (sum_{i in g} sum_t loss_it / tokens_g)

    A prompt whose rows are all masked is not counted.

    Raises ConfigError if the counts were made without groups.
    Source: equation 8 as written, a token mean within each prompt's samples under the expectation over prompts. What
    differs: both counts are of the whole optimizer update, so a prompt's rows may be split over microbatches.
    """
    if counts.tokens and not counts.groups:
        raise ConfigError("the reduction prompt_mean needs counts per group; Counts.of(mask, group) makes them")
    tokens = torch.tensor([counts.group_tokens.get(name, 0) for name in group.tolist()], device=mask.device)
    return mask.float() / (tokens.clamp(min=1) * max(counts.groups, 1))[:, None]
