"""The hooks of rlcore: the one file that the author of a plugin reads.

A plugin is a module or an object named by an entry point of the group `rlcore`:

    [project.entry-points.rlcore]
    acme = "acme_rl"

It offers components and services in `register`, and may watch a run through the other hooks. Watching hooks return
nothing, and a failure in one is logged with the plugin's name and stops nothing. Nothing alters data from a hook: to
alter data, insert a node. Wrappers (`hookimpl(wrapper=True)`) are refused, since nothing is there to be wrapped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from rlcore.errors import RegistryError, unknown
from rlcore.kinds import KINDS

if TYPE_CHECKING:
    from rlcore.columns import Column

ENTRY_POINTS = "rlcore"
hookspec = pluggy.HookspecMarker(ENTRY_POINTS)
hookimpl = pluggy.HookimplMarker(ENTRY_POINTS)

Factory = Callable[..., Any] | str
"""A function or class, or `"module:attribute"`: then the name is known, and nothing is imported before it is used."""


class Offer(NamedTuple):
    """One thing that a plugin registers."""

    kind: str
    name: str
    thing: Any


class Add:
    """The argument of `register`: one method for each kind of `rlcore.kinds.KINDS`.

    The methods are written out, so that type checkers and `help(add)` see them. A thing may be `"module:attribute"`.
    rlcore calls it with its positional parameters; keyword-only parameters are options that a run sets by name.
    """

    def __init__(self) -> None:
        self.offers: list[Offer] = []
        self.columns: list[Column] = []

    if not TYPE_CHECKING:  # a type checker names a misspelt method itself

        def __getattr__(self, kind: str) -> Any:
            """Raise UnknownNameError with the nearest kind."""
            if kind.startswith("_"):
                raise AttributeError(kind)
            raise unknown("kind", kind, (*KINDS, "column", "module"))

    def _offer(self, kind: str, name: str, thing: Any) -> None:
        if not isinstance(name, str) or not name or any(c in name for c in ":=,{}[] \n\t"):
            raise RegistryError(f"{kind} {name!r}: a name is a word without spaces and without any of : = , {{ }} [ ]")
        self.offers.append(Offer(kind, name, thing))

    def column(self, column: Column) -> None:
        """Declare a column that the plugin's components read or write."""
        self.columns.append(column)

    def module(self, kind: str, module: ModuleType) -> None:
        """Register the public functions and classes of a module as one kind, each under its name in the module.

        They are those that the module, or a module below it, defines, and options bound to them; hooks are left out.
        """
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
        own = [(name, thing) for name, thing in vars(module).items() if _is_public_part(module, name, thing)]
        if not own:
            raise RegistryError(f"module {module.__name__} defines no public function or class to register as {kind}")
        for name, thing in own:
            self._offer(kind, name, thing)

    def algorithm(self, name: str, factory: Factory) -> None:
        """Register an algorithm: a function of options that returns an `Algorithm`, or whatever has a `graph()`."""
        self._offer("algorithm", name, factory)

    def advantage(self, name: str, component: Factory) -> None:
        """Register an advantage: sessions of scored, sampled tokens -> `[B]` or `[B, T]`, perhaps with `returns`."""
        self._offer("advantage", name, component)

    def loss(self, name: str, component: Factory) -> None:
        """Register a loss: rows, 0 off the mask -> `[B, T]`, `[B]` or `LossOutput(loss, metrics)`."""
        self._offer("loss", name, component)

    def reduction(self, name: str, component: Factory) -> None:
        """Register a reduction: `mask`, `group`, `counts` of an optimizer update -> weights `[B, T]` or `[B]`."""
        self._offer("reduction", name, component)

    def kl(self, name: str, component: Factory) -> None:
        """Register a kl: `logprob`, `ref_logprob` -> an estimate `[B, T]`, for the loss or for the reward."""
        self._offer("kl", name, component)

    def filter(self, name: str, component: Factory) -> None:
        """Register a filter: raw rows, NaN included -> int64 indices `[n]` of the rows to keep."""
        self._offer("filter", name, component)

    def correction(self, name: str, component: Factory) -> None:
        """Register a correction: whole rows, 0 off `sampled` -> `weight` or `mask` `[B, T]`."""
        self._offer("correction", name, component)

    def shaping(self, name: str, component: Factory) -> None:
        """Register a shaping: whole rows, 0 off `sampled` -> `reward` and `token_reward`, or `mask`."""
        self._offer("shaping", name, component)

    def select(self, name: str, component: Factory) -> None:
        """Register a select: all rows of an optimizer update, detached -> `mask`, `weight` or `selected`."""
        self._offer("select", name, component)

    def controller(self, name: str, component: Factory) -> None:
        """Register a controller: columns of the step -> columns without dimensions for the next one."""
        self._offer("controller", name, component)

    def readout(self, name: str, component: Factory) -> None:
        """Register a readout: `logits [n, V]`, `token [n]` -> a quantity per token `[n]`."""
        self._offer("readout", name, component)

    def optimizer(self, name: str, factory: Factory) -> None:
        """Register an optimizer: `(parameters, learning_rate)` -> a `torch.optim.Optimizer`."""
        self._offer("optimizer", name, factory)

    def schedule(self, name: str, factory: Factory) -> None:
        """Register a schedule: `(update, total)` -> the factor of the learning rate at that update (from 1)."""
        self._offer("schedule", name, factory)

    def dataset(self, name: str, factory: Factory) -> None:
        """Register a dataset: a function of options that returns rows."""
        self._offer("dataset", name, factory)

    def order(self, name: str, factory: Factory) -> None:
        """Register an order: by name any of `size`, `seed`, `rows` -> a `rlcore.data.Order`."""
        self._offer("order", name, factory)

    def reward(self, name: str, component: Factory) -> None:
        """Register a reward: by name what it reads of a sample and its row -> a score, None, or a dict with `score`."""
        self._offer("reward", name, component)

    def reward_manager(self, name: str, factory: Factory) -> None:
        """Register a reward manager: `(reward)` -> a `rlcore.RewardManager`."""
        self._offer("reward_manager", name, factory)

    def environment(self, name: str, factory: Factory) -> None:
        """Register an environment: nothing but options -> a `rlcore.Environment`."""
        self._offer("environment", name, factory)

    def sampler(self, name: str, factory: Factory) -> None:
        """Register a sampler: `(model)`, and by name any of `version`, `precision` -> a `rlcore.Sampler`."""
        self._offer("sampler", name, factory)

    def trainer(self, name: str, factory: Factory) -> None:
        """Register a trainer: `(config, model)`, a `TrainerConfig` and the loaded model -> a `rlcore.Trainer`."""
        self._offer("trainer", name, factory)

    def weight_transfer(self, name: str, factory: Factory) -> None:
        """Register a weight transfer: nothing but options -> a `rlcore.WeightTransfer`."""
        self._offer("weight_transfer", name, factory)

    def tracker(self, name: str, factory: Factory) -> None:
        """Register a tracker: nothing but options -> a `rlcore.Tracker`."""
        self._offer("tracker", name, factory)

    def model(self, name: str, factory: Factory) -> None:
        """Register a model: by name `report(line)` -> the path of a model's folder."""
        self._offer("model", name, factory)

    def experiment(self, name: str, resource: str) -> None:
        """Register an experiment: `package:resource.yaml`, a configuration file that the package ships."""
        self._offer("experiment", name, resource)


def _is_public_part(module: ModuleType, name: str, thing: Any) -> bool:
    """Return whether a module's attribute is a public function or class that it or a submodule defines, and no hook."""
    if name.startswith("_") or not callable(thing) or hasattr(thing, f"{ENTRY_POINTS}_impl"):
        return False
    # Imported here: components know torch, and a package that only offers names should not wait for it.
    from rlcore.component import source_of

    source = source_of(thing)
    if not inspect.isroutine(source) and not isinstance(source, type):
        return False
    return f"{source.__module__}.".startswith(f"{module.__name__}.")


@hookspec
def register(add: Add) -> None:
    """Register components and services: `add.advantage("name", function)`, and likewise for every kind.

    `add.module("loss", losses)` registers all public functions of a module, each under its own name.
    """


@hookspec
def run_started(run: Any, folder: Path | None) -> None:
    """Called when everything is loaded, before the first step."""


@hookspec
def node_finished(step: int, node: str, seconds: float, rows: int) -> None:
    """Called after each node: wall seconds, and the rows that it left."""


@hookspec
def step_finished(step: int, metrics: Mapping[str, float]) -> None:
    """Called after each step with its metrics."""


@hookspec
def checkpoint_saved(step: int, folder: Path) -> None:
    """Called when a checkpoint is whole."""


@hookspec
def run_finished(run: Any) -> None:
    """Called after the last step."""


@hookspec
def run_failed(run: Any, error: BaseException) -> None:
    """Called when a run ends by an error; the error is raised again afterwards."""
