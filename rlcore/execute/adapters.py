"""Adapters of components: what a component is handed, and how its result is laid back.

No component ever handles padding of another row, NaN, tool output or split trajectories: they are taken out here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlcore.batch import Batch
from rlcore.calling import call, guarded
from rlcore.columns import COMPONENTS, ROW, TOKEN, ColumnTable
from rlcore.component import Component, name_of
from rlcore.data import RowEncoder, TokenRow
from rlcore.errors import ComponentError, DataError
from rlcore.graph import NO_COLUMNS, NODE_KINDS, Node
from rlcore.metrics import Metrics


def scored_sessions(batch: Batch) -> Tensor:
    """Return [B]: True on rows of a session of which no row has a NaN score (all True where nothing is graded)."""
    if "score" not in batch or not len(batch):
        return torch.ones(len(batch), dtype=torch.bool)
    return _without(batch, torch.isnan(batch["score"]))


def _without(batch: Batch, bad: Tensor) -> Tensor:
    """Return [B]: True on rows of sessions of which no row is bad."""
    if "session" not in batch or not bool(bad.any()):
        return ~bad
    _, inverse = torch.unique(batch["session"], return_inverse=True)
    spoiled = torch.zeros(int(inverse.max()) + 1, dtype=torch.bool)
    spoiled[inverse[bad]] = True
    return ~spoiled[inverse]


def voting_rows(batch: Batch) -> Tensor:
    """Return [B]: True on scored rows of a session that has at least one token to train on."""
    rows = scored_sessions(batch)
    if "mask" not in batch or not len(batch):
        return rows
    trained = torch.zeros(len(batch), dtype=torch.int64).index_add(0, batch.row_of_token, batch.flat("mask").long())
    if "session" in batch:
        _, inverse = torch.unique(batch["session"], return_inverse=True)
        trained = torch.zeros(int(inverse.max()) + 1, dtype=torch.int64).index_add(0, inverse, trained)[inverse]
    return rows & (trained > 0)


def trainable_batch(batch: Batch) -> Batch:
    """Return what an update is handed: no columns of the data set, and the mask of unscored sessions off.

    What could not be scored has no vote in any term.
    """
    batch = batch.drop(name for name in batch.names if name.startswith("data."))
    on = scored_sessions(batch)
    if bool(on.all()) or "mask" not in batch:
        return batch
    return batch.assign({"mask": batch.flat("mask") & on[batch.row_of_token]})


# -- rows of a data set: supervised training, pairs


def call_on_data(
    node: Node,
    component: Component,
    encode: RowEncoder,
    prompts: Sequence[tuple[int, Mapping[str, Any]]],
    table: ColumnTable,
) -> Batch:
    """Return the token rows that a component makes of drawn data rows, (group id, row) pairs.

    It is called with `(row, encode)` for each of them and returns a `TokenRow` or several; one with a parameter `rows`
    is called once, with all of them, and returns a list of such results. What it declares as `columns` each row has;
    `pair` is the drawn row's group where it gives none. Raises ComponentError for a result that does not fit.
    """
    data = [row for _, row in prompts]
    with guarded(component, f"node {node.name!r}"):
        if "rows" in inspect.signature(component).parameters:
            results = component(data, encode)
        else:
            results = [component(row, encode) for row in data]
    if not isinstance(results, Sequence) or len(results) != len(data):
        raise ComponentError(
            f"node {node.name!r}: {name_of(component)} was given {len(data)} rows; expected a list of "
            f"as many results, found {results!r:.80}"
        )
    own = [name for name in node.writes if name not in NODE_KINDS["rows"].writes]
    made = [
        (group, number, row, token_row)
        for (group, row), result in zip(prompts, results, strict=True)
        for number, token_row in enumerate([result] if isinstance(result, TokenRow) else result)
    ]
    for _, _, _, token_row in made:
        _check_token_row(node, component, token_row, own, encode.max_tokens)
    sampled = torch.tensor([on for *_, t in made for on in t.sampled], dtype=torch.bool)
    columns: dict[str, Any] = {
        "tokens": torch.tensor([i for *_, t in made for i in t.tokens], dtype=torch.int64),
        "length": torch.tensor([len(t.tokens) for *_, t in made], dtype=torch.int64),
        "prompt_length": torch.tensor([t.prompt_length for *_, t in made], dtype=torch.int64),
        "sampled": sampled,
        "mask": sampled.clone(),
        "group": torch.tensor([group for group, *_ in made], dtype=torch.int64),
        "session": torch.tensor([(group << 20) + number for group, number, *_ in made], dtype=torch.int64),
    }
    for name in own:
        values = [t.columns.get(name, group) if name == "pair" else t.columns[name] for group, _, _, t in made]
        columns[name] = [x for each in values for x in each] if table[name].dims == TOKEN else values
    if any(row.get("model_inputs") for row in data):
        columns["model_inputs"] = [row.get("model_inputs") for _, _, row, _ in made]
    keys = dict.fromkeys(key for row in data for key in row)
    columns |= {f"data.{key}": [row.get(key) for _, _, row, _ in made] for key in keys}
    return Batch(columns, table=table)


def _check_token_row(node: Node, component: Component, row: Any, own: Sequence[str], max_tokens: int | None) -> None:
    """Raise ComponentError for what is no row of ids that can be trained on, DataError for one that is too long."""
    wrong = ""
    if not isinstance(row, TokenRow):
        wrong = f"found {row!r:.80}; expected a rlcore.data.TokenRow, or a list of them"
    elif not row.tokens or len(row.tokens) != len(row.sampled):
        wrong = f"a row has {len(row.tokens)} tokens and {len(row.sampled)} marks; expected as many, and at least one"
    elif row.sampled[0] or not 0 <= row.prompt_length <= len(row.tokens):
        wrong = "a row's first token is marked as learned, or its prompt is longer than the row: nothing stands before"
    elif missing := [name for name in own if name not in row.columns and name != "pair"]:
        wrong = f"a row lacks {', '.join(missing)}, which {name_of(component)}.columns declares"
    elif unknown_names := set(row.columns) - set(own):
        wrong = f"a row has {', '.join(sorted(unknown_names))}, which {name_of(component)}.columns does not declare"
    if wrong:
        raise ComponentError(f"node {node.name!r}: {name_of(component)}: {wrong}")
    if max_tokens is not None and len(row.tokens) > max_tokens:
        raise DataError(f"a row has {len(row.tokens)} tokens; the model takes {max_tokens}")


# -- whole rows: shaping, KL in reward, corrections, a stranger's node


def call_on_rows(
    node: Node, component: Component, batch: Batch, taken: tuple[str, ...], scalars: Mapping[str, Any]
) -> dict[str, Any]:
    """Call a node with whole rows, 0 off `sampled`, unscored rows off; return what it writes, 0 off `sampled`.

    A returned `rows` are indices into the batch, and the node's own columns then belong to the rows that these leave.
    Returned `metrics` become a window in which tokens of the mask that was handed over vote, and rows with any.
    Raises ComponentError for a result that does not fit.
    """
    on = scored_sessions(batch)
    columns: dict[str, Any] = dict(scalars)
    for name in taken:
        if name in batch:
            columns[name] = _row_view(batch, name, on)
    result = _named(node, _call(node, component, columns))
    written: dict[str, Any] = {}
    if "metrics" in result:
        written["metrics"] = _reported(node, result.pop("metrics"), batch, on)
    left = batch
    if "rows" in result:
        written["rows"] = check_rows(node, result.pop("rows"), len(batch))
        left = batch.take(written["rows"])
    for name, value in result.items():
        if not batch.table[name].dims:
            written[name] = float(value) if isinstance(value, Tensor) else value
        else:
            written[name] = _laid_on_rows(node, name, value, left, handed=batch.width)
    return written


def _reported(node: Node, found: Any, batch: Batch, on: Tensor) -> Metrics:
    if not isinstance(found, Mapping):
        raise ComponentError(
            f"node {node.name!r} gave {type(found).__name__} as metrics; expected a mapping of names to tensors"
        )
    mask = batch["mask" if "mask" in batch else "sampled"] & on[:, None]
    window = Metrics()
    window.report(found, mask)
    return window


def _row_view(batch: Batch, name: str, on: Tensor) -> Any:
    column, value = batch.table[name], batch[name]
    if not isinstance(value, Tensor) or (column.structural and name not in ("mask", "score", "weight")):
        return value.clone() if isinstance(value, Tensor) else value
    if column.dims == TOKEN:
        keep = (batch["sampled"] if "sampled" in batch else torch.ones_like(value, dtype=torch.bool)) & on[:, None]
    else:
        keep = on.view(-1, *([1] * (value.dim() - 1))) if value.dim() else on
    return torch.where(keep, value, torch.zeros_like(value))


def _laid_on_rows(node: Node, name: str, value: Any, batch: Batch, *, handed: int) -> Any:
    column = batch.table[name]
    if column.dims == ROW and column.dtype == "object":
        return list(value)
    if not isinstance(value, Tensor):
        raise ComponentError(f"node {node.name!r} gave {type(value).__name__} for {name!r}; expected a tensor")
    rows = len(batch)
    if column.dims != TOKEN:
        if value.shape[:1] != (rows,):
            raise ComponentError(f"node {node.name!r}: {name!r} has shape {tuple(value.shape)}; expected [{rows}]")
        return value
    if tuple(value.shape) not in ((rows, batch.width), (rows, handed)):
        raise ComponentError(
            f"node {node.name!r}: {name!r} has shape {tuple(value.shape)}; expected [{rows}, {batch.width}]"
        )
    # Rows that are left may be shorter than the widest that was handed over.
    value, off = value[:, : batch.width], ~batch["sampled"]
    if column.strict and bool((value[off] != 0).any()):
        row = int((value * off).ne(0).any(dim=1).nonzero()[0])
        raise ComponentError(
            f"node {node.name!r}: {name!r} is not 0 off the sampled tokens (row {row}); "
            f"nothing there can have earned it"
        )
    return torch.where(off, torch.zeros_like(value), value)


# -- sessions: estimators


def call_on_sessions(
    node: Node, component: Component, batch: Batch, taken: tuple[str, ...], scalars: Mapping[str, Any]
) -> dict[str, Any]:
    """Call an estimator with one row per session: scored, sampled tokens only, left-aligned; lay its result back.

    [B] results are spread over the session's sampled tokens; everything else gets 0.
    """
    view, places = session_rows(batch, taken)
    total = batch.tokens_total
    written: dict[str, Any] = {}
    if not len(view):
        return {name: torch.zeros(total) for name in node.writes}
    columns = {**scalars, **{name: view[name] for name in view.names}}
    result = _named(node, _call(node, component, columns))
    for name, value in result.items():
        if not isinstance(value, Tensor) or value.shape not in ((len(view),), (len(view), view.width)):
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ComponentError(
                f"node {node.name!r} ({name_of(component)}): {name!r} is {shape}; expected a tensor with a value for "
                f"each row, [{len(view)}], or for each token, [{len(view)}, {view.width}]"
            )
        flat = value[view.row_of_token] if value.dim() == 1 else value[view.row_of_token, view.place_of_token]
        laid = flat.new_zeros(total) if flat.is_floating_point() else torch.zeros(total)
        laid[places] = flat.to(laid.dtype)
        written[name] = laid
    return written


def session_rows(batch: Batch, taken: tuple[str, ...]) -> tuple[Batch, Tensor]:
    """Return one row per voting session, and where each of its tokens stands in the batch's flat order [M].

    `length` counts sampled tokens, `prompt_length` is 0; a `B` column is the last segment's value, or the sum over the
    parts where the column table says so.
    """
    voting = voting_rows(batch) & _known(batch, taken)
    rows = voting.nonzero().flatten()
    session = batch["session"] if "session" in batch else torch.arange(len(batch))
    segment = batch["segment"] if "segment" in batch else torch.zeros(len(batch), dtype=torch.int64)
    # Order of first appearance keeps rows and results in the batch's own order where sessions have one row.
    unique, inverse = torch.unique(session[rows], return_inverse=True)
    first = torch.full((len(unique),), len(batch), dtype=torch.int64).scatter_reduce(0, inverse, rows, "amin")
    rank = torch.argsort(torch.argsort(first))
    index_of_row = torch.full((len(batch),), -1, dtype=torch.int64)
    index_of_row[rows] = rank[inverse]

    token_rows = batch.row_of_token
    keep = (batch.flat("sampled") & voting[token_rows]).nonzero().flatten()
    key_row = token_rows[keep]
    order = _lexsort(index_of_row[key_row], segment[key_row], batch.place_of_token[keep])
    places = keep[order]
    count = len(unique)
    length = (
        torch.bincount(index_of_row[token_rows[places]], minlength=count)
        if count
        else torch.zeros(0, dtype=torch.int64)
    )
    # The last segment of each session, by its number.
    by_segment = rows[torch.argsort(segment[rows], stable=True)]
    last = torch.zeros(count, dtype=torch.int64)
    last[index_of_row[by_segment]] = by_segment

    columns: dict[str, Any] = {"length": length, "prompt_length": torch.zeros(count, dtype=torch.int64)}
    for name in dict.fromkeys(taken):
        if name not in batch or name in columns:
            continue
        column = batch.table[name]
        if column.dims == TOKEN:
            columns[name] = batch.flat(name)[places]
        elif not column.dims:
            continue
        elif column.dtype == "object":
            columns[name] = [batch[name][i] for i in last.tolist()]
        elif column.over_session == "sum":
            columns[name] = batch[name].new_zeros(count).index_add(0, index_of_row[rows], batch[name][rows])
        else:
            columns[name] = batch[name][last]
    return Batch(columns, table=batch.table), places


def _known(batch: Batch, taken: tuple[str, ...]) -> Tensor:
    """Return [B]: True on rows of sessions in which every number per row that is read is there: NaN has no vote."""
    bad = torch.zeros(len(batch), dtype=torch.bool)
    for name in taken:
        if name in batch and batch.table[name].dims in (ROW, COMPONENTS) and batch.table[name].dtype == "float":
            bad |= torch.isnan(batch[name].reshape(len(batch), -1)).any(dim=1)
    return _without(batch, bad)


def _lexsort(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Return the order by first, then second, then third key; stable."""
    order = torch.argsort(third, stable=True)
    order = order[torch.argsort(second[order], stable=True)]
    return order[torch.argsort(first[order], stable=True)]


# -- filters


def call_filter(
    node: Node, component: Component, batch: Batch, taken: tuple[str, ...], scalars: Mapping[str, Any]
) -> Tensor:
    """Call a filter with raw rows, NaN included; return indices into them, whole groups unless it works per row.

    Raises ComponentError if a group is kept in part.
    """
    columns = {**scalars, **{name: batch[name] for name in taken if name in batch}}
    result = _call(node, component, columns)
    result = getattr(result, "rows", result)
    rows = check_rows(node, result, len(batch))
    if node.per == "group" and rows.numel():
        group = batch["group"]
        kept = torch.zeros(len(batch), dtype=torch.bool)
        kept[rows] = True
        torn = torch.unique(group[~kept & torch.isin(group, group[rows])])
        if torn.numel():
            raise ComponentError(
                f"filter {node.name!r} keeps a part of group {int(torn[0])}; "
                f"it must keep whole groups, or be listed with per='row'"
            )
    return rows


def check_rows(node: Node, value: Any, count: int) -> Tensor:
    """Return indices as int64 [n]. Raises ComponentError for anything else, a boolean mask named as such."""
    rows = _as_indices(node, value)
    rows = rows if rows.numel() else rows.to(torch.int64)
    if rows.dtype == torch.bool or rows.is_floating_point() or rows.is_complex() or rows.dim() != 1:
        hint = "; a mask becomes indices by mask.nonzero().flatten()" if rows.dtype == torch.bool else ""
        raise ComponentError(
            f"node {node.name!r} gave rows of {rows.dtype} {tuple(rows.shape)}; expected int64 indices [n]{hint}"
        )
    if rows.numel() and (int(rows.min()) < 0 or int(rows.max()) >= count):
        raise ComponentError(
            f"node {node.name!r} gave rows between {int(rows.min())} and {int(rows.max())}; it was handed {count}"
        )
    if node.view == "filter" and node.per == "group":
        _refuse_repeats(node, rows)
    return rows.to(torch.int64)


def _as_indices(node: Node, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        found = "None" if value is None else type(value).__name__
        raise ComponentError(f"{node.kind} {node.name!r} gave {found}; expected int64 indices [n]") from None


def _refuse_repeats(node: Node, rows: Tensor) -> None:
    found, times = torch.unique(rows, return_counts=True)
    if bool((times > 1).any()):
        raise ComponentError(
            f"filter {node.name!r} gave row {int(found[times > 1][0])} {int(times.max())} times; one that keeps whole "
            f"groups gives each row once (one that draws rows again does not read `group`)"
        )


# -- shared


def _call(node: Node, component: Component, columns: Mapping[str, Any]) -> Any:
    return call(component, columns, place=f"node {node.name!r}", renamed=node.columns)


def _named(node: Node, result: Any) -> dict[str, Any]:
    """Return a component's result by column name: a NamedTuple, a mapping, or one value for one written column."""
    if isinstance(result, tuple) and hasattr(result, "_asdict"):
        named = {node.columns.get(k, k): v for k, v in result._asdict().items()}
    elif isinstance(result, Mapping):
        named = {node.columns.get(k, k): v for k, v in result.items()}
    elif len(node.writes) == 1:
        named = {node.writes[0]: result}
    else:
        raise ComponentError(
            f"node {node.name!r} writes {', '.join(node.writes)}; "
            f"name them in a NamedTuple, got {type(result).__name__}"
        )
    allowed = {*node.writes, *(name for name in NO_COLUMNS if name == "metrics" or node.rows)}
    if set(named) - allowed or not set(named) >= set(node.writes):
        raise ComponentError(
            f"node {node.name!r} gave {', '.join(named) or 'nothing'}; "
            f"it is declared to write {', '.join(sorted(allowed))}"
        )
    for name, value in named.items():
        if isinstance(value, Tensor) and value.is_complex():
            raise ComponentError(f"node {node.name!r} gave {name!r} as {value.dtype}; expected real numbers")
    return named
