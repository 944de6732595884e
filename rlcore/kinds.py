"""The table of kinds: what may be registered, in which form, and the configuration groups in which a run chooses it.

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
        optional: null is allowed: nothing is chosen.
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


def _component(name: str, meaning: str, *groups: ConfigGroup) -> Kind:
    return Kind(name=name, meaning=meaning, form="component", groups=groups)


def _factory(name: str, meaning: str, *groups: ConfigGroup) -> Kind:
    return Kind(name=name, meaning=meaning, form="factory", groups=groups)


def _service(name: str, meaning: str, *, protocol: str, default: str) -> Kind:
    group = ConfigGroup(key=name, default=default)
    return Kind(name=name, meaning=meaning, form="service", protocol=protocol, groups=(group,))


_KINDS = (
    _factory(
        "algorithm",
        "makes an algorithm: its components and a few numbers",
        ConfigGroup(key="algorithm", default="grpo"),
    ),
    _component(
        "advantage",
        "estimates the advantage of each row or token from rewards",
        _slot("advantage", optional=False, many=True),
    ),
    _component(
        "loss",
        "gives a loss per token or per row from current log-probabilities or values",
        _slot("loss", optional=False),
        _slot("value_loss"),
    ),
    _component(
        "reduction",
        "gives each token's weight in the sum of a loss",
        _slot("reduction", optional=False),
        _slot("value_reduction"),
    ),
    _component(
        "kl", "estimates the KL divergence to the reference model per token", _slot("kl"), _slot("kl_in_reward")
    ),
    _component("filter", "keeps some of the groups or rows of a rollout", _slot("filter")),
    _component(
        "correction",
        "weighs or masks tokens for the mismatch of sampler and trainer",
        _slot("correction", many=True),
    ),
    _component("shaping", "rewrites the reward before the advantage is estimated", _slot("shaping", many=True)),
    _component("select", "chooses tokens once per optimizer update", _slot("selects", many=True)),
    _component("controller", "changes a coefficient from step to step", _slot("controller")),
    _component("readout", "computes a quantity per token from logits"),
    _factory("optimizer", "makes the optimizer of a role's weights", ConfigGroup(key="optimizer", default="adamw")),
    _factory(
        "schedule",
        "gives the factor of the learning rate at each optimizer update",
        ConfigGroup(key="schedule", default="constant"),
    ),
    _factory("dataset", "gives rows: prompts, targets and whatever a reward reads", ConfigGroup(key="data")),
    _service("order", "says in which order rows are drawn", protocol="rlcore.data.order:Order", default="shuffled"),
    _component("reward", "scores a completion", ConfigGroup(key="reward", optional=True)),
    _service(
        "reward_manager",
        "calls rewards, limits their time and isolates their failures",
        protocol="rlcore.protocols:RewardManager",
        default="default",
    ),
    _service(
        "environment",
        "begins a session and answers the policy's turns",
        protocol="rlcore.protocols:Environment",
        default="single_turn",
    ),
    _service("sampler", "samples completions", protocol="rlcore.protocols:Sampler", default="embedded"),
    _service(
        "trainer",
        "holds a role's weights, computes readouts and applies updates",
        protocol="rlcore.protocols:Trainer",
        default="torch",
    ),
    _service(
        "weight_transfer",
        "hands the trainer's weights to a sampler",
        protocol="rlcore.protocols:WeightTransfer",
        default="direct",
    ),
    Kind(
        name="tracker",
        meaning="takes the metrics of each step",
        form="service",
        protocol="rlcore.protocols:Tracker",
        groups=(ConfigGroup(key="tracker", default=("console", "jsonl"), optional=True, many=True),),
    ),
    _factory("model", "makes or finds a model's folder by name"),
    Kind(name="experiment", meaning="a configuration file that a package ships", form="file"),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""Every kind by name."""

GROUPS: Mapping[str, tuple[Kind, ConfigGroup]] = {group.key: (kind, group) for kind in _KINDS for group in kind.groups}
"""Every configuration group by its key, with the kind that is chosen there."""

SLOTS = tuple(key for key, (_, group) in GROUPS.items() if group.slot)
"""The configuration groups that are slots of an algorithm."""
