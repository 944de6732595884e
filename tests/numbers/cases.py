"""The runs whose numbers are recorded: every algorithm and preset, and the main components in turn.

A case is a list of commands; `{rows}` is the data file, `{0}` the folder of the first command's run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.numbers import product

HERE = Path(__file__).parent
FILES = {"rows": HERE / "rows.jsonl", "heldout": HERE / "heldout.jsonl", "reward": HERE / "reward.py"}

BASE: dict[str, Any] = {
    "model": "tiny_countdown",
    "data": "file",
    "data.path": "{rows}",
    "reward": "expression_answer",
    "steps": 3,
    "prompts": 4,
    "max_new_tokens": 8,
    "learning_rate": 2e-3,
    "seed": 5,
    "threads": 1,
    "device": "cpu",
    "tracker": "jsonl",
}
TWO = {"algorithm.minibatches": 2}
SHORT = {"algorithm.group_size": 4, "steps": 2}
GRPO = {"algorithm": "grpo", **SHORT}
PPO = {"algorithm": "ppo", **SHORT}
RATIO = {**GRPO, "algorithm.epochs": 2}
SCORES = {"reward": "{reward}:length_and_digits"}
NEEDING_SCORES = ("gdpo", "verl-0.9/gdpo", "components_norm", "weighted_components")
REWRITING = ("clip", "per_active_row", "scale", "whiten")
"""Estimators that rewrite the advantage of one before them."""

Stage = dict[str, Any]


class Case(NamedTuple):
    """A name, the commands, and settings that are tried first and left out where they are refused."""

    name: str
    stages: list[Stage]
    wished: Stage = {}  # noqa: RUF012 nobody changes it


def digest_of_files() -> dict[str, str]:
    """Return the hash of each file that runs read."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in FILES.items()}


def cases() -> Iterator[Case]:
    """Give every case, in the order in which they run."""
    for name in product.registered("algorithm"):
        if name.partition("/")[0] in ("openrlhf-0.11", "nemo-0.7", "prime-rl-0.8"):
            continue  # nobody ever ran them beside the peer
        extra: Stage = {"limits.when_underfilled": "train"} if name in ("dapo", "prime") else {}
        extra |= SCORES if name in NEEDING_SCORES else {}
        yield Case(f"algorithm {name}", [{"algorithm": name, "algorithm.group_size": 4, **extra}], TWO)
    yield from _estimators_and_losses()
    yield from _before_and_after()
    yield from _settings()


def _estimators_and_losses() -> Iterator[Case]:
    for name in product.registered("advantage"):
        if name == "process_leave_one_out":  # prime has it
            continue
        base = {**(PPO if name == "gae" else GRPO), **(SCORES if name in NEEDING_SCORES else {})}
        options: Stage = {"advantage.clip.high": 0.5} if name == "clip" else {}
        options |= {"advantage.scale.factor": 0.5} if name == "scale" else {}
        chain = ["leave_one_out", name] if name in REWRITING else name
        yield Case(f"advantage {name}", [{**base, "advantage": chain, **options}])
    for name in product.registered("loss"):
        if name == "value_clipped":  # ppo has it
            continue
        options = {"selects": "kl_cov"} if name == "kl_cov" else {}
        yield Case(f"loss {name}", [{**RATIO, "loss": name, **options}])
    for name in product.registered("reduction"):
        yield Case(f"reduction {name}", [{**GRPO, "reduction": name}], TWO)
    for name in product.registered("kl"):
        yield Case(f"kl {name}", [{**GRPO, "kl": name, "algorithm.kl_coefficient": 0.05}], TWO)
        if name.partition("_")[0] not in ("k1", "k2"):
            continue
        priced: Stage = {**GRPO, "kl_in_reward": name, "algorithm.kl_in_reward_coefficient": 0.05}
        yield Case(f"kl_in_reward {name}", [priced])


def _before_and_after() -> Iterator[Case]:
    for name in product.registered("filter"):
        kept: Stage = {**GRPO, "filter": name}
        if name != "score_resampling":  # it refills nothing
            kept |= {"limits.when_underfilled": "train"}
        yield Case(f"filter {name}", [kept], TWO)
    for name in product.registered("correction"):
        links = ["truncated", name] if name == "normalized" else name
        yield Case(f"correction {name}", [{**GRPO, "correction": links, "sampling.top_p": 0.95}], TWO)
    several = ["truncated", "normalized", "rejected"]
    yield Case("correction " + "+".join(several), [{**GRPO, "correction": several, "sampling.temperature": 0.8}])
    for name in product.registered("shaping"):
        if name != "implicit_process_reward":  # prime has it
            options = {"shaping.max_length": 6, "shaping.buffer": 4} if name == "soft_overlong" else {}
            options |= SCORES if name in NEEDING_SCORES else {}
            yield Case(f"shaping {name}", [{**GRPO, "shaping": name, **options}])
    yield Case("shaping overlong_mask+duplicate_mask", [{**GRPO, "shaping": ["overlong_mask", "duplicate_mask"]}])
    for name in product.registered("select"):
        options = {"loss": "kl_cov"} if name == "kl_cov" else {}
        yield Case(f"select {name}", [{**RATIO, "selects": name, **options}])
    yield Case("selects top_entropy+opsm", [{**RATIO, "selects": ["top_entropy", "opsm"]}])
    controlled: Stage = {**PPO, "kl_in_reward": "k1", "algorithm.kl_in_reward_coefficient": 0.05}
    for name in product.registered("controller"):
        yield Case(f"controller {name}", [{**controlled, "controller": name, "controller.horizon": 100}])
    for name in ("sequential", "by_success"):
        yield Case(f"order {name}", [{**GRPO, "order": name}])


def _settings() -> Iterator[Case]:
    plain: dict[str, Stage] = {
        "schedule linear": {"schedule": "linear", "schedule.warmup_steps": 2},
        "schedule cosine": {"schedule": "cosine"},
        "optimizer options": {
            "optimizer.weight_decay": 0.1,
            "optimizer.betas": [0.8, 0.95],
            "optimizer.epsilon": 1e-6,
            "training.max_grad_norm": 0.1,
        },
        "small microbatches": {"training.token_budget": 64, "algorithm.minibatches": 2},
        "prompts not shared": {"training.share_prompts": False},
        "bfloat16": {"training.precision": "bfloat16"},
        "sampling": {"sampling.temperature": 0.7, "sampling.top_k": 5, "sampling.min_p": 0.02},
        "stop string": {"sampling.stop": ["+"]},
        "epochs and minibatches": {"algorithm.epochs": 2, "algorithm.minibatches": 2},
        "ends of data": {"epochs": 0.25, "steps": None},
        "evaluation": {"eval.data": "{heldout}", "eval.every": 1, "eval.samples": 2, "eval.temperature": 0.9},
        "greedy evaluation": {"eval.data": "{heldout}", "eval.greedy": True, "eval.limit": 5},
    }
    for name, settings in plain.items():
        yield Case(name, [{**GRPO, **settings}])
    yield Case("dynamic sampling refills", [{**GRPO, "filter": "dynamic_sampling", "steps": 4, "seed": 8}])
    skip: Stage = {**GRPO, "filter": "dynamic_sampling", "limits.max_rounds": 1, "limits.when_underfilled": "skip"}
    yield Case("dynamic sampling skips", [skip])
    yield Case("critic", [{**PPO, "algorithm.critic_warmup": 1, "roles.critic.learning_rate": 1e-3}], TWO)
    yield Case("kl in loss and reward", [{**PPO, "kl": "k3", "algorithm.kl_coefficient": 0.05}])
    yield Case("entropy bonus", [{**PPO, "algorithm.entropy_coefficient": 0.01}])
    yield Case("resumed", [{**PPO, "steps": 2, "save.every": 1}, {"resume": "{0}", "steps": 4}])
    adaptive: Stage = {**PPO, "kl_in_reward": "k1", "algorithm.kl_in_reward_coefficient": 0.05}
    adaptive |= {"controller": "adaptive_kl", "controller.horizon": 100, "order": "by_success", "save.every": 1}
    yield Case("resumed with state", [{**adaptive, "steps": 2}, {"resume": "{0}", "steps": 3}])
    yield Case("replayed", [{**GRPO, "save.rollouts": True}, {**GRPO, "algorithm": "rloo", "replay": "{0}"}])
    yield Case("started from", [{**GRPO, "steps": 1}, {**GRPO, "algorithm": "rloo", "start_from": "{0}", "steps": 2}])


DEFAULT_RUN = Case("default run", [{"seed": 0}])
"""`rlcore train seed=0`: about 100 seconds of one core."""
