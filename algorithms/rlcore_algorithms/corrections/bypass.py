"""The sampler's log-probabilities as the old ones of a loss (Schulman et al. 2017, arXiv:1707.06347, equation 6)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from rlcore.math import single


class OldLogprob(NamedTuple):
    """The old log-probabilities [B, T] of a loss's ratio, in nats."""

    old_logprob: Float[Tensor, "B T"]


def bypass(rollout_logprob: Float[Tensor, "B T"], kept_logmass: Float[Tensor, "B T"]) -> OldLogprob:
    """Return old_logprob [B, T] as the sampler saw it: rollout_logprob + kept_logmass, over the whole vocabulary.

    The trainer's own forward pass is then not computed. A loss's ratio holds the mismatch and the change of the policy
    together, and its clip bounds both; the policy that sampled may be several versions old.
    Source: the ratio of Schulman et al. 2017, equation 6, whose denominator is the policy that acted. What differs:
    nothing.
    """
    return OldLogprob((single(rollout_logprob) + single(kept_logmass)).detach())
