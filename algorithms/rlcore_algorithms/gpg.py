"""GPG: Group Policy Gradient (Chu et al. 2025, arXiv:2504.02546).

    A_i  = alpha (R_i - mean(R))                                over the samples of one prompt
    loss = mean over all tokens of  -A log pi                   alpha: rows / rows whose advantage is not 0

What differs from GRPO: no ratio, no clipping, no division by the deviation; groups without a gradient do not dilute
the batch. What differs from the paper: its F_norm is 1, and groups are not drawn again below a share of active ones
(`dynamic_sampling` does that).
"""

from __future__ import annotations

from rlcore.algorithm import Algorithm
from rlcore.component import bind
from rlcore_algorithms.advantages import group_norm, per_active_row
from rlcore_algorithms.losses import policy_gradient
from rlcore_algorithms.reductions import token_mean


def gpg(*, group_size: int = 8) -> Algorithm:
    """GPG: the plain policy gradient of a group-centred reward, one update a step."""
    return Algorithm(
        name="gpg",
        advantage=(bind(group_norm, scale_by_std=False), per_active_row),
        loss=policy_gradient,
        reduction=token_mean,
        group_size=group_size,
    )
