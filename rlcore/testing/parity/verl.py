"""Cases of verl by kind: estimators and losses have files of their own; KL, statistics and corrections stand here."""

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
from rlcore.testing.parity import verl_advantages, verl_losses
from rlcore.testing.parity.compare import Case, Found, tensor


def run(case: Case, peer: str) -> Found:
    """What we get for one case. Raises UnknownNameError for a kind that there is not."""
    if case.get("kind") not in _KINDS:
        raise unknown("kind of case", str(case.get("kind")), _KINDS)
    return _KINDS[case["kind"]](case, peer)


def _preset(peer: str, name: str = "vanilla", **options: Any) -> Algorithm:
    made: Algorithm = get("algorithm", f"{peer}/{name}")(**options)
    return made


def _kl(case: Case, peer: str) -> Found:
    logprob = tensor(case["args"]["log_prob"]).requires_grad_()
    estimator = _preset(peer, kl_loss_coef=1.0, kl_loss_type=case["name"]).kl
    value = invoke(estimator or kl_in_reward, {"logprob": logprob, "ref_logprob": tensor(case["args"]["ref_log_prob"])})
    (grad,) = torch.autograd.grad(value.sum(), [logprob])
    return Found({"kl": value.detach()}, grad)


def _entropy(case: Case, peer: str) -> Found:
    logits = tensor(case["args"]["logits"])
    flat = logits.flatten(0, -2)
    value = get("readout", "entropy")(flat, torch.zeros(len(flat), dtype=torch.int64))
    return Found({"y": value.view(logits.shape[:-1])})


def _masked(case: Case, peer: str) -> Found:
    values, mask = tensor(case["args"]["values"]), tensor(case["args"]["mask"]).bool()
    config = case["config"]
    if case["name"] == "mean":
        return Found({"y": masked_mean(values, mask)})
    if case["name"] == "var":
        return Found({"y": masked_var(values, mask, bessel=config.get("unbiased", True))})
    return Found({"y": whiten(values, mask, shift_mean=config.get("shift_mean", True))}, at=mask)


def _moved(controller: Any, coefficient: float, kl: float, rows: int) -> float:
    """The coefficient after `rows` rows whose KL is `kl`, as a controller that looks at rows has it."""
    old = torch.full((rows, 1), kl, dtype=torch.float64)
    # Whatever it measures by (k1, k3, ...), it is handed one number per row.
    told = bind(controller, estimator=_as_told)
    columns = {"logprob": old, "ref_logprob": torch.zeros_like(old), "mask": torch.ones_like(old, dtype=torch.bool)}
    return float(invoke(told, {**columns, "kl_coefficient": coefficient}).kl_coefficient)


def _as_told(logprob: Tensor, ref_logprob: Tensor) -> Tensor:
    return logprob


def _controller(case: Case, peer: str) -> Found:
    config = case["config"]
    algorithm = _preset(peer, kl_coef=config["kl_coef"], target_kl=config["target_kl"], horizon=config["horizon"])
    coefficient, values = float(config["kl_coef"]), []
    for kl, rows in zip(case["args"]["current_kl"], case["args"]["n_steps"], strict=True):
        coefficient = _moved(algorithm.controller, coefficient, kl, rows)
        values.append(coefficient)
    return Found({"value": values})


def _kl_in_reward(case: Case, peer: str) -> Found:
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
    taken = invoke(bind(kl_in_reward, estimator=estimator), columns)
    # verl's mean over rows counts every row, also one without a token.
    kl = float(masked_mean(invoke(estimator, columns), mask, dim=1).mean())
    return Found(
        {
            "token_level_rewards": taken.token_reward,
            "actor/reward_kl_penalty": kl,
            "actor/reward_kl_penalty_coeff": coefficient,
            "kl_coef_after": _moved(algorithm.controller, coefficient, kl, len(mask)),
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


def _corrected(case: Case, peer: str) -> dict[str, Any]:
    columns = _mismatch_columns(case)
    for part in _preset(peer, **case["config"]).corrections:
        columns |= {name: x for name, x in invoke(part, columns)._asdict().items() if name != "metrics"}
    return columns


def _weights(case: Case, peer: str) -> Found:
    return Found({"weights": _corrected(case, peer)["weight"]}, at=tensor(case["args"]["response_mask"]).bool())


def _rejected(case: Case, peer: str) -> Found:
    return Found({"mask": _corrected(case, peer)["mask"].float()})


_KINDS: dict[str, Callable[[Case, str], Found]] = {
    "advantage": verl_advantages.run,
    "agg_loss": verl_losses.aggregated,
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
