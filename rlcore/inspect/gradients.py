"""Gradients on kept rollouts: what an algorithm makes of rows that another one sampled, without a step.

The rows are those of a run with `save.rollouts=true`, the weights those that sampled them; the reward is called again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlcore import checkpoint
from rlcore.algorithm import Algorithm
from rlcore.batch import Batch
from rlcore.config import load
from rlcore.errors import CheckpointError, RLCoreError, RunError
from rlcore.execute.local import LocalExecutor
from rlcore.experiment import Experiment
from rlcore.graph import Graph, Node
from rlcore.metrics import Metrics
from rlcore.protocols import GivesGradients, Update, UpdateResult
from rlcore.run import Run
from rlcore.run.loading import LoadedRun
from rlcore.train.update import trained_mask


@dataclass(frozen=True)
class PolicyGradient:
    """The policy's gradient by parameter, and the rows and tokens of the batch that it was trained on."""

    by_parameter: Mapping[str, Tensor]
    rows: int
    tokens: int

    @property
    def norm(self) -> float:
        """Return the 2-norm over all parameters."""
        return _product(self, self) ** 0.5


def cosine(one: PolicyGradient, other: PolicyGradient) -> float:
    """Return the cosine of the angle between two gradients; NaN where one of them is 0."""
    norms = one.norm * other.norm
    return _product(one, other) / norms if norms else float("nan")


def _product(one: PolicyGradient, other: PolicyGradient) -> float:
    a, b = one.by_parameter, other.by_parameter
    return sum(float((a[name].double() * b[name].double()).sum()) for name in a if name in b)


class GradientRecorder:
    """Stands where a trainer would, and answers as it does; an update keeps the gradient and changes nothing."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer  # a Trainer that GivesGradients
        self.gradient: PolicyGradient | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trainer, name)

    def update(self, batch: Batch, update: Update, **setting: Any) -> UpdateResult:
        """Keep the gradient."""
        by_parameter = self.trainer.gradient(batch, update, **setting)
        mask = trained_mask(batch)
        self.gradient = PolicyGradient(by_parameter, len(torch.unique(batch.row_of_token[mask])), int(mask.sum()))
        return UpdateResult(Metrics(), True)


def gradient_on(folder: Path, algorithm: str, *, step: int = 0) -> PolicyGradient:
    """Return the gradient of one update of a named algorithm on the rollouts that a run kept of a step (from 0).

    The algorithm has its own defaults, but for the samples per prompt, which are those of the rows. All of them make
    one minibatch of one epoch; what a filter drops is not replaced. A critic that the run has not got starts anew.

    Raises CheckpointError for a step without rollouts or weights, RunError for a run whose configuration cannot be
    loaded again or rows of which a filter leaves none.
    """
    experiment = _experiment(folder, algorithm, step)
    run = Run.of(experiment, quiet=True)
    run.state.step = step
    loaded = run.load()
    try:
        _restore_weights(loaded, folder, step)
        recorders = {
            role: GradientRecorder(t)
            for role, t in loaded.trainers.items()
            if isinstance(t, GivesGradients) and not t.frozen
        }
        if "trainer" not in recorders:
            raise RunError(f"trainer {type(loaded.trainers['trainer']).__name__} has no gradient(), which this needs")
        executor = loaded.first.executor
        roles = replace(executor.roles, trainers={**loaded.trainers, **recorders})
        graph = without_refill(executor.graph)
        LocalExecutor(graph, roles, executor.sizes, dict(experiment.algorithm.initial)).run_step(step)
    finally:
        loaded.close()
    gradient = recorders["trainer"].gradient
    assert gradient is not None
    return gradient


def _experiment(folder: Path, algorithm: str, step: int) -> Experiment:
    prompts, samples = _sizes(folder, step)
    settings = [
        f"algorithm={algorithm}",
        f"algorithm.group_size={samples}",
        "algorithm.minibatches=1",
        "algorithm.epochs=1",
        f"prompts={prompts}",
        f"replay={folder}",
        "tracker=[]",
    ]
    try:
        experiment = load(settings, folder / "config.yaml")
    except RLCoreError as error:
        raise RunError(f"{algorithm} cannot be tried on {folder}: {error}") from error
    own = experiment.algorithm
    return replace(experiment, algorithm=replace(own, critic_warmup=0)) if isinstance(own, Algorithm) else experiment


def _sizes(folder: Path, step: int) -> tuple[int, int]:
    """Return how many prompts the kept rows of a step have, and how many samples each of them."""
    path = folder / "rollouts" / f"step_{step}"
    if not path.is_dir():
        raise CheckpointError(
            f"{folder} kept no rollouts of step {step} (they are kept with save.rollouts=true); "
            f"there are: {_steps(folder / 'rollouts')}"
        )
    _, sizes = torch.unique(checkpoint.load(path)["batch"]["group"], return_counts=True)
    if int(sizes.min()) != int(sizes.max()):
        raise CheckpointError(
            f"{path}: {int(sizes.min())} to {int(sizes.max())} samples of a prompt; all must have as many"
        )
    return len(sizes), int(sizes[0])


def _restore_weights(loaded: LoadedRun, folder: Path, step: int) -> None:
    """Restore the weights that the run had before a step; those before the first are loaded already."""
    if step == 0:
        return
    path = folder / "checkpoints" / f"step_{step}"
    if checkpoint.fault(path) is not None:
        raise CheckpointError(
            f"{folder} kept no weights of step {step} (they are kept with save.every=1 and a large save.keep); "
            f"there are: step_0, {_steps(folder / 'checkpoints')}"
        )
    for role in checkpoint.roles(path):
        if role in loaded.trainers and not loaded.trainers[role].frozen:
            checkpoint.load_trainer(loaded.trainers[role], path / role)


def _steps(folder: Path) -> str:
    steps = sorted(folder.glob("step_*"), key=lambda p: (len(p.name), p.name))
    return ", ".join(p.name for p in steps) or "none"


def without_refill(graph: Graph) -> Graph:
    """Return a graph whose filters work on the whole batch and shrink it: kept rows cannot be replaced."""
    for node in graph.nodes:
        if node.kind == "filter":
            alone = Node(
                node.call,
                name=node.name,
                kind="filter",
                per="batch",
                reads=node.reads,
                columns=node.columns,
                rows=True,
                table=graph.table,
            )
            graph = graph.swap(node.name, alone)
    return graph
