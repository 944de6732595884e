"""What the core itself offers, by the hook that anyone's package uses: trackers, orders of rows, sampler, trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.hooks import hookimpl

if TYPE_CHECKING:
    from rlcore.registry import Add


@hookimpl
def register(add: Add) -> None:
    """Offer the parts that live in the core; each is named only, and imported when it is asked for."""
    add.tracker("console", "rlcore.tracking.console:Console")
    add.tracker("jsonl", "rlcore.tracking.jsonl:Jsonl")
    add.tracker("swanlab", "rlcore.tracking.remote:SwanLab")
    add.tracker("tensorboard", "rlcore.tracking.remote:TensorBoard")
    add.tracker("wandb", "rlcore.tracking.remote:WandB")
    add.sampler("embedded", "rlcore.sample.embedded:EmbeddedSampler")
    add.order("shuffled", "rlcore.data.order:DataOrder")
    add.trainer("torch", "rlcore.train.trainer:TrainerConfig")
    add.readout("logprob", "rlcore.math.readout:logprob")
    add.readout("entropy", "rlcore.math.readout:entropy")
    add.readout("square_sum", "rlcore.math.readout:square_sum")
