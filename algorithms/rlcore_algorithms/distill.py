"""On-policy distillation from a teacher (Agarwal et al. 2023, GKD, arXiv:2306.13649, with lambda = 1).

    loss = mean over tokens of  KL(policy || teacher)   over the whole vocabulary, or
    loss = mean over tokens of  KL(teacher || policy)   over the teacher's likeliest tokens (`forward_top`)

The policy draws the tokens and learns at each of them; no reward is needed, and one that is given is for evaluations.
The teacher is the role `teacher`: roles.teacher.model=FOLDER. What differs from the paper: all rows are the policy's
own; the forward KL may be bounded to some tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from rlcore.algorithm import environment_columns
from rlcore.columns import TOKEN, Column, ColumnTable
from rlcore.component import Component
from rlcore.errors import ConfigError
from rlcore.graph import NODE_KINDS, Graph, Node
from rlcore.protocols import Term, Update
from rlcore.registry import registry
from rlcore_algorithms import losses
from rlcore_algorithms.reductions import token_mean


def _column(name: str, readout: str, meaning: str) -> Column:
    return Column(
        name=name,
        dims=TOKEN,
        dtype="float",
        meaning=meaning,
        writer="trainer",
        unit="nats",
        readout=readout,
        current=True,
        reference_role="teacher",
    )


TEACHER_KL = _column("teacher_kl", "full_kl", "KL of the current weights to the teacher over the whole vocabulary")
FORWARD = _column("teacher_forward_kl", "forward_kl", "KL of the teacher to the current weights over its top tokens")


@dataclass(frozen=True)
class Distillation:
    """What a policy draws, and a loss at each of its tokens that compares it with the role `teacher`.

    `top` bounds the column `teacher_forward_kl` to so many of the teacher's tokens; 0 is the whole vocabulary.
    """

    name: str
    loss: Component
    reduction: Component
    top: int = 0
    group_size: int = 1
    epochs: int = 1
    minibatches: int = 1

    own_models: ClassVar[tuple[str, ...]] = ("teacher",)

    @property
    def initial(self) -> dict[str, float]:
        """Return first values of the columns without dimensions: none."""
        return {}

    def graph(
        self, *, reward: Callable[..., Any] | None = None, environment: Any = None, table: ColumnTable | None = None
    ) -> Graph:
        """Return the graph of one step: prompts -> rollout -> update -> sync."""
        columns = dict(table if table is not None else registry().columns)
        columns[TEACHER_KL.name] = TEACHER_KL
        columns[FORWARD.name] = _column(
            FORWARD.name, f"forward_kl_top_{self.top}" if self.top else "forward_kl", FORWARD.meaning
        )
        table = ColumnTable(columns)
        update = Update((Term(self.loss, self.reduction),), minibatches=self.minibatches, epochs=self.epochs)
        drawn = (*NODE_KINDS["rollout"].writes, *environment_columns(environment))
        draw = Node(
            environment, name="rollout", kind="rollout", role="sampler", reads=("weights.sampler",), writes=drawn
        )
        return Graph(
            (
                Node(name="prompts", kind="prompts"),
                draw,
                Node(update, name="update", kind="update", role="trainer", table=table),
                Node(name="sync_sampler", kind="sync", role="sampler", reads=("weights.trainer",)),
            ),
            title=self.name,
            table=table,
        )


def distill(
    *, forward_top: int | None = None, group_size: int = 1, epochs: int = 1, minibatches: int = 1
) -> Distillation:
    """Distillation: the policy learns at its own tokens from a teacher's distribution; no reward is needed.

    forward_top: None takes the reverse KL; a number the forward KL over so many of the teacher's likeliest tokens, 0
    over all of them.
    """
    if forward_top is not None and forward_top < 0:
        raise ConfigError(f"distill: forward_top={forward_top} must be a number of tokens, 0 for all, or None")
    return Distillation(
        name="distill",
        loss=losses.reverse_kl if forward_top is None else losses.forward_kl,
        reduction=token_mean,
        top=forward_top or 0,
        group_size=group_size,
        epochs=epochs,
        minibatches=minibatches,
    )
