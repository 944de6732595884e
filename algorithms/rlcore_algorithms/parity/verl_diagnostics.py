"""verl's `rollout_corr/*` diagnostics: our corrections are run in order, and their metrics get verl's names.

Values are computed by our corrections and averaged over rows as verl does:
its weights and perplexities count every row, also one
without a trained token (weight 0, perplexity 1), its rejection statistics only rows with one. Its k1 is the sampler
over the trainer and ours the inverse, so signs, extremes and shares change sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcore.component import Component, bind, invoke, name_of
from rlcore.math import masked_mean
from rlcore.registry import get

_PERPLEXITY = {
    "training_ppl": "trainer_perplexity",
    "training_log_ppl": "trainer_log_perplexity",
    "rollout_ppl": "sampler_perplexity",
    "rollout_log_ppl": "sampler_log_perplexity",
    "log_ppl_diff": "log_perplexity_difference",
    "log_ppl_abs_diff": "log_perplexity_difference_abs",
    "ppl_ratio": "perplexity_ratio",
}


def mismatch_diagnostics(
    parts: Sequence[Component], columns: Mapping[str, Any], modes: Sequence[str], *, level: str
) -> dict[str, float]:
    """Run corrections in order on the columns and return their metrics under verl's names.

    `modes`: verl's name for each rejection, in order. `level`: "token" or "sequence", for the weights.
    """
    mask = columns["mask"]
    # Neither k3 nor a perplexity is bounded in verl.
    measured = bind(get("correction", "measured"), log_ratio_limits=(None, None))
    diagnostics = _measured(invoke(measured, columns).metrics, mask)
    state, names, left = dict(columns), list(modes), mask
    for part in parts:
        result = invoke(part, state)
        metrics = {name: x[0] if isinstance(x, tuple) else x for name, x in result.metrics.items()}
        if hasattr(result, "mask"):
            diagnostics |= _rejected(names.pop(0), metrics, mask)
            left = left & result.mask
        elif "weight_mean" in metrics:
            diagnostics["rollout_is_batch_norm_factor"] = float(metrics["weight_mean"])
            state["weight"] = result.weight
        else:
            diagnostics |= _weights(metrics, mask, level, sets_to_0=name_of(part) == "icepop")
            state["weight"] = result.weight
    if modes:
        lost = mask & ~left
        diagnostics["rollout_rs_masked_fraction"] = float(masked_mean(lost.float(), mask))
        diagnostics["rollout_rs_seq_masked_fraction"] = float(lost.any(1).float().mean())
    return {f"rollout_corr/{name}": value for name, value in diagnostics.items()}


def _tokens(x: Tensor, mask: Tensor) -> float:
    return float(masked_mean(x, mask))


def _std(row: Tensor) -> float:
    return float(row.std()) if len(row) > 1 else 0.0


def _measured(metrics: Mapping[str, Any], mask: Tensor) -> dict[str, float]:
    plain = {name: x[0] if isinstance(x, tuple) else x for name, x in metrics.items()}
    difference = plain["log_perplexity_difference"]
    return {
        **{theirs: float(plain[ours].mean()) for theirs, ours in _PERPLEXITY.items()},
        "log_ppl_diff_max": float(difference.max()),
        "log_ppl_diff_min": float(difference.min()),
        "kl": _tokens(plain["kl"], mask),
        "k3_kl": _tokens(plain["k3"], mask),
        "chi2_token": float(plain["chi_square"]),
        # A row without a token has a ratio of 1, so it adds 0 and one row.
        "chi2_seq": float(plain["row_chi_square"]) * float(mask.any(1).float().mean()),
    }


def _weights(metrics: Mapping[str, Tensor], mask: Tensor, level: str, *, sets_to_0: bool) -> dict[str, float]:
    row, by_row = metrics["row_weight"], level == "sequence"
    raw = metrics["weight_max"] if not by_row else metrics["raw_weight_max"]
    seen = raw[mask] if not by_row or bool(mask.any(1).all()) else torch.cat([raw[mask], raw.new_ones(1)])
    above, below = metrics["above_share"], metrics["below_share"]
    diagnostics = {
        "rollout_is_mean": _tokens(metrics["weight"], mask),
        "rollout_is_max": float(seen.max()),
        "rollout_is_min": float(seen.min()),
        "rollout_is_ratio_fraction_high": float(above.any(1).float().mean()) if by_row else _tokens(above, mask),
        "rollout_is_ratio_fraction_low": float(below.any(1).float().mean()) if by_row else _tokens(below, mask),
        "rollout_is_std": float(metrics["weight_std"]),
        "rollout_is_eff_sample_size": float(metrics["effective_sample_share"]),
        "rollout_is_seq_mean": float(row.mean()),
        "rollout_is_seq_std": _std(row),
        "rollout_is_seq_max": float(row.max()),
        "rollout_is_seq_min": float(row.min()),
        "rollout_is_seq_max_deviation": float((row - 1).abs().max()),
        "rollout_is_seq_fraction_high": float(metrics["row_above_share"].mean()),
        "rollout_is_seq_fraction_low": float(metrics["row_below_share"].mean()),
    }
    if sets_to_0:
        diagnostics["rollout_is_oob_ratio"] = _tokens(metrics["changed_share"], mask)
    return diagnostics


def _rejected(mode: str, metrics: Mapping[str, Tensor], mask: Tensor) -> dict[str, float]:
    rows = mask.any(1)
    inverse = mode.endswith("k1")
    sign = -1.0 if inverse else 1.0
    token, row = sign * metrics["measured"], (sign * metrics["row_measured"])[rows]
    high, low = ("below", "above") if inverse else ("above", "below")
    by_row = mode.startswith("seq")
    shares = {
        "fraction_high": _tokens(metrics[f"{high}_share"], mask),
        "fraction_low": _tokens(metrics[f"{low}_share"], mask) if inverse else 0.0,
    }
    row_shares = {
        "fraction_high": float(metrics[f"row_{high}_share"][rows].mean()),
        "fraction_low": float(metrics[f"row_{low}_share"][rows].mean()) if inverse else 0.0,
    }
    extremes = row if by_row else token[mask]
    diagnostics = {
        "mean": _tokens(token, mask),
        "max": float(extremes.max()),
        "min": float(extremes.min()),
        **(row_shares if by_row else shares),
        "std": float(metrics["measured_std"]),
        "seq_mean": float(row.mean()),
        "seq_std": _std(row),
        "seq_max": float(row.max()),
        "seq_min": float(row.min()),
        "seq_max_deviation": float(row.abs().max()),
        "seq_fraction_high": row_shares["fraction_high"],
        "seq_fraction_low": row_shares["fraction_low"],
        "masked_fraction": _tokens(metrics["rejected_share"], mask),
        "seq_masked_fraction": float(metrics["rejected_row_share"][rows].mean()),
    }
    return {f"rollout_rs_{mode}_{name}": value for name, value in diagnostics.items()}
