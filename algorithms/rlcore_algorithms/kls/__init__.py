"""KL estimators that need more than two log-probabilities; the others are plain maths in `rlcore.math.kl`."""

from rlcore.math.kl import (
    absolute,
    absolute_straight_through,
    k1,
    k1_straight_through,
    k2,
    k3,
    k3_straight_through,
)
from rlcore_algorithms.kls.full import full as full
from rlcore_algorithms.kls.k3_unbiased import k3_unbiased as k3_unbiased

ALL = {
    "abs": absolute,
    "abs_straight_through": absolute_straight_through,
    "full": full,
    "k1": k1,
    "k1_straight_through": k1_straight_through,
    "k2": k2,
    "k3": k3,
    "k3_straight_through": k3_straight_through,
    "k3_unbiased": k3_unbiased,
}
