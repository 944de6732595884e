"""The exact KL, over the whole vocabulary (Kullback and Leibler 1951, doi:10.1214/aoms/1177729694)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from rlcore.math import single


def full(full_kl: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return KL(pi || pi_ref) [B, T] at each token, in nats: sum_v p_v (log p_v - log q_v); 0 where both agree.

    Value and gradient are exact; k1 to k3 estimate them from the one token that was sampled. It needs the logits of
    both models, so it is only a KL in the loss (`kl=full`), and the reference is run again for every microbatch.
    The trainer computes it (`rlcore.math.kl.full`) with a reference model in its own process.

    Source: Kullback and Leibler 1951. What differs: nothing; both at the sampling temperature.
    """
    return single(full_kl)
