"""Cases of verl's policy and value losses, run through the terms and selects of their preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rlcore.algorithm import Algorithm
from rlcore.component import invoke
from rlcore.math import Counts, masked_mean
from rlcore.metrics import Metrics
from rlcore.protocols import Term
from rlcore.registry import get
from rlcore.train.update_plan import term_value
from rlcore_algorithms.parity.compare import Case, CaseResult, tensor
from rlcore_algorithms.parity.verl_diagnostics import mismatch_diagnostics

_OPTIONS = (
    "clip_ratio_c",
    "tau_pos",
    "tau_neg",
    "dro_beta",
    "clip_cov_ratio",
    "clip_cov_lb",
    "clip_cov_ub",
    "kl_cov_ratio",
    "ppo_kl_coef",
)
_SHARES: dict[str, tuple[str | None, str | None]] = {
    "vanilla": ("clip_share", "dual_clip_share"),
    "bypass_mode": ("clip_share", "dual_clip_share"),
    "cispo": ("clip_share", None),
    "clip_cov": ("weight_0_share", None),
    "dppo_kl": ("clip_share", "cap_share"),
    "dppo_tv": ("clip_share", "cap_share"),
    "geo_mean": ("outside_positive_share", "outside_negative_share"),
    "gspo": ("clip_share", None),
}
"""Our metrics by loss mode: `pg_clipfrac` and `pg_clipfrac_lower`; None is a constant 0 in verl."""


def run(case: Case, peer: str) -> CaseResult:
    """Return the loss, its gradient by `log_prob` and its metrics for one case."""
    args, name = case["args"], case["name"]
    algorithm = _algorithm(case, peer)
    columns = _columns(args)
    recorded_mask = columns["mask"]
    for part in algorithm.corrections:
        columns |= _loss_columns(invoke(part, columns))
    metrics = _diagnostics(case, peer, columns) if name == "bypass_mode" else {}
    for part in algorithm.selects:
        columns |= _selected(part, columns, metrics)
    logprob = columns["logprob"].requires_grad_()
    counts, copies = case_counts(
        columns["mask"], case["config"].get("global_batch_info", {}), every_row=name == "geo_mean"
    )
    value, reported = term_value(Term(algorithm.loss, algorithm.reduction), columns, counts=counts)
    loss = value * copies
    (grad,) = torch.autograd.grad(loss, [logprob])
    return CaseResult(
        {"loss": loss.detach(), **metrics, **_metrics(name, reported, columns, metrics)}, grad, recorded_mask
    )


def value_loss(case: Case, peer: str) -> CaseResult:
    """Return the critic's loss, its gradient by `vpreds` and the share of clipped tokens for one case."""
    args, config = case["args"], case["config"]
    mask = tensor(args["response_mask"]).bool()
    prediction = tensor(args["vpreds"]).requires_grad_()
    columns = {
        "mask": mask,
        "new_value": prediction,
        "value": tensor(args["values"]),
        "returns": tensor(args["returns"]),
    }
    names = ("cliprange_value", "loss_agg_mode", "loss_scale_factor")
    algorithm: Algorithm = get("algorithm", f"{peer}/gae")(**{n: config[n] for n in names if n in config})
    counts, copies = case_counts(mask, config)
    term = Term(algorithm.value_loss or algorithm.loss, algorithm.value_reduction or algorithm.reduction)
    value, reported = term_value(term, columns, counts=counts)
    loss = value * copies
    (grad,) = torch.autograd.grad(loss, [prediction])
    return CaseResult(
        {"loss": loss.detach(), "clipfrac": reduce_metrics(reported, mask)["value_clip_taken_share"]}, grad, mask
    )


def aggregated_loss(case: Case, peer: str) -> CaseResult:
    """Return the weighted sum of recorded token losses for one case."""
    config = case["config"]
    mask = tensor(case["args"]["loss_mask"]).bool()
    algorithm: Algorithm = get("algorithm", f"{peer}/vanilla")(
        loss_agg_mode=case["name"], loss_scale_factor=config.get("loss_scale_factor")
    )
    counts, copies = case_counts(mask, config)
    columns = {"mask": mask, "logprob": tensor(case["args"]["loss_mat"])}
    value, _ = term_value(Term(_recorded_loss, algorithm.reduction), columns, counts=counts)
    return CaseResult({"loss": value * copies})


def _recorded_loss(logprob: Tensor) -> Tensor:
    """Return the loss [B, T] that was recorded."""
    return logprob


def case_counts(mask: Tensor, config: Mapping[str, Any], *, every_row: bool = False) -> tuple[Counts, int]:
    """Return the counts of an update as verl has them, and the number of ranks that its gradients are averaged over.

    Global numbers where given, else those of these rows; without a `loss_scale_factor` verl divides by the padded
    width. every_row: rows without a trained token are counted.
    """
    own = Counts.of(mask)
    rows = len(mask) if every_row else config.get("global_batch_size") or own.rows
    copies = 1 if every_row else int(config.get("dp_size") or 1)
    return Counts(int(config.get("batch_num_tokens") or own.tokens), int(rows), max_new_tokens=mask.shape[1]), copies


def reduce_metrics(metrics: Mapping[str, Any], mask: Tensor) -> dict[str, float]:
    """Return metrics as one number each; 0 where nothing was seen."""
    window = Metrics()
    window.report(metrics, mask)
    return {**dict.fromkeys(metrics, 0.0), **window.values()}


def _algorithm(case: Case, peer: str) -> Algorithm:
    config = case["config"]
    options = {name: config[name] for name in _OPTIONS if config.get(name) is not None}
    for side in ("low", "high"):
        bound = config.get(f"clip_ratio_{side}")
        options[f"clip_ratio_{side}"] = config["clip_ratio"] if bound is None else bound
    options["loss_agg_mode"] = config.get("loss_agg_mode", "token-mean")
    options["loss_scale_factor"] = config.get("global_batch_info", {}).get("loss_scale_factor")
    correction = dict(config.get("rollout_correction") or {})
    options["bypass_loss_type"] = correction.pop("loss_type", "ppo_clip")
    algorithm: Algorithm = get("algorithm", f"{peer}/{case['name']}")(**options, **correction)
    return algorithm


def _columns(args: Mapping[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "mask": tensor(args["response_mask"]).bool(),
        "logprob": tensor(args["log_prob"]),
        "old_logprob": tensor(args["old_log_prob"]),
        # In the bypass the old log-probabilities are the sampler's; nothing was cut off its distribution.
        "rollout_logprob": tensor(args["old_log_prob"]),
        "kept_logmass": torch.zeros_like(tensor(args["old_log_prob"])),
        "advantage": tensor(args["advantages"]),
        "seed": 0,
    }
    if args.get("rollout_is_weights") is not None:
        columns["weight"] = tensor(args["rollout_is_weights"])
    return columns


def _loss_columns(result: Any) -> dict[str, Any]:
    return {name: value for name, value in result._asdict().items() if name != "metrics"}


def _selected(part: Any, columns: dict[str, Any], metrics: dict[str, float]) -> dict[str, Any]:
    """Return what a select writes; the share of tokens to which it alone gives the weight 0 goes into the metrics."""
    alone = _loss_columns(invoke(part, {name: value for name, value in columns.items() if name != "weight"}))
    if "weight" in alone:
        metrics["weight_0_share"] = float(masked_mean((alone["weight"] == 0).float(), columns["mask"]))
    return _loss_columns(invoke(part, columns))


def _metrics(
    name: str, reported: Mapping[str, Any], columns: Mapping[str, Any], extra: Mapping[str, float]
) -> dict[str, float]:
    """Return the names of verl for our metrics; in it a share that a loss does not have is 0."""
    values = {**reduce_metrics(reported, columns["mask"]), **extra}
    higher, lower = _SHARES.get(name, (None, None))
    kl = values.get("distance" if name == "kl_cov" else "old_kl")
    if kl is None:
        kl = float(masked_mean(columns["rollout_logprob"] - columns["logprob"].detach(), columns["mask"]))
    return {
        "actor/ppo_kl": kl,
        "actor/pg_clipfrac": values.get(higher or "", 0.0),
        "actor/pg_clipfrac_lower": values.get(lower or "", 0.0),
    }


def _diagnostics(case: Case, peer: str, columns: Mapping[str, Any]) -> dict[str, float]:
    """Return the mismatch of the policy of the moment, under the names that verl reports it by."""
    settings = dict(case["config"]["rollout_correction"])
    settings.pop("loss_type", None)
    algorithm: Algorithm = get("algorithm", f"{peer}/vanilla")(**settings)
    modes = [mode.strip() for mode in (settings.get("rollout_rs") or "").split(",") if mode.strip()]
    seen = {**columns, "old_logprob": columns["logprob"]}
    return mismatch_diagnostics(algorithm.corrections, seen, modes, level=settings.get("rollout_is") or "token")
