"""Presets: settings of registered components that reproduce a named version of a peer; no tensor operation here."""

from rlcore_algorithms.presets import trl, verl

ALL = {**verl.ALL, **trl.ALL}
"""Factories by the name that they are registered under: `verl-0.9/grpo`."""

_SINGLE = {
    "advantage.estimates_of_a_single_row_are_finite": "a group of one keeps its reward as its advantage; ours is 0"
}
_FAR = {
    "loss.losses_stay_finite_at_extreme_ratios": "no clamp of the log ratio: far policies give infinity; ours is +-20"
}
_SINGLES = (
    *("bypass_mode", "cispo", "clip_cov", "dppo_kl", "dppo_tv", "dro", "geo_mean", "gspo", "kl_cov", "sapo", "vanilla"),
    *("gdpo", "gpg", "grpo", "grpo_vectorized", "opo", "reinforce_plus_plus_baseline", "rloo"),
    *("optimal_token_baseline", "tir_optimal_token_baseline"),
)
EXPECT_FAIL: dict[str, dict[str, str]] = {name: {} for name in ALL}
"""Laws that a peer breaks, by preset and check, each with the reason; one that holds after all is an error."""
for _name in _SINGLES:
    EXPECT_FAIL[f"verl-0.9/{_name}"] |= _SINGLE
for _name in ("clip_cov", "geo_mean", "kl_cov"):
    EXPECT_FAIL[f"verl-0.9/{_name}"] |= _FAR
for _name in ("bnpo", "dapo", "dr_grpo", "grpo", "luspo", "sapo"):
    EXPECT_FAIL[f"trl-1.16/{_name}"] |= _FAR
EXPECT_FAIL["verl-0.9/geo_mean"]["loss.on_policy_the_gradient_is_the_policy_gradient"] = (
    "a token's gradient takes the mean advantage of its row; the same where a row has one advantage"
)
