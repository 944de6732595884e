"""The table of kinds: what may be registered, what it must be, and the configuration groups in which a run chooses it.

Registry, configuration, conformance kit, `rlcore info` and the documentation are made from this table. A new kind is
one entry here, and whatever calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ConfigGroup:
    """One key under which a run chooses components of a kind.

    Attributes:
        key: the word on the command line, `loss` of `loss=clipped`.
        default: the name that is chosen where nobody chooses; None where the algorithm or the user must.
        optional: null is allowed, and stands for nothing.
        many: a list is allowed.
        slot: it is a field of `Algorithm`, so that the algorithm's factory fills it first.
    """

    key: str
    default: str | tuple[str, ...] | None = None
    optional: bool = False
    many: bool = False
    slot: bool = False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What components or services of one name are for.

    Attributes:
        name: the word of `add.NAME(...)` and of `rlcore info`.
        meaning: what it does, as a sentence for people.
        form: `component`: a function of columns, or a class with state; `service`: a factory of something with a
            lifetime; `factory`: a function that returns data, an algorithm, an optimizer, a number; `file`:
            `package:resource.yaml`. Keyword-only parameters of each are its options.
        protocol: `module:class` that what a service's factory returns must satisfy; "" where there is none.
        groups: where a run chooses it; empty for kinds that are taken by the name alone (readouts, experiments).
    """

    name: str
    meaning: str
    form: Literal["component", "service", "factory", "file"]
    protocol: str = ""
    groups: tuple[ConfigGroup, ...] = ()


def _slot(key: str, *, optional: bool = True, many: bool = False) -> ConfigGroup:
    return ConfigGroup(key=key, optional=optional, many=many, slot=True)


_KINDS = (
    Kind(
        name="algorithm",
        meaning="makes an algorithm: its components and a few numbers",
        form="factory",
        groups=(ConfigGroup(key="algorithm", default="grpo"),),
    ),
    Kind(
        name="advantage",
        meaning="estimates the advantage of each row or token from rewards",
        form="component",
        groups=(_slot("advantage", optional=False, many=True),),
    ),
    Kind(
        name="loss",
        meaning="gives a loss per token or per row from current log-probabilities or values",
        form="component",
        groups=(_slot("loss", optional=False), _slot("value_loss")),
    ),
    Kind(
        name="reduction",
        meaning="gives each token's weight in the sum of a loss",
        form="component",
        groups=(_slot("reduction", optional=False), _slot("value_reduction")),
    ),
    Kind(
        name="kl",
        meaning="estimates the KL divergence to the reference model per token",
        form="component",
        groups=(_slot("kl"), _slot("kl_in_reward")),
    ),
    Kind(
        name="filter",
        meaning="keeps some of the groups or rows of a rollout",
        form="component",
        groups=(_slot("filter"),),
    ),
    Kind(
        name="correction",
        meaning="weighs or masks tokens for the mismatch of sampler and trainer",
        form="component",
        groups=(_slot("correction", many=True),),
    ),
    Kind(
        name="shaping",
        meaning="rewrites the reward before the advantage is estimated",
        form="component",
        groups=(_slot("shaping", many=True),),
    ),
    Kind(
        name="select",
        meaning="chooses tokens once per optimizer update",
        form="component",
        groups=(_slot("selects", many=True),),
    ),
    Kind(
        name="controller",
        meaning="changes a coefficient from step to step",
        form="component",
        groups=(_slot("controller"),),
    ),
    Kind(name="readout", meaning="computes a quantity per token from logits", form="component"),
    Kind(
        name="optimizer",
        meaning="makes the optimizer of a role's weights",
        form="factory",
        groups=(ConfigGroup(key="optimizer", default="adamw"),),
    ),
    Kind(
        name="schedule",
        meaning="gives the factor of the learning rate at each optimizer update",
        form="factory",
        groups=(ConfigGroup(key="schedule", default="constant"),),
    ),
    Kind(
        name="dataset",
        meaning="gives rows: prompts, targets and whatever a reward reads",
        form="factory",
        groups=(ConfigGroup(key="data"),),
    ),
    Kind(
        name="order",
        meaning="says in which order rows are drawn",
        form="service",
        protocol="rlcore.data.order:Order",
        groups=(ConfigGroup(key="order", default="shuffled"),),
    ),
    Kind(
        name="reward",
        meaning="scores a completion",
        form="component",
        groups=(ConfigGroup(key="reward"),),
    ),
    Kind(
        name="reward_manager",
        meaning="calls rewards, limits their time and isolates their failures",
        form="service",
        protocol="rlcore.protocols:RewardManager",
        groups=(ConfigGroup(key="reward_manager", default="default"),),
    ),
    Kind(
        name="environment",
        meaning="begins a session and answers the policy's turns",
        form="service",
        protocol="rlcore.protocols:Environment",
        groups=(ConfigGroup(key="environment", default="single_turn"),),
    ),
    Kind(
        name="sampler",
        meaning="samples completions",
        form="service",
        protocol="rlcore.protocols:Sampler",
        groups=(ConfigGroup(key="sampler", default="embedded"),),
    ),
    Kind(
        name="trainer",
        meaning="holds a role's weights, computes readouts and applies updates",
        form="service",
        protocol="rlcore.protocols:Trainer",
        groups=(ConfigGroup(key="trainer", default="torch"),),
    ),
    Kind(
        name="weight_transfer",
        meaning="hands the trainer's weights to a sampler",
        form="service",
        protocol="rlcore.protocols:WeightTransfer",
        groups=(ConfigGroup(key="weight_transfer", default="direct"),),
    ),
    Kind(
        name="tracker",
        meaning="takes the metrics of each step",
        form="service",
        protocol="rlcore.protocols:Tracker",
        groups=(ConfigGroup(key="tracker", default=("console", "jsonl"), optional=True, many=True),),
    ),
    Kind(name="model", meaning="makes or finds a model's folder by name", form="factory"),
    Kind(name="experiment", meaning="a configuration file that a package ships", form="file"),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""Every kind by name."""

GROUPS: Mapping[str, tuple[Kind, ConfigGroup]] = {group.key: (kind, group) for kind in _KINDS for group in kind.groups}
"""Every configuration group by its key, with the kind that is chosen there."""

SLOTS = tuple(key for key, (_, group) in GROUPS.items() if group.slot)
"""The configuration groups that are slots of an algorithm."""
