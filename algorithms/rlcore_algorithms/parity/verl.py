"""Recorded cases of verl, run by kind. KL, entropy, statistics and corrections are here.

Advantages are in `verl_advantages`, losses in `verl_losses`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlcore.algorithm import Algorithm, kl_in_reward
from rlcore.component import bind, invoke
from rlcore.errors import unknown
from rlcore.math import masked_mean, masked_var, whiten
from rlcore.registry import get
from rlcore_algorithms.parity import verl_advantages, verl_losses
from rlcore_algorithms.parity.compare import Case, CaseResult, tensor


def run(case: Case, peer: str) -> CaseResult:
    """Return our outputs for a recorded case, and the gradient for kinds that have one.

    peer: the family of presets that the case is run through, as `verl-0.9`.

    Raises UnknownNameError for an unknown kind of case.
    """
    if case.get("kind") not in _KINDS:
        raise unknown("kind of case", str(case.get("kind")), _KINDS)
    return _KINDS[case["kind"]](case, peer)


def _preset(peer: str, name: str = "vanilla", **options: Any) -> Algorithm:
    algorithm: Algorithm = get("algorithm", f"{peer}/{name}")(**options)
    return algorithm


def _kl(case: Case, peer: str) -> CaseResult:
    logprob = tensor(case["args"]["log_prob"]).requires_grad_()
    estimator = _preset(peer, kl_loss_coef=1.0, kl_loss_type=case["name"]).kl
    value = invoke(estimator or kl_in_reward, {"logprob": logprob, "ref_logprob": tensor(case["args"]["ref_log_prob"])})
    (grad,) = torch.autograd.grad(value.sum(), [logprob])
    return CaseResult({"kl": value.detach()}, grad)


def _entropy(case: Case, peer: str) -> CaseResult:
    logits = tensor(case["args"]["logits"])
    flat = logits.flatten(0, -2)
    value = get("readout", "entropy")(flat, torch.zeros(len(flat), dtype=torch.int64))
    return CaseResult({"y": value.view(logits.shape[:-1])})


def _masked(case: Case, peer: str) -> CaseResult:
    values, mask = tensor(case["args"]["values"]), tensor(case["args"]["mask"]).bool()
    config = case["config"]
    if case["name"] == "mean":
        return CaseResult({"y": masked_mean(values, mask)})
    if case["name"] == "var":
        return CaseResult({"y": masked_var(values, mask, bessel=config.get("unbiased", True))})
    return CaseResult({"y": whiten(values, mask, shift_mean=config.get("shift_mean", True))}, at=mask)


def _next_coefficient(controller: Any, coefficient: float, kl: float, rows: int) -> float:
    """Return the coefficient after `rows` rows whose KL is `kl`, as a controller that looks at rows has it."""
    old = torch.full((rows, 1), kl, dtype=torch.float64)
    # Whatever it measures by (k1, k3, ...), it is handed one number per row.
    steered = bind(controller, estimator=_first_argument)
    columns = {"logprob": old, "ref_logprob": torch.zeros_like(old), "mask": torch.ones_like(old, dtype=torch.bool)}
    return float(invoke(steered, {**columns, "kl_coefficient": coefficient}).kl_coefficient)


def _first_argument(logprob: Tensor, ref_logprob: Tensor) -> Tensor:
    return logprob


def _controller(case: Case, peer: str) -> CaseResult:
    config = case["config"]
    algorithm = _preset(peer, kl_coef=config["kl_coef"], target_kl=config["target_kl"], horizon=config["horizon"])
    coefficient, values = float(config["kl_coef"]), []
    for kl, rows in zip(case["args"]["current_kl"], case["args"]["n_steps"], strict=True):
        coefficient = _next_coefficient(algorithm.controller, coefficient, kl, rows)
        values.append(coefficient)
    return CaseResult({"value": values})


def _kl_in_reward(case: Case, peer: str) -> CaseResult:
    args, config = case["args"], case["config"]
    coefficient = float(config["kl_coef"])
    algorithm = _preset(
        peer, kl_coef=coefficient, kl_penalty=case["name"], target_kl=config["target_kl"], horizon=config["horizon"]
    )
    mask, scores = tensor(args["response_mask"]).bool(), tensor(args["token_level_scores"])
    columns = {
        "reward": scores.sum(1),
        "token_reward": scores,
        "sampled": mask,
        "kl_in_reward_coefficient": coefficient,
        "logprob": tensor(args["old_log_probs"]),
        "ref_logprob": tensor(args["ref_log_prob"]),
    }
    estimator = algorithm.kl_in_reward or kl_in_reward
    penalized = invoke(bind(kl_in_reward, estimator=estimator), columns)
    # verl's mean over rows counts every row, also one without a token.
    kl = float(masked_mean(invoke(estimator, columns), mask, dim=1).mean())
    return CaseResult(
        {
            "token_level_rewards": penalized.token_reward,
            "actor/reward_kl_penalty": kl,
            "actor/reward_kl_penalty_coeff": coefficient,
            "kl_coef_after": _next_coefficient(algorithm.controller, coefficient, kl, len(mask)),
        },
        at=mask,
    )


def _mismatch_columns(case: Case) -> dict[str, Any]:
    args = case["args"]
    old = tensor(args["old_log_prob"])
    return {
        "old_logprob": old,
        "rollout_logprob": tensor(args["rollout_log_prob"]),
        "kept_logmass": torch.zeros_like(old),
        "mask": tensor(args["response_mask"]).bool(),
    }


def _apply_corrections(case: Case, peer: str) -> dict[str, Any]:
    columns = _mismatch_columns(case)
    for correction in _preset(peer, **case["config"]).corrections:
        columns |= {name: x for name, x in invoke(correction, columns)._asdict().items() if name != "metrics"}
    return columns


def _weights(case: Case, peer: str) -> CaseResult:
    return CaseResult(
        {"weights": _apply_corrections(case, peer)["weight"]}, at=tensor(case["args"]["response_mask"]).bool()
    )


def _rejected(case: Case, peer: str) -> CaseResult:
    return CaseResult({"mask": _apply_corrections(case, peer)["mask"].float()})


_KINDS: dict[str, Callable[[Case, str], CaseResult]] = {
    "advantage": verl_advantages.run,
    "agg_loss": verl_losses.aggregated_loss,
    "entropy": _entropy,
    "kl": _kl,
    "kl_ctrl": _controller,
    "kl_in_reward": _kl_in_reward,
    "masked": _masked,
    "policy_loss": verl_losses.run,
    "rollout_is": _weights,
    "rollout_rs": _rejected,
    "value_loss": verl_losses.value_loss,
}
