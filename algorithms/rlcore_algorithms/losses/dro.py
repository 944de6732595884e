"""Direct Reward Optimisation (Richemond et al. 2024, arXiv:2405.19107)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import masked, single
from rlcore.protocols import LossOutput


def dro(
    logprob: Float[Tensor, "B T"],
    old_logprob: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    beta: float = 1.0,
) -> LossOutput:
    """Return the loss [B, T] per token: a policy gradient with a quadratic pull to the old policy; 0 off the mask.

        loss = -(A logprob - beta (logprob - old_logprob)^2 / 2)

    beta: strength of the pull, per nat, above 0.

    Metrics: `old_kl`, the mean of old_logprob - logprob, in nats; `pull`, that of the quadratic part.

    Raises ConfigError for a beta that is not above 0.
    Source: the loss of DRO-V, whose policy gradient this is with a baseline in place of the learned value; 1.0 is the
    paper's tau. What differs: per token and not per sequence. The log ratio is not clamped: it is not exponentiated,
    and a clamp would end the pull just where it is needed.
    """
    if beta <= 0:
        raise ConfigError(f"dro: beta={beta} must be above 0; without the pull it is policy_gradient")
    now, gain = masked(single(logprob), mask), masked(single(advantage), mask)
    difference = now - masked(single(old_logprob), mask)
    pull = 0.5 * beta * difference.square()
    return LossOutput(pull - gain * now, {"old_kl": -difference.detach(), "pull": pull.detach()})
