"""The plugin of the core itself: its trackers, sampler, trainer, optimizers, schedules, order of rows and readouts."""

from __future__ import annotations

from rlcore.hooks import Add, hookimpl
from rlcore.math import readout


@hookimpl
def register(add: Add) -> None:
    """Register the services and factories of the core by name; each is imported when it is first used."""
    add.tracker("console", "rlcore.tracking.console:Console")
    add.tracker("jsonl", "rlcore.tracking.jsonl:Jsonl")
    add.tracker("swanlab", "rlcore.tracking.remote:SwanLab")
    add.tracker("tensorboard", "rlcore.tracking.remote:TensorBoard")
    add.tracker("wandb", "rlcore.tracking.remote:WandB")
    add.sampler("embedded", "rlcore.sample.embedded:EmbeddedSampler")
    add.weight_transfer("direct", "rlcore.sample.weight_transfer:DirectTransfer")
    add.trainer("torch", "rlcore.train.trainer:TorchTrainer")
    for name in ("adamw", "sgd"):
        add.optimizer(name, f"rlcore.train.optimizers:{name}")
    for name in ("constant", "linear", "cosine"):
        add.schedule(name, f"rlcore.train.schedule:{name}")
    add.order("shuffled", "rlcore.data.order:DataOrder")
    add.module("readout", readout)
