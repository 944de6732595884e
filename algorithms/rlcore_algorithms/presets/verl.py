"""verl 0.9: what its settings stand for, with recorded numbers (docs/parity.md).

One preset per advantage estimator (`verl-0.9/grpo`) and per policy loss (`verl-0.9/gspo`). Options have verl's own
names, so a configuration of verl can be copied. What differs from our own components, everywhere: a group of one keeps
its reward; the clipped loss has the dual clip; SAPO and GMPO always take the mean over rows; losses without a clamp of
the log ratio have none here either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from rlcore.algorithm import Algorithm
from rlcore.component import Component, bind, options, source_of
from rlcore.errors import ConfigError, unknown
from rlcore.math import (
    absolute,
    absolute_straight_through,
    k1,
    k1_straight_through,
    k2,
    k3,
    k3_straight_through,
)
from rlcore_algorithms import advantages, controllers, corrections, losses, reductions, selects

Estimator = Literal[
    "gae",
    "gdpo",
    "gpg",
    "grpo",
    "grpo_passk",
    "grpo_vectorized",
    "opo",
    "optimal_token_baseline",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "remax",
    "rloo",
    "rloo_vectorized",
    "tir_optimal_token_baseline",
]
LossMode = Literal[
    "bypass_mode",
    "cispo",
    "clip_cov",
    "dppo_kl",
    "dppo_tv",
    "dro",
    "geo_mean",
    "gpg",
    "gspo",
    "kl_cov",
    "sapo",
    "vanilla",
]
AggMode = Literal["token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
BypassLoss = Literal["ppo_clip", "reinforce"]
Threshold = float | str

UNBOUND = (None, None)
"""No clamp of the log ratio: infinite for policies that are far apart, as in verl."""


def verl(
    *,
    adv_estimator: Estimator = "gae",
    loss_mode: LossMode = "vanilla",
    loss_agg_mode: AggMode = "token-mean",
    loss_scale_factor: int | None = None,
    n: int = 1,
    gamma: float = 1.0,
    lam: float = 1.0,
    epsilon: float = 1e-6,
    norm_adv_by_std_in_grpo: bool = True,
    gdpo_reward_weights: tuple[float, ...] = (),
    handle_zero_tail: bool = True,
    clip_ratio_low: float = 0.2,
    clip_ratio_high: float = 0.2,
    clip_ratio_c: float = 3.0,
    tau_pos: float = 1.0,
    tau_neg: float = 1.05,
    dro_beta: float | None = None,
    clip_cov_ratio: float = 2e-4,
    clip_cov_lb: float = 1.0,
    clip_cov_ub: float = 5.0,
    kl_cov_ratio: float = 2e-4,
    ppo_kl_coef: float = 0.1,
    cliprange_value: float = 0.5,
    entropy_coeff: float = 0.0,
    kl_loss_coef: float = 0.0,
    kl_loss_type: str = "low_var_kl",
    kl_coef: float = 0.0,
    kl_penalty: str = "kl",
    target_kl: float | None = None,
    horizon: int = 10_000,
    rollout_is: Literal["token", "sequence"] | None = None,
    rollout_is_threshold: Threshold = 2.0,
    rollout_is_batch_normalize: bool = False,
    rollout_rs: str | None = None,
    rollout_rs_threshold: Threshold | None = None,
    bypass_loss_type: BypassLoss = "ppo_clip",
    ppo_epochs: int = 1,
    minibatches: int = 1,
) -> Algorithm:
    """Return the algorithm that verl 0.9 runs with these settings, under its own names and with its own defaults.

    n: samples a prompt; an estimator that compares them needs 2. target_kl: None is the fixed controller of `kl_coef`.
    bypass_loss_type: `rollout_correction.loss_type` of the loss mode "bypass_mode".

    Raises ConfigError for settings that verl refuses too, and for one sample where the estimator compares several.
    """
    if n == 1 and adv_estimator in _COMPARES:
        raise ConfigError(
            f"verl: n=1 with adv_estimator={adv_estimator}, which compares the samples of one prompt; "
            f"n must be at least 2"
        )
    bypass = loss_mode == "bypass_mode"
    policy = bypass_loss_type if bypass else loss_mode
    clip = {"clip_low": clip_ratio_low, "clip_high": clip_ratio_high}
    mask = rejections(rollout_rs, rollout_rs_threshold)
    weight = weights(rollout_is, rollout_is_threshold, normalize=rollout_is_batch_normalize)
    loss = _loss(policy, clip, clip_ratio_c, (tau_pos, tau_neg), dro_beta, ppo_kl_coef)
    return Algorithm(
        name=f"verl-0.9/{adv_estimator if loss_mode == 'vanilla' else loss_mode}",
        advantage=_advantage(
            adv_estimator, gamma, lam, epsilon, norm_adv_by_std_in_grpo, gdpo_reward_weights, handle_zero_tail
        ),
        loss=loss,
        reduction=_reduction("seq-mean-token-mean" if policy in _BY_ROW else loss_agg_mode, loss_scale_factor),
        kl=_kl(kl_loss_type) if kl_loss_coef else None,
        kl_coefficient=kl_loss_coef,
        kl_in_reward=_kl(kl_penalty) if kl_coef else None,
        kl_in_reward_coefficient=kl_coef,
        controller=_controller(target_kl, horizon, kl_penalty) if kl_coef else None,
        entropy_coefficient=entropy_coeff,
        correction=(corrections.bypass,) if bypass else (*weight, *mask) or None,
        selects=_selects(loss_mode, clip, (clip_cov_ratio, clip_cov_lb, clip_cov_ub), kl_cov_ratio)
        + (_current(weight if policy == "reinforce" else (), mask) if bypass else ()),
        value_loss=bind(losses.value_clipped, clip=cliprange_value) if adv_estimator == "gae" else None,
        value_reduction=_reduction(loss_agg_mode, loss_scale_factor) if adv_estimator == "gae" else None,
        group_size=n,
        epochs=ppo_epochs,
        minibatches=minibatches,
    )


_BY_ROW = ("sapo", "geo_mean")
_COMPARES = tuple(name for name in get_args(Estimator) if name not in ("gae", "reinforce_plus_plus", "remax"))


def _advantage(
    name: str,
    gamma: float,
    lam: float,
    epsilon: float,
    by_std: bool,
    part_weights: tuple[float, ...],
    zero_tail: bool,
) -> tuple[Component, ...]:
    own = {"keep_single": True, "epsilon": epsilon}
    center = bind(advantages.group_norm, scale_by_std=False, keep_single=True)
    table: dict[str, tuple[Component, ...]] = {
        "gae": (bind(advantages.gae, gamma=gamma, lam=lam), advantages.whiten),
        "gdpo": (
            bind(advantages.components_norm, weights=part_weights, scale_by_std=by_std, **own),
            advantages.whiten,
        ),
        "gpg": (center, bind(advantages.per_active_row, active="reward")),
        "grpo": (bind(advantages.group_norm, scale_by_std=by_std, **own),),
        "grpo_passk": (bind(advantages.best_margin, scale_by_std=by_std, epsilon=epsilon),),
        "grpo_vectorized": (bind(advantages.group_norm, scale_by_std=by_std, **own),),
        "opo": (bind(advantages.length_weighted_baseline, keep_single=True),),
        "optimal_token_baseline": (
            bind(advantages.token_baseline, zero_tail=zero_tail, tail_from="mask", keep_single=True),
        ),
        "reinforce_plus_plus": (bind(advantages.reward_to_go, gamma=gamma), advantages.whiten),
        "reinforce_plus_plus_baseline": (center, advantages.whiten),
        "remax": (advantages.greedy_baseline,),
        "rloo": (bind(advantages.leave_one_out, keep_single=True),),
        "rloo_vectorized": (advantages.leave_one_out,),
        "tir_optimal_token_baseline": (bind(advantages.token_baseline, zero_tail=zero_tail, keep_single=True),),
    }
    return table[name]


def _loss(
    name: str, clip: dict[str, float], cap: float, tau: tuple[float, float], dro_beta: float | None, pull: float
) -> Component:
    if name == "dro" and dro_beta is None:
        raise ConfigError("loss_mode=dro needs dro_beta, a number above 0")
    bounds = {"low": clip["clip_low"], "high": clip["clip_high"]}
    make: dict[str, Callable[[], Component]] = {
        "vanilla": lambda: bind(losses.clipped, dual_clip=cap, **clip),
        "ppo_clip": lambda: bind(losses.clipped, dual_clip=cap, **clip),
        "reinforce": lambda: losses.policy_gradient,
        "gpg": lambda: losses.policy_gradient,
        "gspo": lambda: bind(losses.gspo, log_ratio_limits=(None, 10.0), **clip),
        "sapo": lambda: bind(losses.sapo, temperature_positive=tau[0], temperature_negative=tau[1]),
        "geo_mean": lambda: bind(losses.gmpo, row_advantage=True, log_ratio_limits=UNBOUND, **clip),
        "cispo": lambda: bind(losses.cispo, **clip),
        "dppo_tv": lambda: bind(losses.dppo_tv, ratio_cap=cap, **bounds),
        "dppo_kl": lambda: bind(losses.dppo_kl, ratio_cap=cap, **bounds),
        "dro": lambda: bind(losses.dro, beta=dro_beta),
        "clip_cov": lambda: bind(losses.clipped, log_ratio_limits=UNBOUND, **clip),
        "kl_cov": lambda: bind(losses.kl_cov, coefficient=pull, log_ratio_limits=UNBOUND),
    }
    return make[name]()


def _reduction(name: str, length: int | None) -> Component:
    table: dict[str, Component] = {
        "token-mean": reductions.token_mean,
        "token-sum": reductions.token_sum,
        "seq-mean-token-mean": reductions.sequence_mean_token_mean,
        "seq-mean-token-sum": reductions.sequence_mean_token_sum,
        "seq-mean-token-sum-norm": bind(reductions.constant, length=length),
    }
    return table[name]


_K3 = {"ceiling": 10.0}
_KL: dict[str, Component] = {
    "abs": absolute,
    "abs+": absolute_straight_through,
    "k1": k1,
    "k1+": k1_straight_through,
    "k2": k2,
    "k2+": k2,
    "k3": bind(k3, **_K3),
    "k3+": bind(k3_straight_through, **_K3),
    "kl": k1,
    "kl+": k1_straight_through,
    "low_var_kl": bind(k3, **_K3),
    "low_var_kl+": bind(k3_straight_through, **_K3),
    "mse": k2,
    "mse+": k2,
}


def _kl(name: str) -> Component:
    if name not in _KL:
        raise unknown("KL estimator of verl", name, _KL)
    return _KL[name]


def _controller(target: float | None, horizon: int, name: str) -> Component | None:
    if target is None:
        return None
    return bind(controllers.adaptive_kl, target=target, horizon=horizon, estimator=_kl(name))


def _selects(
    loss_mode: str, clip: dict[str, float], covariance: tuple[float, float, float], share: float
) -> tuple[Component, ...]:
    if loss_mode == "clip_cov":
        chosen, low, high = covariance
        return (bind(selects.clip_cov, share=chosen, low=low, high=high, **clip),)
    return (bind(selects.kl_cov, share=share),) if loss_mode == "kl_cov" else ()


def _bounds(spec: Threshold) -> tuple[float | None, float]:
    """Return the lower and upper bound of "2.0" and of "0.5_2.0"."""
    low, _, high = str(spec).rpartition("_")
    return (float(low) if low else None), float(high)


def weights(level: str | None, threshold: Threshold, *, normalize: bool) -> tuple[Component, ...]:
    """Return the corrections of `rollout_is`: one number truncates, two set to 0 what lies outside."""
    if level is None:
        return ()
    low, high = _bounds(threshold)
    kind = corrections.truncated if low is None else corrections.icepop
    correction = bind(kind, level=level, low=low, high=high)
    over = "token" if level == "token" else "row"
    return (correction, bind(corrections.normalized, over=over)) if normalize else (correction,)


def rejections(modes: str | None, thresholds: Threshold | None) -> tuple[Component, ...]:
    """Return the corrections of `rollout_rs`, those of whole rows first, because these look at complete rows.

    verl bounds the ratio of the sampler to the trainer; ours is the inverse, so bounds change places.
    """
    if modes is None:
        return ()
    if thresholds is None:
        raise ConfigError(f"rollout_rs={modes} needs rollout_rs_threshold")
    names = list(dict.fromkeys(name.strip() for name in modes.split(",") if name.strip()))
    specs = [spec.strip() for spec in str(thresholds).split(",") if spec.strip()]
    if len(specs) not in (1, len(names)):
        raise ConfigError(f"rollout_rs_threshold={thresholds}: give one for all, or {len(names)}, one for each")
    parts = [_rejection(name, spec) for name, spec in zip(names, specs * len(names), strict=False)]
    return tuple(sorted(parts, key=lambda part: bool(options(part)["level"].default == "token")))


_LEVELS = {"token": "token", "seq_sum": "sequence_sum", "seq_mean": "sequence_mean", "seq_max": "sequence_max"}


def _rejection(name: str, spec: str) -> Component:
    level, _, measure = name.rpartition("_")
    allowed = [
        f"{level_name}_{k}"
        for level_name in _LEVELS
        for k in ("k1", "k2", "k3")
        if (level_name, k) != ("seq_max", "k1")
    ]
    if name not in allowed:
        raise unknown("rollout_rs of verl", name, allowed)
    low, high = _bounds(spec)
    if measure != "k1":
        if low is not None:
            raise ConfigError(f"rollout_rs={name} takes one upper bound, got {spec!r}")
        return bind(corrections.rejected, level=_LEVELS[level], measure=measure, low=None, high=high)
    low = 1 / high if low is None else low
    return bind(corrections.rejected, level=_LEVELS[level], measure="k1", low=1 / high, high=1 / low)


def _current(weight: tuple[Component, ...], mask: tuple[Component, ...]) -> tuple[Component, ...]:
    """Return the same corrections at the weights of the moment, which is where the bypass measures them."""
    parts: list[Component] = []
    for part in weight:
        if source_of(part) is corrections.normalized:
            raise ConfigError("loss_mode=bypass_mode with rollout_is_batch_normalize is not available as a select")
        outside = "bound" if source_of(part) is corrections.truncated else "zero"
        parts.append(bind(selects.current_weights, outside=outside, **_values(part)))
    parts += [bind(selects.current_rejection, **_values(part)) for part in mask]
    return tuple(parts)


def _values(part: Component) -> dict[str, Any]:
    return {name: option.default for name, option in options(part).items()}


def _preset(estimator: Estimator, **settings: Any) -> Component:
    return bind(verl, adv_estimator=estimator, n=2 if estimator in _COMPARES else 1, **settings)


ALL: dict[str, Component] = {
    **{f"verl-0.9/{name}": _preset(name) for name in get_args(Estimator)},
    **{
        f"verl-0.9/{name}": _preset("grpo", loss_mode=name)
        for name in get_args(LossMode)
        if name not in get_args(Estimator)
    },
}
ALL["verl-0.9/gpg"] = _preset("gpg", loss_mode="gpg")
# verl has no default here and refuses to start; 1.0 is the paper's.
ALL["verl-0.9/dro"] = _preset("grpo", loss_mode="dro", dro_beta=1.0)
