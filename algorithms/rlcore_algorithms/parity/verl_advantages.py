"""Cases of verl's advantage estimators, run through the chain of their preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlcore.algorithm import Algorithm
from rlcore.component import invoke
from rlcore.math import masked
from rlcore.registry import get
from rlcore_algorithms.parity.compare import Case, CaseResult, tensor

_OPTIONS = ("gamma", "lam", "epsilon", "norm_adv_by_std_in_grpo", "gdpo_reward_weights", "handle_zero_tail")
_BY_PLACE = ("optimal_token_baseline",)
"""Given the tokens at their places; every other estimator is given the trained tokens alone, moved to the left."""
_BY_TRAINED_ROWS = ("tir_optimal_token_baseline",)
"""A row without a trained token is no member of its group here, as in a run; in other estimators verl counts it."""
_RETURNS_TO_GO = ("remax", "optimal_token_baseline", "tir_optimal_token_baseline")


@dataclass(frozen=True)
class TokenOrder:
    """Where the tokens of an estimator's view come from: all of a row, or its trained ones moved to the left."""

    index: Tensor

    @classmethod
    def of(cls, mask: Tensor, *, compact: bool) -> TokenOrder:
        """Return the order of the tokens of some rows."""
        places = torch.arange(mask.shape[1]).expand_as(mask)
        return cls(torch.argsort((~mask).long(), dim=1, stable=True) if compact else places)

    def view(self, x: Tensor) -> Tensor:
        """Return what an estimator is handed."""
        return x.gather(1, self.index)

    def restore(self, x: Tensor) -> Tensor:
        """Return its result, back in place."""
        return torch.zeros_like(x).scatter(1, self.index, x)


def run(case: Case, peer: str) -> CaseResult:
    """Return advantages and returns [B, T] for one case."""
    args, name = case["args"], case["name"]
    mask = tensor(args["response_mask"]).bool()
    if name in _BY_TRAINED_ROWS and not bool(mask.any(1).all()):
        return _without_empty_rows(case, peer, mask)
    order = TokenOrder.of(mask, compact=name not in _BY_PLACE)
    columns = _columns(args, mask, order, case["config"])
    advantages: list[Tensor] = []
    for component in _algorithm(case, peer).chain:
        result = invoke(component, columns)
        fields = result._asdict() if hasattr(result, "_asdict") else {"advantage": result}
        columns |= {key: _spread(value, columns["mask"]) for key, value in fields.items()}
        advantages.append(columns["advantage"])
    returns = columns.get("returns", advantages[0] if name == "reinforce_plus_plus" else advantages[-1])
    if name in _RETURNS_TO_GO:
        returns = invoke(get("advantage", "reward_to_go"), columns)
    return CaseResult({"advantages": order.restore(advantages[-1]), "returns": order.restore(returns)}, at=mask)


def _without_empty_rows(case: Case, peer: str, mask: Tensor) -> CaseResult:
    """Return what the other rows get without them; 0 at theirs."""
    rows = mask.any(1).nonzero().flatten()
    args = {name: [value[row] for row in rows.tolist()] for name, value in case["args"].items() if value is not None}
    result = run({**case, "args": args}, peer)
    restored = {name: torch.zeros(mask.shape).index_copy(0, rows, value) for name, value in result.out.items()}
    return CaseResult(restored, at=mask)


def _algorithm(case: Case, peer: str) -> Algorithm:
    options: dict[str, Any] = {name: case["config"][name] for name in _OPTIONS if name in case["config"]}
    if "gdpo_reward_weights" in options:
        options["gdpo_reward_weights"] = tuple(options["gdpo_reward_weights"])
    algorithm: Algorithm = get("algorithm", f"{peer}/{case['name']}")(n=2, **options)
    return algorithm


def _columns(args: Mapping[str, Any], mask: Tensor, order: TokenOrder, config: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of an estimator's view; as in verl, a reward that stands off the mask counts in a row's sum."""
    rewards = tensor(args["token_level_rewards"])
    on = order.view(mask)
    all_columns = torch.full((len(mask),), mask.shape[1])
    columns: dict[str, Any] = {
        "mask": on,
        "sampled": on,
        "length": all_columns if bool((on == mask).all()) and not _is_left(mask) else mask.sum(1),
        "reward": rewards.sum(1),
        "token_reward": order.view(masked(rewards, mask)),
        "group": _groups(args.get("index", list(range(len(mask))))),
        "score_components": rewards.sum(1)[:, None],
    }
    keys = config.get("gdpo_reward_keys")
    if keys:
        columns["score_components"] = torch.stack([tensor(args[f"component_{key}"]) for key in keys], 1)
    for theirs, ours in (
        ("values", "value"),
        ("old_log_probs", "old_logprob"),
        ("sum_pi_squared", "old_square_sum"),
        ("rollout_is_weights", "weight"),
    ):
        if args.get(theirs) is not None:
            columns[ours] = order.view(masked(tensor(args[theirs]), mask))
    if args.get("reward_baselines") is not None:
        columns["greedy_reward"] = tensor(args["reward_baselines"])
    return columns


def _is_left(mask: Tensor) -> bool:
    """Return whether every row's trained tokens stand at its beginning."""
    return bool((mask[:, 1:] <= mask[:, :-1]).all())


def _groups(index: list[Any]) -> Tensor:
    names = {name: number for number, name in enumerate(dict.fromkeys(index))}
    return torch.tensor([names[name] for name in index])


def _spread(value: Tensor, mask: Tensor) -> Tensor:
    return masked(value[:, None].expand_as(mask) if value.dim() == 1 else value, mask)
