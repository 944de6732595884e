"""Loading: from an experiment to models, sampler and executor, ready for the first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlcore.data import DataOrder, Row, completion_text, prompt_string
from rlcore.execute.grade import Grader
from rlcore.execute.local import LocalExecutor
from rlcore.execute.rollout import Rollout
from rlcore.experiment import Experiment
from rlcore.protocols import RewardManager, Sampler
from rlcore.registry import registry
from rlcore.run import build
from rlcore.run.drawn import check_kept_mass
from rlcore.run.folder import existing_run
from rlcore.run.problems import prepare, steps_of
from rlcore.run.progress import Progress
from rlcore.run.replay import Replayed
from rlcore.run.start import base_folder
from rlcore.train.model import LanguageModel
from rlcore.train.trainer import TorchTrainer


@dataclass
class Drawing:
    """Draws prompts: a group id, unique in the run, is made here and nowhere else."""

    rows: Sequence[Row]
    order: DataOrder
    groups: int = 0

    def __call__(self, count: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Return (group id, data row) pairs."""
        first = self.groups
        self.groups += count
        return [(first + i, self.rows[index]) for i, index in enumerate(self.order.next(count))]


@dataclass
class Loaded:
    """Everything heavy that a run holds.

    `decode` gives the text of sampled ids up to the first end token, `show` a prompt as the text that the model is
    given.
    """

    model: LanguageModel
    trainers: dict[str, TorchTrainer]
    sampler: Sampler
    rollout: Rollout
    manager: RewardManager
    grader: Grader
    executor: LocalExecutor
    drawing: Drawing
    heldout: list[Row]
    total_steps: int
    decode: Callable[[Sequence[int]], str]
    show: Callable[[Any], str]


def load(experiment: Experiment, progress: Progress, step: Callable[[], int]) -> Loaded:
    """Load models and data; `step` tells the step that a replay stands at. Raises what is wrong before models load."""
    settings = experiment.settings
    build.use_threads(settings.threads)
    problems = prepare(experiment)
    base = base_folder(experiment, progress)
    model, trainers = build.load_trainers(problems.graph, base, settings, steps_of(settings, len(problems.rows)))
    rows, dropped = build.fit_rows(problems.rows, model, settings)
    heldout = build.fit_rows(problems.heldout, model, settings)[0] if problems.heldout else []
    if dropped:
        progress.say(
            f"{dropped} of {len(problems.rows)} prompts are longer than max_prompt_tokens={settings.max_prompt_tokens} "
            f"and left out"
        )
    decode = partial(completion_text, model.tokenizer, eos_ids=model.eos_ids)
    show = partial(prompt_string, model.tokenizer)
    sampler = build.make_sampler(experiment.sampler, model, trainers.get("trainer"), settings)
    check_kept_mass(problems.graph.resolve(), settings.sampling, sampler)
    environment = experiment.environment()
    params = build.sampling_params(settings)
    rollout = Rollout(
        sampler, model.tokenizer, environment, params, settings.seed, decode, max_positions=model.max_positions,
        max_prompt_tokens=settings.max_prompt_tokens, long_prompts=settings.long_prompts, eos_ids=model.eos_ids,
    )  # fmt: skip
    source: Any = rollout
    if settings.replay is not None:
        source = Replayed(rollout, existing_run(settings.replay), step)
    grader = Grader(problems.manager, decode, show)
    drawing = Drawing(rows, DataOrder(len(rows), settings.seed))
    executor = build.executor_of(
        problems.graph, rollout=source, grader=grader, trainers=trainers, algorithm=experiment.algorithm,
        settings=settings, draw=drawing, watch=_watch,
    )  # fmt: skip
    return Loaded(
        model=model, trainers=trainers, sampler=sampler, rollout=rollout, manager=problems.manager, grader=grader,
        executor=executor, drawing=drawing, heldout=heldout, total_steps=steps_of(settings, len(rows)), decode=decode,
        show=show,
    )  # fmt: skip


def _watch(step: int, node: str, seconds: float, rows: int) -> None:
    registry().notify("node_finished", step=step, node=node, seconds=seconds, rows=rows)
