"""The weights that a run starts from: those of a model, of its warm start, or of another run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore import checkpoint
from rlcore.config.yaml_files import read_file
from rlcore.errors import CheckpointError, DataError
from rlcore.experiment import Experiment
from rlcore.run.inputs import load_rows
from rlcore.run.progress import Progress
from rlcore.run.run_folder import existing_run
from rlcore.run.warm_start import warm_started
from rlcore.train.model import LanguageModel
from rlcore.weights.cache import whole_folder
from rlcore.weights.sources import HUBS, resolve_model


def base_model_folder(experiment: Experiment, progress: Progress, *, warm: bool = True) -> Path:
    """Return the folder of the weights that every role of a run starts from."""
    settings = experiment.settings
    if settings.start_from is not None:
        return extract_weights(settings.start_from, progress)
    folder = resolve_model(settings.model.source, report=progress.say)
    if not warm or not settings.warm_start.epochs:
        return folder
    rows = load_rows(experiment, "warm")
    if not any("completion" in row or "messages" in row for row in rows):
        raise DataError(
            "the warm start needs rows with a completion (or messages with an assistant's turn), "
            "and the data set's `warm` split has none; for the built-in data sets set data.completion=solution"
        )
    return warm_started(folder, rows, experiment, progress)


def local_model_folder(experiment: Experiment) -> Path | None:
    """Return the folder of the model that a run starts from, None where it would have to be fetched or made first.

    Raises CheckpointError or ModelError where there is no such run or model.
    """
    settings = experiment.settings
    if settings.start_from is not None:
        path, at, step = settings.start_from.rpartition("@")
        model = existing_run(path if at and step.isdecimal() else settings.start_from) / "model"
        if (model / "config.json").is_file():
            return model  # of another step it has other weights, and the same tokenizer
    source = settings.model.source
    if source.partition(":")[0] in HUBS:
        return None
    try:
        return resolve_model(source, report=_refuse)
    except LongWorkError:
        return None


class LongWorkError(Exception):
    """Raised in place of fetching or making a model."""


def _refuse(message: str) -> None:
    """Raise LongWorkError: `report` is called before anything is fetched or made."""
    raise LongWorkError(message)


def _weights_of(saved: Path) -> Mapping[str, Any]:
    """Return the policy's weights in a whole checkpoint."""
    weights = checkpoint.load_entry(saved / "trainer", "model") if "trainer" in checkpoint.roles(saved) else None
    if weights is None:
        raise CheckpointError(f"{saved} holds no weights that can be read here: no entry `model` of the role `trainer`")
    found: Mapping[str, Any] = weights
    return found


def extract_weights(spec: str, progress: Progress) -> Path:
    """Return a model folder with the weights of `RUN` or `RUN@STEP`, extracted from a checkpoint if need be."""
    path, at, step = spec.rpartition("@")
    if not at or not step.isdecimal():
        path, step = spec, ""
    run = existing_run(path)
    model = run / "model"
    if not step and (model / "config.json").is_file():
        return model
    extracted = run / "checkpoints" / f"model_of_step_{step}"
    if step and extracted.is_dir():
        # Extracted before: a run that started from it can be resumed when the checkpoint has been removed.
        return extracted
    saved = run / "checkpoints" / f"step_{step}" if step else checkpoint.newest(run / "checkpoints")
    wrong = "it has no whole checkpoint" if saved is None else checkpoint.fault(saved)
    if saved is None or wrong is not None:
        steps = ", ".join(sorted(p.name for p in (run / "checkpoints").glob("step_*"))) or "none"
        which = f"its {saved.name} is not whole: " if saved else ""
        raise CheckpointError(f"start_from={spec!r}: {which}{wrong}; there are: {steps}")
    target = run / "checkpoints" / f"model_of_{saved.name}"
    if not target.is_dir():
        config = read_file(run / "config.yaml")
        source = config["model"]["source"] if isinstance(config.get("model"), Mapping) else config.get("model")
        progress.say(f"taking the weights of {saved}")
        trust = bool(config["model"].get("trust_code")) if isinstance(config.get("model"), Mapping) else False
        loaded = LanguageModel.load(resolve_model(str(source), report=progress.say), trust_code=trust)
        loaded.module.load_state_dict(_weights_of(saved))
        with whole_folder(target) as aside:
            loaded.save(aside)
    return target
