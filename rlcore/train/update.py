"""One optimizer update's gradient: counts over all its rows, then microbatch after microbatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.calling import call
from rlcore.component import name_of
from rlcore.errors import ComponentError
from rlcore.math.reduce import Counts
from rlcore.metrics import Metrics
from rlcore.train.ranks import sum_over_ranks
from rlcore.train.reader import Reader, read_rows
from rlcore.train.split import microbatches
from rlcore.train.terms import Plan, check_terms, term_value
from rlcore.train.view import RowsView


@dataclass(frozen=True)
class Setting:
    """What stays the same throughout an update."""

    reader: Reader
    plan: Plan
    temperature: float
    scalars: Mapping[str, float]
    token_budget: int
    max_new_tokens: int | None
    measure: tuple[str, ...] = ()

    @property
    def device(self) -> torch.device:
        """Where losses are computed."""
        return self.reader.model.device

    def parts(self, batch: Batch, on: Tensor) -> list[Tensor]:
        """Return the microbatches of the rows that have anything on, as row indices of the batch."""
        rows = rows_with_any(batch, on)
        columns = self.plan.index_columns
        share = self.reader.share_prompts
        found = microbatches(batch.take(rows), columns, token_budget=self.token_budget, share_prompts=share)
        return [rows[part] for part in found]


def rows_with_any(batch: Batch, on: Tensor) -> Tensor:
    """Return the indices of rows with any token in `on` [N]; the others need no forward pass."""
    count = torch.zeros(len(batch), dtype=torch.int64).index_add_(0, batch.row_of_token, on.to(torch.int64))
    return count.nonzero().flatten()


def mask_of(batch: Batch) -> Tensor:
    """Return which tokens are trained on, [N]: `mask`, or `sampled` where nothing wrote a mask."""
    sampled = batch.flat("sampled")
    return batch.flat("mask") & sampled if "mask" in batch else sampled


def count(batch: Batch, max_new_tokens: int | None) -> Counts:
    """Return the counts of some rows, all-masked ones included; the counts of parts add up to those of the whole."""
    grouped = "group" in batch
    return Counts.of(batch.pad(mask_of(batch)), batch["group"] if grouped else None, max_new_tokens)


def run_selects(batch: Batch, update_selects: tuple[Any, ...], setting: Setting, metrics: Metrics) -> Batch:
    """Return the rows of an optimizer update with what the selects wrote, each seeing what those before it wrote.

    Their metrics go into `metrics`, over the tokens that a select saw, under its name: "clip_cov/dropped_share".

    Costs one forward pass without gradient if a select reads the weights of the moment.

    Raises:
        ComponentError: a select that returns no columns, or turns on a token that the mask has off.
    """
    if not update_selects:
        return batch
    mask = mask_of(batch)
    current = setting.plan.select_current
    live: dict[str, Tensor] = {}
    if current:
        readouts = tuple(dict.fromkeys(current.values()))
        found = read_rows(
            setting.reader, batch, mask, readouts, temperature=setting.temperature, parts=setting.parts(batch, mask)
        )
        live = {column: found[readout] for column, readout in current.items()}
    for name, select in zip(setting.plan.select_names, update_selects, strict=True):
        mask = mask_of(batch)
        values = {column: flat[mask].to(setting.device) for column, flat in live.items()}
        view = RowsView(batch, mask, live=values, scalars=setting.scalars, device=setting.device)
        with torch.no_grad():
            written = call(select, view, place=f"select {name_of(select)!r}")
        columns = dict(written._asdict()) if hasattr(written, "_asdict") else written
        if not isinstance(columns, Mapping):
            raise ComponentError(
                f"select {name_of(select)!r} returned {type(written).__name__}; expected a NamedTuple or a mapping"
            )
        own = Metrics()
        own.report(columns.get("metrics", {}), view["mask"])
        metrics.merge(own, prefix=f"{name}/")
        columns = {k: v for k, v in columns.items() if k != "metrics"}
        batch = batch.assign({k: v.detach().cpu() if isinstance(v, Tensor) else v for k, v in columns.items()})
        if bool((mask_of(batch) & ~mask).any()):
            raise ComponentError(f"select {name_of(select)!r} turned on tokens that the mask had off")
    return batch


def add_gradients(batch: Batch, counts: Counts, setting: Setting, metrics: Metrics) -> Tensor:
    """Add the gradients of these rows to the parameters' `.grad`, and return each term's share of the loss, detached.

    `counts` are those of the whole optimizer update, on all ranks. So gradients and losses of parts (microbatches,
    ranks) add up to those of the whole; rows with nothing on are not run. With no row left the loss is 0.
    """
    mask = mask_of(batch)
    total = torch.zeros(len(setting.plan.terms), dtype=torch.float64)
    if not setting.plan.terms:
        return total
    for rows in setting.parts(batch, mask):
        total = total + _microbatch(batch.take(rows), counts, setting, metrics)
    return total


def _microbatch(rows: Batch, counts: Counts, setting: Setting, metrics: Metrics) -> Tensor:
    plan = setting.plan
    mask = mask_of(rows)
    wanted = plan.readouts
    extra = tuple(name for name in setting.measure if name not in wanted and name in setting.reader.names)
    names = (*wanted, *extra)
    found = setting.reader.read(rows, mask, names, temperature=setting.temperature, watched=extra) if names else {}
    for name in setting.measure:
        if name in found:
            metrics.add(name, found[name])
    live = {column: found[readout] for column, readout in plan.current.items()}
    live |= {column: found[readout].detach() for column, readout in plan.offers.items()}
    view = RowsView(rows, mask, live=live, scalars=setting.scalars, device=setting.device)
    values = []
    for term in plan.terms:
        value, of_loss = term_value(term, view, counts=counts)
        metrics.report(of_loss, view["mask"])
        values.append(value)
    loss = torch.stack(values).sum()
    if loss.requires_grad:
        loss.backward()
    return torch.stack(values).detach().cpu().double()


def check_update(batch: Batch, setting: Setting) -> None:
    """Run every term on a few rows before any forward pass: raises what a misfit of columns and shapes raises later."""
    mask = mask_of(batch)
    parts = setting.parts(batch, mask)
    if not parts:
        return
    # The shortest rows: the check is about shapes, and cheap.
    rows = batch.take(parts[-1])
    on = mask_of(rows)
    zeros = torch.zeros(int(on.sum()), device=setting.device)
    live = dict.fromkeys((*setting.plan.current, *setting.plan.offers), zeros)
    live |= {name: zeros > 0 if batch.table[name].dtype == "bool" else zeros for name in setting.plan.selected}
    view = RowsView(rows, on, live=live, scalars=setting.scalars, device=setting.device)
    check_terms(setting.plan, view, counts=count(rows, setting.max_new_tokens))


def total_counts(batch: Batch, max_new_tokens: int | None) -> Counts:
    """Return the counts of a whole optimizer update: this rank's rows and all others'."""
    return sum_over_ranks(count(batch, max_new_tokens))
