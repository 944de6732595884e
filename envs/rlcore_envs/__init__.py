"""The environments and data sets that come with rlcore, offered by the same hook as anyone's."""

from __future__ import annotations

from rlcore.hooks import Add, hookimpl

DATASETS = (
    "arithmetic",
    "countdown",
    "file",
    "gsm8k",
    "letter_counting",
    "mixture",
    "reasoning_gym",
    "sorting",
    "svamp",
)


@hookimpl
def register(add: Add) -> None:
    """Offer everything of this package, by name so that nothing is imported before it is used."""
    add.environment("single_turn", "rlcore_envs.single_turn:SingleTurn")
    add.order("sequential", "rlcore_envs.orders:Sequential")
    add.order("staged", "rlcore_envs.orders:Staged")
    add.order("by_success", "rlcore_envs.orders:BySuccess")
    for name in DATASETS:
        add.dataset(name, f"rlcore_envs.datasets:{name}")
    add.reward("reasoning_gym_answer", "rlcore_envs.datasets.gym:reasoning_gym_answer")
    add.model("tiny_countdown", "rlcore_envs.tiny:tiny_countdown")
    add.experiment("default", "rlcore_envs:default.yaml")
