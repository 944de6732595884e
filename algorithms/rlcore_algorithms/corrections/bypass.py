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
    """Return the sampler's log-probability over the whole vocabulary, rollout_logprob + kept_logmass, as old_logprob.

    The trainer's forward pass for old_logprob is then not run. A loss's ratio contains both the mismatch of sampler and
    trainer and the change of the policy, and its clip bounds both; the sampler's policy may be several versions old.
    Source: the ratio of Schulman et al. 2017, equation 6, whose denominator is the policy that acted. What differs:
    nothing.
    """
    return OldLogprob((single(rollout_logprob) + single(kept_logmass)).detach())
