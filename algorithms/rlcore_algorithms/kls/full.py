"""The KL itself, over the whole vocabulary (Kullback and Leibler 1951, doi:10.1214/aoms/1177729694)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from rlcore.math import single


def full(full_kl: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return KL(pi || pi_ref) [B, T] at each token, in nats: sum_v p_v (log p_v - log q_v); 0 where both agree.

    Exact, where k1 to k3 estimate it from the one token that was drawn, and with the exact gradient. It is made of both
    models' logits, so only as KL in the loss (`kl=full`), and the reference is run once more for every microbatch.
    The trainer reads it off the logits (`rlcore.math.kl.full`), chunk by chunk, beside a reference in the same process.

    Source: Kullback and Leibler 1951. What differs: nothing; both at the sampling temperature.
    """
    return single(full_kl)
