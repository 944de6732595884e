"""Algorithm: the components and numbers of an algorithm, and the graph of a step that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rlcore.calling import call
from rlcore.columns import COLUMNS, ColumnTable
from rlcore.component import Component, Kl, as_tuple, bind, is_stateful, name_of, reads, source_of
from rlcore.errors import ConfigError
from rlcore.graph import NODE_KINDS, Graph, Node
from rlcore.kinds import GROUPS, SLOTS
from rlcore.math.bonus import entropy_bonus
from rlcore.math.reward_placement import PlacedReward, place_on_last_token, place_turn_rewards, subtract_kl
from rlcore.protocols import Forward, Term, Update


@dataclass(frozen=True)
class From:
    """Whether a node is active in a step: from step `first` on (0 is the first step of a run)."""

    first: int

    def __call__(self, step: int) -> bool:
        """Return whether the step is not before `first`."""
        return step >= self.first


def no_kl(logprob: Tensor, ref_logprob: Tensor) -> Tensor:
    """Return 0 [B, T]: the default of `kl_in_reward`, which `Algorithm` always binds to a KL estimator."""
    return logprob * 0.0


def kl_in_reward(
    reward: Tensor, token_reward: Tensor, sampled: Tensor, kl_in_reward_coefficient: float, *, estimator: Kl = no_kl
) -> PlacedReward:
    """Return reward [B] and token_reward [B, T] less coefficient x the estimate per sampled token, in nats.

    Source: Ziegler et al. 2019, arXiv:1909.08593, equation 2.
    """
    return subtract_kl(reward, token_reward, sampled, estimator(), kl_in_reward_coefficient)


@dataclass(frozen=True)
class Algorithm:
    """The components of an algorithm and a few numbers; every component is a plain function with its options bound.

    A slot that is None has no node. `kl` with `kl_coefficient` is a term of the loss, `kl_in_reward` (an estimator) a
    penalty with `kl_in_reward_coefficient`. A controller changes the coefficient of the KL in the reward from step to
    step, or, where there is none, that of the KL in the loss.
    The graph always lists the nodes that compute old log-probabilities, reference, critic and greedy rollout; those
    that nothing reads are pruned. `extra` holds further nodes: (node, "before" or "after", name of a node).

    Raises ConfigError for numbers or components that do not fit together.
    """

    name: str
    advantage: Component | tuple[Component, ...]
    loss: Component
    reduction: Component
    kl: Component | None = None
    kl_coefficient: float = 0.0
    kl_in_reward: Component | None = None
    kl_in_reward_coefficient: float = 0.0
    controller: Component | None = None
    entropy_coefficient: float = 0.0
    terms: tuple[Term, ...] = ()
    selects: tuple[Component, ...] = ()
    filter: Component | None = None
    correction: Component | tuple[Component, ...] | None = None
    shaping: tuple[Component, ...] = ()
    value_loss: Component | None = None
    value_reduction: Component | None = None
    critic_warmup: int = 0
    group_size: int = 8
    epochs: int = 1
    minibatches: int = 1
    placing: Component = place_on_last_token
    extra: tuple[tuple[Node, str, str], ...] = ()

    def __post_init__(self) -> None:
        for number, least in (("group_size", 1), ("epochs", 1), ("minibatches", 1), ("critic_warmup", 0)):
            value = getattr(self, number)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(
                    f"algorithm {self.name!r}: {number} must be a whole number of at least {least}, got {value!r}"
                )
        for slot in SLOTS:
            for each in as_tuple(getattr(self, slot)):
                if not callable(each):
                    hint = "several stand in a tuple" if isinstance(each, list) else "a slot holds the function itself"
                    if isinstance(each, str):
                        hint += f": rlcore.get({GROUPS[slot][0].name!r}, {each!r})"
                    raise ConfigError(f"algorithm {self.name!r}: {slot}={each!r:.80} is {type(each).__name__}; {hint}")
        if self.group_size < 2:
            needing = [each for each in as_tuple(self.advantage) if any(read.name == "group" for read in reads(each))]
            if self.filter is not None and _drops_groups_of_one(self.filter):
                needing.append(self.filter)
            if needing:
                raise ConfigError(
                    f"algorithm {self.name!r}: {name_of(needing[0])} compares the samples of one prompt, so group_size "
                    f"must be at least 2; got {self.group_size}"
                )
        if self.kl_coefficient and self.kl is None:
            raise ConfigError(f"algorithm {self.name!r}: kl_coefficient={self.kl_coefficient} has no effect without kl")
        if self.controller is not None and _controls_kl(self.controller) and self.controlled is None:
            raise ConfigError(
                f"controller={name_of(self.controller)} adapts the coefficient of a KL penalty, and this algorithm has "
                f"none. Add kl_in_reward=k1, or kl=k3 with algorithm.kl_coefficient, or remove the controller."
            )
        within_updates = {"loss": self.loss, "reduction": self.reduction, "kl": self.kl, "value_loss": self.value_loss}
        within_updates |= {"value_reduction": self.value_reduction, "kl_in_reward": self.kl_in_reward}
        for slot, component in [*within_updates.items(), *(("selects", select) for select in self.selects)]:
            if component is not None and is_stateful(component):
                raise ConfigError(
                    f"algorithm {self.name!r}: {slot}={name_of(component)} is a class; what is called inside an update "
                    f"keeps no state, so that results do not depend on how the batch is split: write a function"
                )

    @property
    def controlled(self) -> str | None:
        """Return the column that a controller of the KL coefficient changes; None where there is no such controller."""
        if self.controller is None or not _controls_kl(self.controller):
            return None
        if self.kl_in_reward is not None:
            return "kl_in_reward_coefficient"
        return "kl_coefficient" if self.kl is not None and self.kl_coefficient else None

    @property
    def chain(self) -> tuple[Component, ...]:
        """Return the advantage estimators in order: the first writes `advantage`, the others rewrite it."""
        return as_tuple(self.advantage)

    @property
    def corrections(self) -> tuple[Component, ...]:
        """Return the corrections in order: each multiplies the weights, or narrows the mask, of those before it."""
        return as_tuple(self.correction)

    @property
    def initial(self) -> dict[str, float]:
        """Return first values of the columns without dimensions that this algorithm reads."""
        loss = {"kl_coefficient": self.kl_coefficient} if self.controlled == "kl_coefficient" else {}
        return {"kl_in_reward_coefficient": self.kl_in_reward_coefficient, **loss}

    def graph(
        self, *, reward: Component | None = None, environment: Any = None, table: ColumnTable = COLUMNS, title: str = ""
    ) -> Graph:
        """Return the graph of one step. A run gives its reward and environment; without them it can be looked at."""
        nodes = [
            *self._rollout_stage(reward, environment, table),
            _forward("old_logprob", "trainer", _OLD, table),
            _forward("ref_logprob", "reference", {"ref_logprob": "logprob"}, table),
            _forward("value", "critic", {"value": "value"}, table),
        ]
        if self.kl_in_reward is not None:
            penalty = bind(kl_in_reward, estimator=self.kl_in_reward)
            nodes.append(Node(penalty, name="kl_in_reward", kind="kl", columns={"logprob": "old_logprob"}, table=table))
        nodes += _in_order("correction", as_tuple(self.correction), table)
        nodes += _in_order("advantage", as_tuple(self.advantage), table)
        nodes += self._updates(nodes, table)
        nodes.append(Node(name="sync_sampler", kind="sync", role="sampler", reads=("weights.trainer",)))
        if self.controller is not None:
            # It measures the policy that sampled, before the update.
            columns = {"logprob": "old_logprob", "kl_coefficient": self.controlled or "kl_coefficient"}
            nodes.append(Node(self.controller, name="controller", kind="controller", columns=columns, table=table))
        graph = Graph(tuple(nodes), title=title or self.name, table=table)
        for extra, place, name in self.extra:
            graph = graph.insert(extra, **{place: name})
        return graph

    def _rollout_stage(self, reward: Component | None, environment: Any, table: ColumnTable) -> list[Node]:
        """Return the nodes of prompts, rollout, reward, shaping and filter: all before the first forward pass."""
        graded = (*_reward_reads(reward), *NODE_KINDS["reward"].reads)
        draw = partial(Node, environment, kind="rollout", role="sampler", reads=("weights.sampler",))
        written = environment_columns(environment)
        turns = "turn_reward" in written and self.placing is place_on_last_token
        placing = place_turn_rewards if turns else self.placing
        nodes = [
            Node(name="prompts", kind="prompts", reads=()),
            draw(name="rollout", writes=(*NODE_KINDS["rollout"].writes, *written)),
            Node(reward, name="reward", kind="reward", reads=graded),
            Node(placing, name="placing", kind="shaping", per="group", table=table),
            *(Node(each, kind="shaping", per=_smallest_piece(each), table=table) for each in self.shaping),
        ]
        if self.filter is not None:
            # A filter that does not look at groups may keep a part of one or draw a row again (score_resampling, which
            # reads `session`), so it works on the step's whole batch.
            per = "group" if any(read.name == "group" for read in reads(self.filter)) else "batch"
            nodes.append(Node(self.filter, name="filter", kind="filter", per=per, table=table))
        # A greedy rollout is one row a prompt and never trained on: it only gives a baseline.
        greedy = ("greedy_tokens", *graded)
        return [
            *nodes,
            draw(name="greedy_rollout", writes=("greedy_tokens",)),
            Node(reward, name="greedy_reward", kind="reward", reads=greedy, writes=("greedy_reward",)),
        ]

    def _updates(self, nodes: list[Node], table: ColumnTable) -> list[Node]:
        """Return the nodes of the policy update and, where there is a value loss, of the critic's update."""
        terms = [Term(self.loss, self.reduction, name="policy")]
        if self.kl is not None and self.kl_coefficient:
            controlled = self.controlled == "kl_coefficient"
            coefficient = "kl_coefficient" if controlled else self.kl_coefficient
            terms.append(Term(self.kl, self.reduction, coefficient, name="kl"))
        if self.entropy_coefficient:
            terms.append(Term(entropy_bonus, self.reduction, self.entropy_coefficient, name="entropy"))
        terms += [term for term in self.terms if term.coefficient != 0]
        everyone = [*nodes, *(extra for extra, _, _ in self.extra)]
        written_once = sum(n.writes_column("old_logprob") for n in everyone) == 1
        single = self.epochs * self.minibatches == 1 and not self.selects and written_once
        update = partial(Update, minibatches=self.minibatches, epochs=self.epochs)
        policy = update(tuple(terms), self.selects, provides={"old_logprob": "logprob"} if single else {})
        active: Callable[[int], bool] | None = From(self.critic_warmup) if self.critic_warmup else None
        updates = [Node(policy, name="update", kind="update", role="trainer", active=active, table=table)]
        if self.value_loss is not None:
            value = Term(self.value_loss, self.value_reduction or self.reduction, name="value")
            updates.append(Node(update((value,)), name="critic_update", kind="update", role="critic", table=table))
        return updates


def environment_columns(environment: Any) -> tuple[str, ...]:
    """Return the columns that an environment declares its replies to write."""
    return tuple(getattr(source_of(environment), "columns", ())) if environment is not None else ()


def _controls_kl(controller: Component) -> bool:
    """Return whether a controller changes the coefficient of a KL penalty."""
    return any(read.name == "kl_coefficient" for read in reads(controller))


def _drops_groups_of_one(component: Component) -> bool:
    """Return whether a filter by score drops every prompt that is sampled once, whatever the score."""
    if {read.name for read in reads(component)} != {"score", "group"}:
        return False
    singles = {"score": torch.linspace(0, 1, 11), "group": torch.arange(11)}
    return not len(call(component, singles, place="the filter of groups of one"))


def _smallest_piece(shaping: Component) -> str:
    """Return the least that a shaping may be given: a group where it compares the rows of a group, else a row."""
    return "group" if any(read.name in ("group", "session") for read in reads(shaping)) else "row"


def _in_order(kind: str, components: tuple[Component, ...], table: ColumnTable) -> list[Node]:
    """Return a node for each component, named `advantage`, `advantage_2` and so on after their kind."""
    return [
        Node(each, name=kind if i == 0 else f"{kind}_{i + 1}", kind=kind, table=table)
        for i, each in enumerate(components)
    ]


_OLD = {"old_logprob": "logprob", "old_entropy": "entropy", "old_square_sum": "square_sum"}


def _forward(name: str, role: str, readouts: dict[str, str], table: ColumnTable) -> Node:
    return Node(Forward(readouts), name=name, kind="forward", role=role, table=table)


_COMPLETION_PARAMETERS = {"completion", "solution_str", "completions", "messages", "conversation"}
_ALIASES = {"ground_truth": "target", "prompts": "prompt"}


def _reward_reads(reward: Component | None) -> tuple[str, ...]:
    """Return the columns of the data set that a reward reads, besides the completion."""
    if reward is None or not callable(source_of(reward)):
        return ()
    names = (_ALIASES.get(read.name, read.name) for read in reads(reward))
    return tuple(f"data.{name}" for name in names if name not in _COMPLETION_PARAMETERS)
