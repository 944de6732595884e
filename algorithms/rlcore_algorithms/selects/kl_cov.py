"""The tokens that KL-Cov pulls back to the old policy (Cui et al. 2025, arXiv:2505.22617); for the loss `kl_cov`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore_algorithms.selects.covariance import covariance


class Selected(NamedTuple):
    """Tokens [B, T] at which the loss pulls the policy back."""

    selected: Bool[Tensor, "B T"]


def kl_cov(
    logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    share: float = 2e-4,
) -> Selected:
    """Return the max(1, share x n) tokens [B, T] of the highest covariance among the update's n trained tokens.

    None is selected if n is 0. share: in (0, 1]; share x n is rounded down.

    Raises ConfigError for a share outside that.
    Source: the paper's KL-Cov. What differs: chosen once over the whole optimizer update, not in each microbatch.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"kl_cov: share={share} must be above 0 and at most 1")
    covariances = covariance(logprob, advantage, mask).masked_fill(~mask.bool(), -torch.inf)
    tokens = int(mask.sum())
    chosen = torch.zeros_like(mask, dtype=torch.bool)
    if tokens:
        top = covariances.flatten().topk(max(1, int(share * tokens))).indices
        chosen.view(-1)[top] = True
    return Selected(chosen)
