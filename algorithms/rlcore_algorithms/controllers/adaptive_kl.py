"""A KL coefficient that steers towards a target (Ziegler et al. 2019, arXiv:1909.08593, section 2.2)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool
from torch import Tensor

from rlcore.component import Kl
from rlcore.errors import ConfigError
from rlcore.math import k1, masked_mean


class KlCoefficient(NamedTuple):
    """The coefficient of the KL penalty in the next step, per nat."""

    kl_coefficient: float


def adaptive_kl(
    kl_coefficient: float,
    mask: Bool[Tensor, "B T"],
    *,
    target: float = 0.1,
    horizon: int = 10_000,
    estimator: Kl = k1,
) -> KlCoefficient:
    """Return the next step's coefficient: higher while the KL is above its target, lower while it is below.

        error       = clip(KL / target - 1, -0.2, 0.2)
        coefficient <- coefficient (1 + error rows / horizon)

    The penalty is the one in the reward, or, where the algorithm has none, the one in the loss.
    KL is the mean over rows of each row's token mean, in nats; rows without a trained token have no vote.
    target: the wanted KL, above 0. horizon: rows over which a full error moves the coefficient by a fifth, above 0.
    estimator: the KL estimator, between the policy that sampled and the reference model.
    The coefficient is its own state: it is carried from step to step and saved with the run, so a resumed run goes on
    from where it was.

    Raises ConfigError for a target or a horizon that is not above 0.
    Source: section 2.2. What differs: the paper's KL is the sum over a sequence.
    """
    if target <= 0 or horizon <= 0:
        raise ConfigError(f"adaptive_kl: target={target} and horizon={horizon} must both be above 0")
    rows = mask.any(1)
    kl = masked_mean(masked_mean(estimator(), mask, dim=1), rows)
    return KlCoefficient(moved_coefficient(kl_coefficient, float(kl), int(rows.sum()), target=target, horizon=horizon))


def moved_coefficient(coefficient: float, kl: float, rows: int, *, target: float, horizon: int) -> float:
    """Return the coefficient after `rows` rows with a mean KL of `kl` nats."""
    error = min(max(kl / target - 1, -0.2), 0.2)
    return coefficient * (1 + error * rows / horizon)
