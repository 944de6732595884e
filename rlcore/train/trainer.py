"""The torch trainer: holds the weights of one role, computes readouts with them, and updates them.

It knows no algorithm: the column table says which columns are readouts of the weights, and an update is a sum of terms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.columns import ROW, ColumnTable
from rlcore.devices import choose_device
from rlcore.errors import CheckpointError, ConfigError, ModelError
from rlcore.math import readout
from rlcore.metrics import Metrics
from rlcore.protocols import Update, UpdateResult
from rlcore.train.forward import ForwardPass, read_rows
from rlcore.train.head import Readout, load_value_head, save_as_classifier, save_value_head
from rlcore.train.model import LanguageModel
from rlcore.train.optimizer import Optimizer
from rlcore.train.optimizers import adamw
from rlcore.train.precision import Precision, choose_precision, choose_token_budget
from rlcore.train.schedule import constant
from rlcore.train.update import UpdateLoop, microbatches
from rlcore.train.update_plan import plan_update

READOUTS: dict[str, Readout] = {
    name: function
    for name, function in vars(readout).items()
    if inspect.isfunction(function) and function.__module__ == readout.__name__
}


@dataclass(frozen=True)
class TrainerConfig:
    """How one role's weights are loaded and trained; picklable, `start()` makes the trainer where it will live.

    model: a folder or hub id; may be empty where `start` is given a loaded model.
    optimizer: `(parameters, learning_rate)` -> torch's optimizer, with its options bound.
    schedule: `(update, total_steps)` -> the factor of the learning rate; `total_steps` are optimizer updates.
    max_grad_norm: gradients are scaled down to this 2-norm; None clips nothing.
    token_budget: most tokens of a microbatch, chosen from the model's size if None; a longer row runs alone. It decides
        memory and speed, never a result.
    head: "policy" reads from the logits; "value" has a linear head of its own (a critic); "score" has one without a
        bias, of which differences alone have a meaning (a reward model).
    frozen: no optimizer (a reference).
    share_prompts: rows of one group compute their common prompt once.
    measure: readouts that an update reports as metrics, if the head has them, whether a loss reads them or not.
    readouts: more readouts by name (a plugin's), functions of (logits [n, V], token [n]).
    """

    model: str = ""
    learning_rate: float = 1e-6
    optimizer: Callable[..., Any] = adamw
    schedule: Callable[..., float] = constant
    total_steps: int = 0
    max_grad_norm: float | None = 1.0
    token_budget: int | None = None
    precision: Precision = "auto"
    head: Literal["policy", "value", "score"] = "policy"
    frozen: bool = False
    device: str = "auto"
    share_prompts: bool = True
    measure: tuple[str, ...] = ()
    readouts: Mapping[str, Readout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.frozen:
            # A schedule refuses a length that it cannot have: before a model loads, not at the first update.
            self.schedule(1, self.total_steps)
        if self.head not in ("policy", "value", "score"):
            raise ConfigError(f"head {self.head!r} is unknown; allowed: policy, value, score")
        if self.token_budget is not None and self.token_budget < 1:
            raise ConfigError(f"token_budget {self.token_budget} must be at least 1 token")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ConfigError(f"max_grad_norm {self.max_grad_norm} must be above 0, or None for no clipping")
        if self.learning_rate < 0:
            raise ConfigError(f"learning_rate {self.learning_rate} must be 0 or more")

    def start(self, model: LanguageModel | None = None) -> TorchTrainer:
        """Return a trainer of the model named here, or of one already loaded, which it then shares with the caller.

        Raises:
            ModelError: no model is named or given, or it cannot be loaded.
            ConfigError: a device or precision that this machine does not have.
        """
        if model is None:
            if not self.model:
                raise ModelError("this trainer has no model: name one in `model`, or give a loaded one to start()")
            model = LanguageModel.load(self.model, device=choose_device(self.device))
        return TorchTrainer(self, model)


class TorchTrainer:
    """Trains one model in one process. See `rlcore.protocols.Trainer`."""

    def __init__(self, config: TrainerConfig, model: LanguageModel) -> None:
        self.config = config
        self.model = model
        self.version = 0
        head = None
        if config.head != "policy":
            head = load_value_head(config.model, model.hidden_size).to(model.device)
            head.bias.requires_grad_(config.head == "value")
        self.forward_pass = ForwardPass(
            model,
            head,
            {**READOUTS, **config.readouts},
            choose_precision(config.precision, model.device),
            config.share_prompts,
        )
        self.readouts = self.forward_pass.names
        self.token_budget = config.token_budget or choose_token_budget(model.config)
        self.optimizer = None
        if not config.frozen:
            self.optimizer = Optimizer(
                [*model.module.parameters(), *(head.parameters() if head is not None else ())],
                factory=config.optimizer,
                schedule=config.schedule,
                learning_rate=config.learning_rate,
                max_grad_norm=config.max_grad_norm,
                total_steps=config.total_steps,
            )

    def attach_reference(self, other: TorchTrainer) -> None:
        """Provide the readouts that compare this model with a reference model, which `other` holds in this process.

        Raises ModelError where a trainer's head is a value head, or the vocabularies differ.
        """
        for trainer in (self, other):
            if trainer.forward_pass.value_head is not None:
                raise ModelError("a readout of two models needs the logits of both; one has a value head")
        if self.model.head.weight.shape[0] != other.model.head.weight.shape[0]:
            raise ModelError(
                f"a readout of two models needs one vocabulary; found {self.model.head.weight.shape[0]} tokens beside "
                f"{other.model.head.weight.shape[0]}"
            )
        self.forward_pass = replace(self.forward_pass, reference=other.model)
        self.readouts = self.forward_pass.names

    @property
    def frozen(self) -> bool:
        """Return whether it has no optimizer: it is never updated, and checkpoints leave it out."""
        return self.config.frozen

    def forward(self, batch: Batch, wanted: Mapping[str, str], *, temperature: float = 1.0) -> dict[str, Tensor]:
        """Return each wanted column on the CPU: flat [N], float32, 0 where `sampled` is off.

        A column that the table declares per row, [B], gets its readout after the row's last token, such as a critic's
        value there. Rows without a sampled token are not run.

        Raises:
            UnknownNameError: a readout that this trainer does not have.
            DataError: a row whose first token is sampled.
        """
        tokens = {column: name for column, name in wanted.items() if batch.table[column].dims != ROW}
        after = {column: name for column, name in wanted.items() if column not in tokens}
        columns: dict[str, Tensor] = {}
        if tokens:
            values = self._read(batch, batch.flat("sampled"), tokens, temperature)
            columns |= {column: values[name] for column, name in tokens.items()}
        if after:
            last = batch.place_of_token == batch.length[batch.row_of_token] - 1
            values = self._read(batch, last, after, temperature, shift=0)
            columns |= {column: values[name][last] for column, name in after.items()}
        return columns

    def _read(
        self, batch: Batch, on: Tensor, wanted: Mapping[str, str], temperature: float, *, shift: int = 1
    ) -> dict[str, Tensor]:
        names = tuple(dict.fromkeys(wanted.values()))
        shares = microbatches(
            batch, on, (), token_budget=self.token_budget, share_prompts=self.forward_pass.share_prompts
        )
        return read_rows(self.forward_pass, batch, on, names, temperature=temperature, parts=shares, shift=shift)

    def update(
        self,
        batch: Batch,
        update: Update,
        *,
        seed: int,
        temperature: float = 1.0,
        scalars: Mapping[str, float] | None = None,
        max_new_tokens: int | None = None,
    ) -> UpdateResult:
        """Minimise the update's terms over the batch: epochs x minibatches of whole groups, one optimizer update each.

        The order of minibatches is drawn from `seed` and the group ids. `scalars` are columns without dimensions.
        An optimizer update whose loss or gradient is not finite is skipped, and `finite` is False; one whose rows have
        nothing on is left out. `version` grows by one in any case.

        Raises:
            ModelError: the trainer is frozen.
            UnknownNameError: a term needs a readout that this trainer does not have.
            ComponentError, GraphError: a term that does not fit the batch, before the first forward pass.
        """
        loop = self.update_loop(
            update, batch.table, seed=seed, temperature=temperature, scalars=scalars, max_new_tokens=max_new_tokens
        )
        result = loop.update(batch)
        self.version += 1
        return result

    def gradient(self, batch: Batch, update: Update, **setting: Any) -> dict[str, Tensor]:
        """Return the gradient by parameter of the update's terms over the batch as one minibatch; nothing is changed.

        `setting` is what `update` takes by keyword: seed, temperature, scalars, max_new_tokens. Gradients are on the
        CPU and not clipped; parameters that nothing reaches are left out. Raises what `update` raises.
        """
        loop = self.update_loop(replace(update, epochs=1, minibatches=1), batch.table, **setting)
        rows = loop.select(loop.prepare(batch))
        loop.backward(rows, loop.count(rows))
        named = self.model.module.named_parameters()
        gradients = {name: p.grad.detach().cpu().clone() for name, p in named if p.grad is not None}
        loop.optimizer.zero_grad()
        return gradients

    def measure(self, batch: Batch, update: Update, **setting: Any) -> Metrics:
        """Return the loss of the update's terms over the batch as one minibatch, and their metrics; nothing is changed.

        `setting` is what `update` takes by keyword. Raises what `update` raises.
        """
        loop = self.update_loop(replace(update, epochs=1, minibatches=1), batch.table, **setting)
        rows = loop.select(loop.prepare(batch))
        with torch.no_grad():
            losses = loop.backward(rows, loop.count(rows))
        loop.metrics.put("loss", float(losses.sum()))
        return loop.metrics

    def update_loop(
        self,
        update: Update,
        table: ColumnTable,
        *,
        seed: int,
        temperature: float = 1.0,
        scalars: Mapping[str, float] | None = None,
        max_new_tokens: int | None = None,
    ) -> UpdateLoop:
        """Return what `update` runs, with its plan made. Raises ModelError if the trainer is frozen."""
        if self.optimizer is None:
            raise ModelError("this trainer is frozen and has no optimizer; it cannot be updated")
        return UpdateLoop(
            forward=self.forward_pass,
            optimizer=self.optimizer,
            terms=update,
            plan=plan_update(update, table),
            seed=seed,
            scalars={"seed": seed, **(scalars or {})},
            temperature=temperature,
            token_budget=self.token_budget,
            max_new_tokens=max_new_tokens,
            measure=self.config.measure,
        )

    def weights(self) -> dict[str, Tensor]:
        """Return the live parameters by name, those of the model alone: what a sampler draws with."""
        return dict(self.model.module.named_parameters())

    def state_dict(self) -> dict[str, Any]:
        """Return weights, moments, schedule step, counters and version. The tensors are the live ones: copy to keep."""
        head = self.forward_pass.value_head
        return {
            "model": self.model.module.state_dict(),
            "value_head": head.state_dict() if head is not None else None,
            "optimizer": self.optimizer.state_dict() if self.optimizer is not None else None,
            "version": self.version,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave: on the CPU the next update is equal bit for bit.

        Raises:
            CheckpointError: the state is of another kind of trainer.
        """
        head = self.forward_pass.value_head
        for name, own in (("value_head", head), ("optimizer", self.optimizer)):
            if (state[name] is None) != (own is None):
                has = "lacks" if state[name] is None else "has"
                raise CheckpointError(f"the saved trainer {has} {name!r}; this one does the opposite")
        self.model.module.load_state_dict(state["model"])
        if head is not None:
            head.load_state_dict(state["value_head"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self.version = int(state["version"])

    def save_model(self, folder: Path) -> None:
        """Write a plain Hugging Face folder; a value head lies beside it in `value_head.safetensors`.

        Where that head has no bias (head="score"), the folder is a sequence classifier too
        (class ...ForSequenceClassification): a reward model for anyone who loads one.
        """
        self.model.save(folder)
        if self.forward_pass.value_head is not None:
            save_value_head(self.forward_pass.value_head, Path(folder))
            save_as_classifier(self.forward_pass.value_head, self.model.module, Path(folder))
