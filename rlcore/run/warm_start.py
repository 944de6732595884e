"""The warm start: supervised training before a run, as a run of its own in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlcore.component import bind
from rlcore.config.assemble import given_rows
from rlcore.data import Row
from rlcore.errors import RunError, counted
from rlcore.experiment import Experiment
from rlcore.offline import OfflineAlgorithm, completions
from rlcore.registry import get
from rlcore.run.lock import locked
from rlcore.run.progress import Progress
from rlcore.settings import Eval, Execution, Model, RunLimits, RunNames, Save, Settings, WarmStart
from rlcore.train.optimizers import adamw
from rlcore.train.schedule import linear
from rlcore.weights.cache import cache_folder, whole_folder


def warm_started(folder: Path, rows: Sequence[Row], experiment: Experiment, progress: Progress) -> Path:
    """Return the folder of the model after its warm start, which is kept in the cache for runs with the same inputs.

    It is a run like any other, and goes on after a crash. The learning rate falls linearly to 0 after a warm-up over
    the first twentieth of the updates.
    """
    from rlcore.run.run import Run

    place, key = cache_folder() / "warm", _key(folder, rows, experiment.settings)
    target = place / key
    if target.is_dir():
        progress.say(f"warm start: already made, {target}")
        return target
    epochs = experiment.settings.warm_start.epochs
    progress.say(f"warm start: {counted(epochs, 'epoch')} of {counted(len(rows), 'row')}")
    run = Run.of(_experiment(folder, rows, experiment, place, f"{key}.run"), quiet=progress.quiet).train()
    assert run.folder is not None
    with whole_folder(target) as aside:
        shutil.copytree(run.folder / "model", aside, dirs_exist_ok=True)
    shutil.rmtree(run.folder)
    return target


def _experiment(folder: Path, rows: Sequence[Row], experiment: Experiment, place: Path, name: str) -> Experiment:
    settings, start = experiment.settings, experiment.settings.warm_start
    prompts = min(start.rows, len(rows))
    updates = start.epochs * len(rows) // prompts
    begun = (place / name).is_dir()
    if begun:
        try:
            with locked(place / name):
                pass
        except RunError:  # another process makes the same one at this moment
            begun, name = False, f"{name}-{os.getpid()}"
    own = Settings(
        model=Model(source=str(folder), chat_template=settings.model.chat_template),
        epochs=start.epochs,
        prompts=prompts,
        learning_rate=start.learning_rate,
        max_new_tokens=settings.max_new_tokens,
        training=settings.training,
        eval=Eval(),
        save=Save(every=max(updates // start.epochs, 1)),
        run=RunNames(folder=str(place), name=None if begun else name),
        limits=RunLimits(),
        execution=Execution(),
        warm_start=WarmStart(),
        device=settings.device,
        threads=settings.threads,
        seed=settings.seed,
        resume=str(place / name) if begun else None,
    )
    algorithm: Any = OfflineAlgorithm(
        name="warm start",
        rows=completions,
        loss=get("loss", "rlcore:nll"),
        reduction=get("reduction", "rlcore:token_mean"),
    )
    services = {
        **experiment.services,
        "data": given_rows(list(rows)),
        "optimizer": adamw,
        "schedule": bind(linear, warmup_steps=updates // 20),
        "reward": None,
        "tracker": (),
    }
    described = {**own.model_dump(mode="json"), "resume": None}
    return Experiment(settings=own, algorithm=algorithm, services=services, config=described, resolved=described)


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
        "a run",  # how it is made; what was made in another way has another key
    ]
    digest.update(json.dumps(inputs, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:24]
