"""One update of one role's weights: epochs x minibatches, each minibatch one step of the optimizer.

`UpdateLoop.update` is all of it, in order. Counts are those of a whole optimizer update, over all its microbatches, so
that gradients and losses of the microbatches add up to those of the whole, however the rows are split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.calling import call
from rlcore.component import name_of
from rlcore.errors import ComponentError
from rlcore.math.reduce import Counts
from rlcore.metrics import Metrics
from rlcore.protocols import Update, UpdateResult
from rlcore.seeding import stream
from rlcore.train import split
from rlcore.train.forward import ForwardPass, read_rows
from rlcore.train.optimizer import Optimizer, StepReport
from rlcore.train.rows_view import RowsView
from rlcore.train.update_plan import UpdatePlan, check_terms, term_value


@dataclass
class UpdateLoop:
    """One update of a trainer: its plan, its settings, and the metrics so far.

    `seed` draws the order of minibatches; `scalars` are the columns without dimensions, the step's seed among them.
    `measure` are readouts that are reported as metrics, whether a loss reads them or not.
    """

    forward: ForwardPass
    optimizer: Optimizer
    terms: Update
    plan: UpdatePlan
    seed: int
    scalars: Mapping[str, Any]
    temperature: float
    token_budget: int
    max_new_tokens: int | None
    measure: tuple[str, ...] = ()
    metrics: Metrics = field(default_factory=Metrics)

    def update(self, batch: Batch) -> UpdateResult:
        """Minimise the terms over the batch; return the metrics and whether every optimizer update was finite.

        One that is not finite is skipped; one whose rows have nothing on the mask is left out.
        """
        batch = self.prepare(batch)
        finite = True
        for epoch in range(self.terms.epochs):
            for rows in self.minibatches(batch, epoch):
                rows = self.select(rows)
                counts = self.count(rows)
                if not counts.tokens:
                    self.metrics.put("updates/empty", 1, kind="sum")
                    continue
                losses = self.backward(rows, counts)
                step = self.optimizer.step(losses.sum())
                self.report(losses, step)
                finite &= step.finite
        return UpdateResult(self.metrics, finite)

    # -- what comes before the first optimizer update

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with its mask and the columns of the old weights, after all checks."""
        self.forward.check((*self.plan.readouts, *self.plan.select_current.values()))
        batch = with_mask(batch)
        self.check(batch)
        return self.with_old_columns(batch)

    def check(self, batch: Batch) -> None:
        """Run every term on a few rows with readouts of 0.

        Raises ComponentError or GraphError for columns and shapes that do not fit together.
        """
        shares = self.microbatches(batch)
        if not shares:
            return
        # The shortest rows are enough to check shapes.
        rows = batch.take(shares[-1])
        zeros = torch.zeros(int(rows.flat("mask").sum()), device=self.forward.device)
        live = dict.fromkeys((*self.plan.current, *self.plan.provides), zeros)
        table = rows.table
        live |= {name: zeros > 0 if table[name].dtype == "bool" else zeros for name in self.plan.selected}
        check_terms(self.plan, self.view(rows, live), counts=self.count(rows))

    def with_old_columns(self, batch: Batch) -> Batch:
        """Return the batch with the columns that the update provides, computed with the weights before it.

        With one optimizer update and no select its only pass computes them, and the batch is returned as it is.
        """
        provides = self.plan.provides
        if not provides or (self.terms.epochs * self.terms.minibatches == 1 and not self.terms.selects):
            return batch
        self.plan = replace(self.plan, provides={})
        old = self.read(batch, provides.values())
        return batch.assign({column: old[readout] for column, readout in provides.items()})

    # -- how the rows are split

    def minibatches(self, batch: Batch, epoch: int) -> Iterator[Batch]:
        """Yield the rows of each optimizer update of an epoch: whole groups, in an order drawn from the seed."""
        together = split.units(_index(batch, ("group", *self.plan.index_columns)), len(batch))
        seed = stream(self.seed, "epoch", epoch)
        for rows in split.minibatches(together, self.terms.minibatches, seed=seed):
            yield batch.take(rows)

    def microbatches(self, batch: Batch) -> list[Tensor]:
        """Return the row indices of each forward pass: those of rows that have anything on the mask."""
        return microbatches(
            batch,
            batch.flat("mask"),
            self.plan.index_columns,
            token_budget=self.token_budget,
            share_prompts=self.forward.share_prompts,
        )

    def count(self, rows: Batch) -> Counts:
        """Return the counts that reductions divide by, over the rows of one optimizer update."""
        grouped = "group" in rows
        return Counts.of(rows["mask"], rows["group"] if grouped else None, self.max_new_tokens)

    # -- one optimizer update

    def select(self, rows: Batch) -> Batch:
        """Return the rows with the columns that the selects wrote; each reads those of the selects before it.

        Their metrics are over the tokens that a select saw, under its name: "clip_cov/dropped_share". Costs one
        forward pass without gradient if a select reads the current weights.

        Raises ComponentError for a select that returns no columns, or turns on a token that the mask has off.
        """
        if not self.terms.selects:
            return rows
        readouts = self.plan.select_current
        readings = self.read(rows, readouts.values()) if readouts else {}
        for name, select in zip(self.plan.select_names, self.terms.selects, strict=True):
            mask = rows.flat("mask")
            live = {column: readings[readout][mask].to(self.forward.device) for column, readout in readouts.items()}
            view = self.view(rows, live)
            with torch.no_grad():
                written = call(select, view, place=f"select {name_of(select)!r}")
            columns = dict(written._asdict()) if hasattr(written, "_asdict") else written
            if not isinstance(columns, Mapping):
                raise ComponentError(
                    f"select {name_of(select)!r} returned {type(written).__name__}; expected a NamedTuple or a mapping"
                )
            own = Metrics()
            own.report(columns.get("metrics", {}), view["mask"])
            self.metrics.merge(own, prefix=f"{name}/")
            columns = {k: v for k, v in columns.items() if k != "metrics"}
            rows = rows.assign({k: v.detach().cpu() if isinstance(v, Tensor) else v for k, v in columns.items()})
            if "mask" in columns:
                rows = with_mask(rows)
            if bool((rows.flat("mask") & ~mask).any()):
                raise ComponentError(f"select {name_of(select)!r} turned on tokens that the mask had off")
        return rows

    def backward(self, rows: Batch, counts: Counts) -> Tensor:
        """Add the gradients of an optimizer update to the parameters' `.grad`, microbatch after microbatch.

        Return each term's share of the loss, detached float64 [terms]; 0 where no row has anything on the mask.
        `counts` are those of the whole optimizer update.
        """
        total = torch.zeros(len(self.plan.terms), dtype=torch.float64)
        if not self.plan.terms:
            return total
        for share in self.microbatches(rows):
            microbatch = rows.take(share)
            view = self.view(microbatch, self.current(microbatch))
            values = []
            for term in self.plan.terms:
                value, of_loss = term_value(term, view, counts=counts)
                self.metrics.report(of_loss, view["mask"])
                values.append(value)
            loss = torch.stack(values).sum()
            if loss.requires_grad:
                loss.backward()
            total = total + torch.stack(values).detach().cpu().double()
        return total

    def current(self, rows: Batch) -> dict[str, Tensor]:
        """Return the columns of the current weights at the tokens on the mask, [n] each, with gradient."""
        wanted = self.plan.readouts
        extra = tuple(name for name in self.measure if name not in wanted and name in self.forward.names)
        names = (*wanted, *extra)
        if not names:
            return {}
        readings = self.forward.read(rows, rows.flat("mask"), names, temperature=self.temperature, watched=extra)
        for name in self.measure:
            if name in readings:
                self.metrics.add(name, readings[name])
        live = {column: readings[readout] for column, readout in self.plan.current.items()}
        return live | {column: readings[readout].detach() for column, readout in self.plan.provides.items()}

    def report(self, losses: Tensor, step: StepReport) -> None:
        """Add the metrics of one optimizer update; losses [terms] of one that was skipped are left out."""
        if step.finite:
            self.metrics.put("loss", float(losses.sum()))
            for name, value in zip(self.plan.names, losses.tolist(), strict=True):
                self.metrics.put(f"loss/{name}", value)
            self.metrics.put("gradient_norm", step.gradient_norm)
        self.metrics.put("learning_rate", step.learning_rate)
        self.metrics.put("updates/applied", float(step.finite), kind="sum")
        self.metrics.put("updates/skipped", float(not step.finite), kind="sum")

    # -- readouts and columns of some rows

    def read(self, batch: Batch, readouts: Iterable[str]) -> dict[str, Tensor]:
        """Return readouts of the current weights, [N] on the CPU without gradient, 0 off the mask."""
        names, shares = tuple(dict.fromkeys(readouts)), self.microbatches(batch)
        return read_rows(self.forward, batch, batch.flat("mask"), names, temperature=self.temperature, parts=shares)

    def view(self, rows: Batch, live: Mapping[str, Tensor]) -> RowsView:
        """Return the columns of some rows as components are given them."""
        return rows_view(rows, rows.flat("mask"), live=live, scalars=self.scalars, device=self.forward.device)


def with_mask(batch: Batch) -> Batch:
    """Return the batch with the mask of what is trained on: `mask` where tokens were sampled, `sampled` without one."""
    return batch.assign({"mask": trained_mask(batch)})


def trained_mask(batch: Batch) -> Tensor:
    """Return which tokens are trained on, bool [N]."""
    sampled = batch.flat("sampled")
    return batch.flat("mask") & sampled if "mask" in batch else sampled


def rows_view(
    rows: Batch, mask: Tensor, *, live: Mapping[str, Tensor], scalars: Mapping[str, Any], device: torch.device
) -> RowsView:
    """Return the columns of some rows as losses, reductions and selects are given them; `mask` is [N]."""
    return RowsView(
        {name: rows.stored(name) for name in rows.names},
        rows.table,
        mask,
        place=rows.row_of_token * rows.width + rows.place_of_token,
        shape=(len(rows), rows.width),
        live=live,
        scalars=scalars,
        device=device,
    )


def microbatches(
    batch: Batch, on: Tensor, index_columns: Sequence[str], *, token_budget: int, share_prompts: bool
) -> list[Tensor]:
    """Return row indices of the batch in microbatches; rows with nothing on in `on` [N] need no forward pass."""
    count = torch.zeros(len(batch), dtype=torch.int64).index_add_(0, batch.row_of_token, on.to(torch.int64))
    rows = count.nonzero().flatten()
    together = split.units({name: ids[rows] for name, ids in _index(batch, index_columns).items()}, len(rows))
    shares = split.microbatches(
        batch.length[rows],
        together,
        token_budget=token_budget,
        group=batch["group"][rows] if share_prompts and "group" in batch and "group" not in index_columns else None,
    )
    return [rows[share] for share in shares]


def _index(batch: Batch, columns: Sequence[str]) -> dict[str, Tensor]:
    return {name: batch[name] for name in columns if name in batch}
