"""What verl's estimators cost beside ours on the same rows: `--verl PATH` of the bench."""

import importlib
import importlib.metadata
import statistics
import sys
from functools import partial

import numpy as np
import torch

from rlcore import bind, get
from rlcore.component import invoke
from rlcore.math import length_mask, masked

COUNTERPARTS = {
    "gae": "gae, whiten",
    "grpo": "group_norm",
    "grpo_vectorized": "group_norm",
    "grpo_passk": "best_margin",
    "gdpo": "components_norm, whiten",
    "rloo": "leave_one_out",
    "rloo_vectorized": "leave_one_out",
    "opo": "length_weighted_baseline",
    "reinforce_plus_plus": "reward_to_go, whiten",
    "reinforce_plus_plus_baseline": "norm, whiten",
    "remax": "greedy_baseline",
    "gpg": "norm, per_active_row",
    "optimal_token_baseline": "token_baseline",
    "tir_optimal_token_baseline": "token_baseline",
}
"""verl's names, and the steps of ours that compute the same, with these options where they are not the defaults."""
OPTIONS = {"best_margin": {"scale_by_std": True}, "norm": {"scale": "none"}, "per_active_row": {"active": "reward"}}


class Settings(dict):
    """What verl's functions ask of a configuration: its entries, as keys and as attributes."""

    __getattr__ = dict.__getitem__


def ours(steps, given):
    """A call of our chain of steps; a result per row is spread over the row's tokens, as a run does."""
    bound = [bind(get("advantage", name), **OPTIONS.get(name, {})) for name in steps.split(", ")]
    real = length_mask(given["length"], given["mask"].shape[1])

    def call():
        columns = dict(given)
        for step in bound:
            result = invoke(step, columns)
            advantage = getattr(result, "advantage", result)
            per_row = advantage.dim() == 1
            columns["advantage"] = masked(advantage[:, None].expand_as(real), real) if per_row else advantage
        return columns["advantage"]

    return call


def verls(path, given):
    """Calls of verl's estimators by their names, from the columns of the bench."""
    if path not in sys.path:
        sys.path.append(path)
    core = importlib.import_module("verl.trainer.ppo.core_algos")
    mask = given["mask"].long()
    parts = {f"part{k}": part.numpy() for k, part in enumerate(given["score_components"].T)}
    common = {
        "token_level_rewards": given["token_reward"],
        "response_mask": mask,
        "index": np.array([f"prompt-{i}" for i in given["group"].tolist()], dtype=object),
        "config": Settings(gamma=1.0, norm_adv_by_std_in_grpo=True, gdpo_reward_keys=list(parts)),
    }
    tokens = {"old_log_probs": given["old_logprob"], "sum_pi_squared": given["old_square_sum"]}
    special = {
        "gae": {"values": given["value"], "gamma": 1.0, "lam": 1.0},
        "remax": {"reward_baselines": given["greedy_reward"]},
        # Prompts of width 0: its place of the last token is then the length of the response less 1.
        "gdpo": {"non_tensor_batch": parts, "batch": {"prompts": mask[:, :0], "attention_mask": mask}},
        "optimal_token_baseline": tokens,
        "tir_optimal_token_baseline": tokens,
    }
    calls = {}
    for name, function in core.ADV_ESTIMATOR_REGISTRY.items():
        taken = {"token_level_rewards", "response_mask"} if name == "gae" else common.keys()
        calls[name] = partial(function, **{k: common[k] for k in taken}, **special.get(name, {}))
    return calls


def farthest(path, given):
    """The largest difference between verl's advantages and ours, over all estimators and trained tokens."""
    theirs, on = verls(path, given), given["mask"]
    return max(float((theirs[n]()[0] - ours(steps, given)())[on].abs().max()) for n, steps in COUNTERPARTS.items())


def beside(path, columns, seconds, rounds=3):
    """Print the CPU time of verl's estimators and of ours: medians of some rounds that alternate between both."""
    given = columns()
    shape = given["mask"].shape
    # Once, in a fresh process: later the heap may hold a free block of this size, and no page has to be mapped.
    unit = seconds(lambda: torch.ones(shape), 15)
    theirs = verls(path, given)
    print(f"{'verl':28} {'CPU ms':>7} {'u':>6}   {'ours':24} {'CPU ms':>7} {'u':>6}   verl/ours, least and most")
    for name, steps in COUNTERPARTS.items():
        mine = ours(steps, given)
        cost = [(seconds(theirs[name], 1), seconds(mine, 2)) for _ in range(rounds)]
        verl, own = (statistics.median(column) for column in zip(*cost, strict=True))
        ratio = sorted(a / b for a, b in cost)
        print(
            f"{name:28} {1e3 * verl:7.0f} {verl / unit:6.1f}   {steps:24} {1e3 * own:7.1f} {own / unit:6.2f}"
            f"   {verl / own:5.1f}, {ratio[0]:.1f} and {ratio[-1]:.1f}",
            flush=True,
        )
    print(f"u = torch.ones{tuple(shape)} = {1e3 * unit:.1f} ms; verl {importlib.metadata.version('verl')}")
    print(f"largest difference on 256 rows of up to 64 tokens: {farthest(path, columns(256, 64)):.1e}")
