"""Supervised training: the warm start before a run, and `rlcore sft`. The same trainer, with one term."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from rlcore.batch import Batch
from rlcore.component import bind
from rlcore.data import Row, encode_supervised
from rlcore.data.chat import Supervised
from rlcore.errors import DataError, counted
from rlcore.protocols import Term, Update
from rlcore.registry import get
from rlcore.run.progress import Progress
from rlcore.seeding import numpy_generator, stream
from rlcore.settings import Settings
from rlcore.train.model import LanguageModel
from rlcore.train.schedule import linear
from rlcore.train.trainer import TorchTrainer, TrainerConfig
from rlcore.weights.cache import cache_folder, whole_folder


def supervised_batch(rows: Sequence[Supervised]) -> Batch:
    """Return encoded rows as a batch; the tokens to learn are `sampled` and on the mask."""
    return Batch(
        {
            "tokens": torch.tensor([t for row in rows for t in row.tokens]),
            "length": torch.tensor([len(row.tokens) for row in rows]),
            "prompt_length": torch.tensor([row.prompt_length for row in rows]),
            "sampled": torch.tensor([s for row in rows for s in row.sampled]),
            "mask": torch.tensor([s for row in rows for s in row.sampled]),
            "group": torch.arange(len(rows)),
        }
    )


def encode_all(model: LanguageModel, rows: Sequence[Row]) -> list[Supervised]:
    """Return the rows as ids. Raises DataError naming the first that cannot be used or does not fit the model."""
    encoded = []
    for index, row in enumerate(rows):
        try:
            row_ids = encode_supervised(model.tokenizer, row, eos_ids=model.eos_ids)
        except DataError as error:
            raise DataError(f"supervised row {index}: {error}") from error
        count = len(row_ids.tokens)
        if count > model.max_positions:
            raise DataError(f"supervised row {index} has {count} tokens; the model has {model.max_positions} positions")
        encoded.append(row_ids)
    return encoded


def fit(model: LanguageModel, rows: Sequence[Row], settings: Settings, progress: Progress) -> dict[str, float]:
    """Train the model on the rows' completions, in place; return the mean loss (nats per token) of each epoch.

    The learning rate falls linearly to 0 after a warm-up over the first twentieth of the updates.
    """
    start = settings.warm_start
    encoded = encode_all(model, rows)
    updates = start.epochs * -(-len(encoded) // start.rows)
    config = TrainerConfig(
        learning_rate=start.learning_rate,
        schedule=bind(linear, warmup_steps=updates // 20),
        total_steps=updates,
        max_grad_norm=settings.training.max_grad_norm,
        token_budget=settings.training.token_budget,
        precision=settings.training.precision,
        device=settings.device,
        share_prompts=False,
    )
    trainer: TorchTrainer = config.start(model)
    update = Update((Term(get("loss", "rlcore:nll"), get("reduction", "rlcore:token_mean"), name="nll"),))
    losses: dict[str, float] = {}
    with progress.phase("supervised", updates) as phase:
        for epoch in range(start.epochs):
            order = numpy_generator(settings.seed, "supervised", epoch).permutation(len(encoded)).tolist()
            total = 0.0
            for first in range(0, len(order), start.rows):
                batch = supervised_batch([encoded[i] for i in order[first : first + start.rows]])
                seed = stream(settings.seed, "supervised", epoch, first)
                result = trainer.update(
                    batch, update, seed=seed, temperature=1.0, scalars={}, max_new_tokens=settings.max_new_tokens
                )
                loss = result.metrics.values().get("loss", float("nan"))
                total += loss * len(batch)
                phase.advance(note=f"loss {loss:.3f}")
            losses[f"loss/epoch_{epoch + 1}"] = total / len(order)
    return losses


def warm_started(
    folder: Path, rows: Sequence[Row], settings: Settings, progress: Progress, device: torch.device
) -> Path:
    """Return the folder of the model after its warm start, which is kept in the cache for runs with the same inputs."""
    target = cache_folder() / "warm" / _key(folder, rows, settings)
    if target.is_dir():
        progress.say(f"warm start: already made, {target}")
        return target
    progress.say(f"warm start: {counted(settings.warm_start.epochs, 'epoch')} of {counted(len(rows), 'row')}")
    model = LanguageModel.load(folder, device=device)
    fit(model, rows, settings, progress)
    with whole_folder(target) as aside:
        model.save(aside)
    return target


def _key(folder: Path, rows: Sequence[Row], settings: Settings) -> str:
    """Return a hash of everything that the warm-started weights depend on."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".safetensors", ".jinja"):
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
    inputs = [
        list(rows),
        settings.warm_start.model_dump(),
        settings.training.precision,
        settings.training.max_grad_norm,
        settings.seed,
    ]
    digest.update(json.dumps(inputs, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:24]
