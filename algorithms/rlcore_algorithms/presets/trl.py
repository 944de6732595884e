"""TRL 1.16: the loss types of its GRPO trainer, with recorded numbers (docs/parity.md).

One preset per `loss_type` (`trl-1.16/dapo`). Options have TRL's own names. What differs from our own components,
everywhere: no log ratio is clamped, epsilon of the deviation is 1e-4, the KL is k3 times the ratio and drops nothing,
and the sampler's mismatch masks whole rows unless that is switched off.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind
from rlcore.errors import ConfigError
from rlcore.math import k3
from rlcore_algorithms import advantages, corrections, kls, losses, reductions, selects

LossType = Literal["bnpo", "cispo", "dapo", "dr_grpo", "grpo", "luspo", "sapo", "vespo"]
Level = Literal["token", "sequence"]
Mismatch = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
UNBOUND = (None, None)


def trl(
    *,
    loss_type: LossType = "dapo",
    importance_sampling_level: Level = "token",
    beta: float = 0.0,
    use_bias_correction_kl: bool = True,
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    delta: float | None = None,
    scale_rewards: Literal["group", "batch", "none"] = "group",
    num_generations: int = 8,
    num_iterations: int = 1,
    minibatches: int = 1,
    max_completion_length: int | None = None,
    sapo_temperature_pos: float = 1.0,
    sapo_temperature_neg: float = 1.05,
    vespo_k_pos: float = 2.0,
    vespo_lambda_pos: float = 3.0,
    vespo_k_neg: float = 3.0,
    vespo_lambda_neg: float = 2.0,
    top_entropy_quantile: float = 1.0,
    off_policy_mask_threshold: float | None = None,
    vllm_importance_sampling_mode: Mismatch | None = "sequence_mask",
    vllm_importance_sampling_cap: float = 3.0,
) -> Algorithm:
    """Return the algorithm that TRL 1.16 runs with these settings, under its own names and with its own defaults.

    epsilon_high: None is `epsilon`; for the loss type "cispo" it is the bound of the ratio itself, and one below 1
    scales gradients down.
    max_completion_length: None is the run's bound on new tokens. vllm_importance_sampling_mode: None is no correction.

    Raises ConfigError for settings that do not go together.
    """
    high = epsilon if epsilon_high is None else epsilon_high
    soft = {"temperature_positive": sapo_temperature_pos, "temperature_negative": sapo_temperature_neg}
    kernel = {
        "power_positive": vespo_k_pos,
        "decay_positive": vespo_lambda_pos,
        "power_negative": vespo_k_neg,
        "decay_negative": vespo_lambda_neg,
    }
    chosen: list[Component] = []
    if top_entropy_quantile < 1:
        chosen.append(bind(selects.top_entropy, share=top_entropy_quantile))
    if off_policy_mask_threshold is not None:
        chosen.append(bind(selects.opsm, threshold=off_policy_mask_threshold))
    return Algorithm(
        name=f"trl-1.16/{loss_type}",
        advantage=bind(advantages.norm, center="group", scale=scale_rewards, epsilon=1e-4),
        loss=_loss(loss_type, importance_sampling_level, epsilon, high, delta, soft, kernel),
        reduction=_reduction(loss_type, max_completion_length),
        kl=_kl(importance_sampling_level, corrected=use_bias_correction_kl) if beta else None,
        kl_coefficient=beta,
        selects=tuple(chosen),
        correction=_correction(vllm_importance_sampling_mode, vllm_importance_sampling_cap),
        group_size=num_generations,
        epochs=num_iterations,
        minibatches=minibatches,
    )


def _loss(
    name: LossType,
    level: Level,
    low: float,
    high: float,
    delta: float | None,
    soft: dict[str, float],
    kernel: dict[str, float],
) -> Component:
    by_row = level == "sequence"
    if name == "cispo":
        if high < 0:
            raise ConfigError(f"trl: epsilon_high={high} bounds the ratio itself in cispo and must be at least 0")
        # The lower bound of 1 - 1 = 0 holds nothing back.
        return bind(losses.cispo, clip_low=1.0, clip_high=high - 1, level=level, log_ratio_limits=UNBOUND)
    if name == "sapo":
        return bind(losses.sapo, level=level, log_ratio_limits=UNBOUND, **soft)
    if name == "vespo":
        return bind(losses.vespo, **kernel)
    surrogate = losses.gspo if by_row else losses.clipped
    if delta is not None and delta < 1 + high:
        raise ConfigError(
            f"trl: delta={delta} must be at least 1 + epsilon_high={1 + high}; a smaller one bounds good tokens too"
        )
    return bind(surrogate, clip_low=low, clip_high=high, dual_clip=delta, log_ratio_limits=UNBOUND)


def _reduction(name: LossType, length: int | None) -> Component:
    table: dict[str, Component] = {
        "grpo": reductions.sequence_mean_token_mean,
        "sapo": reductions.sequence_mean_token_mean,
        "luspo": reductions.sequence_mean_token_sum,
        "dr_grpo": bind(reductions.constant, length=length),
    }
    return table.get(name, reductions.token_mean)


def _kl(level: Level, *, corrected: bool) -> Component:
    if not corrected:
        return bind(k3, log_ratio_limits=UNBOUND)
    return bind(kls.k3_unbiased, level=level, log_ratio_limits=UNBOUND)


def _correction(mode: Mismatch | None, cap: float) -> Component | None:
    if mode is None:
        return None
    level, _, outside = mode.partition("_")
    kind = corrections.truncated if outside == "truncate" else corrections.icepop
    return bind(kind, level=level, low=None, high=cap)


# CISPO's own bound; without one TRL falls back to 0.2, which scales every gradient by 0.2.
_OWN: dict[str, dict[str, Any]] = {"cispo": {"epsilon_high": 5.0}, "luspo": {"importance_sampling_level": "sequence"}}
ALL: dict[str, Component] = {
    f"trl-1.16/{name}": bind(trl, loss_type=name, **_OWN.get(name, {})) for name in get_args(LossType)
}
