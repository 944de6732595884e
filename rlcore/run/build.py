"""Building the pieces of a run from its settings: models, trainers, sampler, executor, and rows that fit the model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch

from rlcore.component import Component, name_of
from rlcore.data import RowEncoder, check_room, encode_prompt, fit_prompt, template_options, use_chat_template
from rlcore.data.rows import Row
from rlcore.devices import choose_device
from rlcore.errors import ConfigError, DataError, ModelError
from rlcore.execute.local import LocalExecutor, Roles, StepSizes
from rlcore.experiment import Experiment
from rlcore.graph import Graph, Plan
from rlcore.protocols import GraphSource, ReadsTwoModels, Sampler, SamplingParams, Trainer, WeightTransfer
from rlcore.registry import registry
from rlcore.services import start, sync_weights
from rlcore.settings import Settings
from rlcore.train.head import VALUE
from rlcore.train.model import LanguageModel, read_config
from rlcore.train.proof import prove
from rlcore.train.small_copy import auto_class
from rlcore.train.trainer import TrainerConfig
from rlcore.train.update_plan import plan_update
from rlcore.weights.sources import check_tokenizer, resolve_model

log = logging.getLogger("rlcore")
IMAGES = ("images", "image", "videos", "video", "audios", "audio")
"""Columns that layouts of data sets give to what is no text."""


def load_model(folder: Path, settings: Settings) -> LanguageModel:
    """Return the language model of a folder, with the chat template that the settings name.

    Raises ModelError where the folder has no tokenizer.
    """
    check_tokenizer(folder)
    device, trust = choose_device(settings.device), settings.model.trust_code
    model = LanguageModel.load(folder, device=device, trust_code=trust)
    if settings.model.chat_template:
        use_chat_template(model.tokenizer, settings.model.chat_template)
    return model


def load_without_weights(folder: Path, settings: Settings) -> LanguageModel:
    """Return what `load_model` does, made of the tokenizer and `config.json` alone: its parameters take no memory.

    Raises ModelError where `load_model` raises it before it reads weights.
    """
    from transformers import AutoTokenizer, GenerationConfig

    check_tokenizer(folder)
    trust = settings.model.trust_code
    config = read_config(folder, trust_code=trust)
    try:
        prove(config)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
        with torch.device("meta"):
            module = auto_class(config).from_config(config, trust_remote_code=trust)
        if (folder / "generation_config.json").is_file():
            module.generation_config = GenerationConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"cannot load the model at {str(folder)!r}: {error}") from error
    model = LanguageModel(module, tokenizer)
    if settings.model.chat_template:
        use_chat_template(model.tokenizer, settings.model.chat_template)
    return model


def row_encoder(model: LanguageModel) -> RowEncoder:
    """Return what turns data rows into ids for a model."""
    return RowEncoder(model.tokenizer, tuple(model.eos_ids), model.max_positions)


def warn_of_no_end(model: LanguageModel, settings: Settings) -> None:
    """Warn where the tokenizer has no end token: completions may then run to their full length."""
    if settings.sampling.ignore_eos or model.tokenizer.eos_token_id is not None:
        return
    ids = ", ".join(map(str, model.eos_ids))
    otherwise = (
        f"only the ids {ids} of the model's own config end a completion" if ids else "no token ends a completion"
    )
    stops = f"; so do the strings of sampling.stop={list(settings.sampling.stop)}" if settings.sampling.stop else ""
    log.warning(
        "the model's tokenizer has no eos_token: %s%s. Others run to max_new_tokens=%d; set eos_token in its"
        " tokenizer_config.json if that is not meant",
        otherwise,
        stops,
        settings.max_new_tokens,
    )


def trainer_config(experiment: Experiment, role: str, plan: Plan, steps: int, settings: Settings) -> TrainerConfig:
    """Return the trainer's configuration of a role; `settings` are the run's with the role's own in their place.

    A role that no node updates is frozen; one of which values are read has a value head, and one whose own update
    alone reads them a head of scores.
    """
    training = settings.training
    update = next((n.call for n in plan.nodes if n.view == "update" and n.role == role), None)
    asked = {
        readout for n in plan.nodes if n.view == "forward" and n.role == role for readout in n.call.wanted.values()
    }
    head: Literal["policy", "value", "score"] = "value" if VALUE in asked else "policy"
    if head == "policy" and update is not None and plan_update(update, plan.table).readouts == (VALUE,):
        head = "score"
    return TrainerConfig(
        learning_rate=settings.learning_rate,
        optimizer=experiment.optimizer,
        schedule=experiment.schedule,
        total_steps=steps * update.epochs * update.minibatches if update is not None else 0,
        max_grad_norm=training.max_grad_norm,
        token_budget=training.token_budget,
        precision=training.precision,
        head=head,
        frozen=update is None,
        device=settings.device,
        share_prompts=training.share_prompts,
        measure=("entropy", "logprob") if role == "trainer" or role in plan.drawn_from.values() else (),
        readouts={e.name: registry().get("readout", e.name) for e in registry().entries("readout")},
    )


def own_model_folder(source: str, role: str, model: LanguageModel) -> Path:
    """Return the folder of a role's own model. Raises ModelError for another vocabulary than the policy's."""
    from transformers import AutoTokenizer

    folder = resolve_model(source, report=log.info)
    try:
        own = read_config(folder).get_text_config().vocab_size
    except ModelError as error:
        raise ModelError(f"roles.{role}.model={source}: {error}") from error
    if own != model.vocab_size:
        raise ModelError(
            f"roles.{role}.model={source}: its vocabulary has {own} ids and the policy's {model.vocab_size}; both read "
            f"the same tokens, so they need one tokenizer"
        )
    if any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        theirs = AutoTokenizer.from_pretrained(folder, trust_remote_code=False).get_vocab()
        ours = model.tokenizer.get_vocab()
        other = next((token for token, number in theirs.items() if ours.get(token, number) != number), None)
        if other is not None:
            raise ModelError(
                f"roles.{role}.model={source}: its tokenizer gives {other!r:.40} the id {theirs[other]}, the policy's "
                f"{ours[other]}; both read the same tokens, so they need one tokenizer"
            )
    return folder


def attach_references(graph: Graph, trainers: Mapping[str, Trainer], component: Component) -> None:
    """Let losses that compare two models see both.

    Raises ConfigError for a trainer that cannot: another class, or one that lives in another process.
    """
    for node in graph.resolve().nodes:
        if node.view != "update":
            continue
        for role in node.reference_roles:
            trainer = trainers[node.role]
            if not isinstance(trainer, ReadsTwoModels) or hasattr(trainers[role], "handle"):
                raise ConfigError(
                    f"trainer {name_of(component)} cannot compare the logits of {node.role} with those of {role} (it "
                    f"has no attach_reference, or they live in other processes), which node {node.name!r} asks for"
                )
            trainer.attach_reference(trainers[role])


def make_sync(
    component: Component, plan: Plan, trainers: Mapping[str, Trainer], samplers: Mapping[str, Sampler]
) -> Callable[[str], int]:
    """Return a function that hands a role the weights that it draws from and returns the version.

    Raises ConfigError for what is no `WeightTransfer`.
    """
    transfer: WeightTransfer = start("weight_transfer", component)
    sources = plan.drawn_from
    return lambda role: sync_weights(transfer, trainers[sources.get(role, "trainer")], samplers[role])


def sampling_params(settings: Settings) -> SamplingParams:
    """Return how completions are drawn while training."""
    return SamplingParams(max_new_tokens=settings.max_new_tokens, **settings.sampling.model_dump())


def make_executor(
    graph: Graph,
    roles: Roles,
    algorithm: GraphSource,
    settings: Settings,
    total_steps: int,
    watch: Callable[[int, str, float, int], None],
) -> LocalExecutor:
    """Return the executor of a graph over started roles."""
    sizes = StepSizes(
        prompts=settings.prompts,
        group_size=algorithm.group_size,
        max_new_tokens=settings.max_new_tokens,
        temperature=settings.sampling.temperature,
        seed=settings.seed,
        total_steps=total_steps,
        max_weight_age=settings.max_weight_age,
        deterministic=settings.execution.deterministic,
        max_rounds=settings.limits.max_rounds,
        when_underfilled=settings.limits.when_underfilled,
    )
    return LocalExecutor(graph, roles, sizes, dict(algorithm.initial), watch)


def fit_row(row: Row, model: LanguageModel, settings: Settings, index: int | None = None) -> tuple[Row | None, int]:
    """Return a row whose prompt is within `max_prompt_tokens`, None for one to leave out; and its prompt's own length.

    A shortened prompt stays the ids that it was cut to. `index` is the row's number, for the message of
    `long_prompts=error`, which raises DataError.
    """
    refused = IMAGES if model.takes_inputs else (*IMAGES, "model_inputs")
    if images := next((name for name in refused if row.get(name)), None):
        which = "a row" if index is None else f"row {index}"
        raise DataError(
            f"{which} has {images} beside its prompt, and "
            + (
                "the model is given what its own processor makes of them, as the column model_inputs (see docs/data.md)"
                if model.takes_inputs
                else "the model reads text alone. Leave the column out, or take a data set of texts"
            )
        )
    try:
        ids = encode_prompt(model.tokenizer, row["prompt"], **template_options(row))
    except TypeError as error:  # what tokenizers raise for half of a surrogate pair, among others
        which = "a row" if index is None else f"row {index}"
        raise DataError(f"{which}: its prompt cannot be encoded ({error}): {row['prompt']!r:.80}") from error
    fitted = fit_prompt(ids, settings.max_prompt_tokens, too_long=settings.long_prompts, row=index)
    if fitted is None or len(fitted) == len(ids):
        return (None if fitted is None else row), len(ids)
    return {**row, "prompt": fitted}, len(ids)


def fit_rows(rows: Sequence[Row], model: LanguageModel, settings: Settings) -> tuple[list[Row], int]:
    """Return the rows whose prompts fit, as the policy for long ones says, and how many were left out.

    Raises DataError where none is left, or what may be drawn passes the model.
    """
    kept: list[Row] = []
    lengths: list[int] = []
    longest = 0
    # Every row gets every column, so that what a reward is called with does not depend on the other rows.
    columns: Row = dict.fromkeys(name for row in rows for name in row)
    for index, values in enumerate(rows):
        row, length = fit_row({**columns, **values}, model, settings, index)
        lengths.append(length)
        if row is not None:
            longest = max(longest, min(length, settings.max_prompt_tokens))
            kept.append(row)
    if not kept:
        raise DataError(
            f"no prompt is left: all {len(rows)} have more than max_prompt_tokens={settings.max_prompt_tokens} tokens"
            f" (the shortest {min(lengths)}, the longest {max(lengths)})"
        )
    check_room(longest, settings.max_new_tokens, model.max_positions)
    return kept, len(rows) - len(kept)


def use_threads(count: int) -> None:
    """Let torch use so many CPU threads; 0 leaves its own choice."""
    if count:
        torch.set_num_threads(count)
