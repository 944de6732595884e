"""The plan of an update: what its terms and selects read; and the value of a term over some rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlcore.calling import call
from rlcore.columns import ColumnTable
from rlcore.component import name_of, outputs, reads
from rlcore.errors import ComponentError, GraphError
from rlcore.math.reduce import Counts, weighted_loss
from rlcore.protocols import LossOutput, Term, Update
from rlcore.train.rows_view import RowsView
from rlcore.train.split import is_index_column


@dataclass(frozen=True)
class UpdatePlan:
    """What an update needs, found once before it begins.

    Attributes:
        terms: the terms whose coefficient is not 0; `names` are theirs, in metrics.
        index_columns: columns whose equal values keep rows together in one microbatch.
        current: columns of the current weights that terms read -> readout.
        provides: columns of the first pass that are read -> readout; see `Update.provides`.
        select_current: columns of the current weights that selects read -> readout.
        select_names: names of the selects, in metrics.
        selected: columns besides `mask` that selects write.
    """

    terms: tuple[Term, ...]
    names: tuple[str, ...]
    index_columns: tuple[str, ...]
    current: Mapping[str, str]
    provides: Mapping[str, str]
    select_current: Mapping[str, str]
    select_names: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()

    @property
    def readouts(self) -> tuple[str, ...]:
        """Return the readouts that the terms need, each once."""
        return tuple(dict.fromkeys((*self.current.values(), *self.provides.values())))


def plan_update(update: Update, table: ColumnTable) -> UpdatePlan:
    """Return the plan of an update. A term with the constant coefficient 0 does not exist."""
    terms = tuple(term for term in update.terms if term.coefficient != 0)
    loss_reads = [read.name for term in terms for read in reads(term.loss)]
    select_reads = [read.name for select in update.selects for read in reads(select)]
    everything = dict.fromkeys((*loss_reads, *select_reads))
    return UpdatePlan(
        terms=terms,
        names=_names([term.name or name_of(term.loss) for term in terms]),
        index_columns=tuple(name for name in everything if name in table and is_index_column(name, table)),
        current=_current(loss_reads, table),
        provides={name: readout for name, readout in update.provides.items() if name in everything},
        select_current=_current(select_reads, table),
        select_names=_names([name_of(select) for select in update.selects]),
        selected=tuple(
            name for select in update.selects for name in outputs(select) or () if name not in ("mask", "metrics")
        ),
    )


def _current(names: Sequence[str], table: ColumnTable) -> dict[str, str]:
    columns = [table[name] for name in dict.fromkeys(names)]
    return {column.name: column.readout for column in columns if column.current and column.readout is not None}


def _names(plain: Sequence[str]) -> tuple[str, ...]:
    """Return the names, numbered where several are equal."""
    return tuple(
        f"{name}_{plain[:i].count(name) + 1}" if plain.count(name) > 1 else name for i, name in enumerate(plain)
    )


def coefficient_value(term: Term, columns: Mapping[str, Any]) -> float:
    """Return a term's coefficient: its constant, or the column without dimensions that it names."""
    if not isinstance(term.coefficient, str):
        return float(term.coefficient)
    if term.coefficient not in columns:
        raise GraphError(
            f"term {name_of(term.loss)!r} takes {term.coefficient!r} as its coefficient; nothing writes it"
        )
    return float(columns[term.coefficient])


def term_value(term: Term, columns: Mapping[str, Any], *, counts: Counts) -> tuple[Tensor, Mapping[str, Any]]:
    """Return coefficient x sum(reduction weight x importance weight x loss) over these rows, and the loss's metrics.

    A token reduction weighs the tokens of a [B, T] loss. A row reduction weighs rows: of a [B, T] loss the mean over
    the row's tokens on the mask, of a [B] loss the value itself. What lies off the mask has no say and no gradient.

    Raises:
        ComponentError: shapes that do not fit, or a [B] loss with a token reduction or unread importance weights.
    """
    label = name_of(term.loss)
    output = call(term.loss, columns, place=f"loss {label!r}")
    values, metrics = (output.loss, output.metrics) if isinstance(output, LossOutput) else (output, {})
    mask: Tensor = columns["mask"]
    weighing = {read.name: columns[read.name] for read in reads(term.reduction) if read.name in columns}
    place = f"reduction {name_of(term.reduction)!r}"
    shares: Tensor = call(term.reduction, {**weighing, "counts": counts}, place=place)
    if not isinstance(values, Tensor) or values.shape not in (mask.shape, mask.shape[:1]):
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        expected = f"a tensor {tuple(mask.shape)} per token or ({len(mask)},) per row"
        single = isinstance(values, float | int) or (isinstance(values, Tensor) and values.dim() == 0)
        averaged = (
            f"{shape}, a single number; expected {expected}. Return the values themselves, without mean() or sum(): "
            f"the reduction weighs them over the whole optimizer update ({place} here; reduction=NAME chooses another)"
        )
        raise ComponentError(f"loss {label!r} returned {averaged if single else f'{shape}; expected {expected}'}")
    if not values.is_floating_point():
        raise ComponentError(f"loss {label!r} returned {values.dtype}; expected floating-point values")
    if not isinstance(shares, Tensor) or shares.is_complex():
        kind = shares.dtype if isinstance(shares, Tensor) else type(shares).__name__
        raise ComponentError(f"{place} returned {kind}; expected a tensor of real weights")
    if shares.shape not in (mask.shape, mask.shape[:1]):
        raise ComponentError(
            f"reduction {name_of(term.reduction)!r} returned {tuple(shares.shape)}; expected token weights "
            f"{tuple(mask.shape)} or row weights ({len(mask)},)"
        )
    if "weight" in columns and "weight" not in {read.name for read in reads(term.loss)}:
        if values.dim() == 1:
            raise ComponentError(
                f"loss {label!r} gives one value per row and does not read `weight`, which stands for each token; "
                "let it read `weight`, or drop the correction that writes it"
            )
        values = values * columns["weight"]
    return coefficient_value(term, columns) * weighted_loss(values, shares, mask), metrics


def check_trains(plan: UpdatePlan, columns: RowsView, *, counts: Counts) -> None:
    """Run the terms on finite columns, of which the current ones require a gradient.

    Raises ComponentError for a term that is not finite, or that depends on no current column.
    """
    for term in plan.terms:
        label = name_of(term.loss)
        value = term_value(term, columns, counts=counts)[0]
        if not bool(torch.isfinite(value)):
            raise ComponentError(f"loss {label!r} gave {value.item()} on finite made-up rows; expected a finite value")
        if not value.requires_grad:
            live = sorted({"logprob", "entropy", *plan.current})
            read = [r.name for r in reads(term.loss) if r.name in live]
            cause = (
                f"reads {' and '.join(read)}, but what it returns is cut off from the gradient: look for .detach(), "
                f".item(), torch.no_grad(), or a tensor that is made anew"
                if read
                else f"reads none of the columns that the current weights give, such as {' or '.join(live)}"
            )
            raise ComponentError(f"loss {label!r} has no gradient, so that nothing would be trained: it {cause}")


def check_terms(plan: UpdatePlan, columns: RowsView, *, counts: Counts) -> None:
    """Run the terms once on real rows with readouts of 0, so that what does not fit is found before a model runs.

    Raises:
        GraphError: a column that a loss reads is not there.
        ComponentError: shapes that do not fit together.
    """
    with torch.no_grad():
        for term in plan.terms:
            for read in (*reads(term.loss), *reads(term.reduction)):
                if not read.optional and read.name not in columns and read.name != "counts":
                    raise GraphError(f"term {name_of(term.loss)!r} reads {read.name!r}, which this batch does not have")
            term_value(term, columns, counts=counts)
