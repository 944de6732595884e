"""Cases of TRL's GRPO loss, run through the preset of their loss type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.algorithm import Algorithm
from rlcore.math import Counts
from rlcore.protocols import Term
from rlcore.registry import get
from rlcore.train.update_plan import term_value
from rlcore_algorithms.parity.compare import Case, CaseResult, tensor


def run(case: Case, peer: str) -> CaseResult:
    """Return the loss and its gradient by `log_prob` for one case."""
    args = case["args"]
    mask = tensor(args["completion_mask"]).bool()
    logprob = tensor(args["log_prob"]).requires_grad_()
    advantage = tensor(args["advantages_per_row"])[:, None].expand_as(mask)
    columns: dict[str, Any] = {
        "mask": mask,
        "logprob": logprob,
        "old_logprob": tensor(args["old_log_prob"]),
        "advantage": advantage,
    }
    if args.get("ref_log_prob") is not None:
        columns["ref_logprob"] = tensor(args["ref_log_prob"])
    algorithm = _algorithm(case, peer)
    counts = _counts(case, mask)
    loss = torch.zeros(())
    for term in _terms(algorithm):
        value, _ = term_value(term, columns, counts=counts)
        loss = loss + value
    loss = loss / _accumulated(case)
    (grad,) = torch.autograd.grad(loss, [logprob])
    return CaseResult({"loss": loss.detach()}, grad, mask)


def _algorithm(case: Case, peer: str) -> Algorithm:
    factory = get("algorithm", f"{peer}/{case['loss_type']}")
    names = ("importance_sampling_level", "beta", "delta", "epsilon", "epsilon_high", "max_completion_length")
    algorithm: Algorithm = factory(**{name: case[name] for name in names if name in case})
    return algorithm


def _terms(algorithm: Algorithm) -> list[Term]:
    terms = [Term(algorithm.loss, algorithm.reduction, name="policy")]
    if algorithm.kl is not None:
        terms.append(Term(algorithm.kl, algorithm.reduction, algorithm.kl_coefficient, name="kl"))
    return terms


def _counts(case: Case, mask: Tensor) -> Counts:
    """Return the counts that TRL divides by: all rows, and for its global token mean the whole accumulated batch."""
    tokens = int(mask.sum()) if case["loss_type"] == "bnpo" else round(float(case["num_items_in_batch"]))
    return Counts(tokens, len(mask), max_new_tokens=case.get("max_completion_length"))


def _accumulated(case: Case) -> int:
    """Return the microbatches of an update, by which TRL divides a mean that it takes within one."""
    return 1 if case["loss_type"] in ("dapo", "cispo", "vespo") else int(case.get("grad_accum", 1))
