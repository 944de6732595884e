"""Several data sets as one, in given shares."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.component import bind, name_of, options
from rlcore.data import LazyRows, Row, Rows, columns_of
from rlcore.errors import DataError, RLCoreError
from rlcore.registry import get
from rlcore.seeding import numpy_generator

log = logging.getLogger("rlcore")


def mixture(
    *,
    parts: dict[str, dict[str, Any]] | None = None,
    rows: int = 0,
    seed: int = 0,
    split: Literal["own", "warm", "train", "heldout"] = "own",
) -> Rows | LazyRows:
    """Return rows of several data sets in shares that follow their weights; each row names its part as `mixture`.

    A row without a `data_source` gets the part's name. Which rows of a part are taken, and the order of the whole, are
    drawn from the seed: equal options give equal rows. Rows of a part that are not taken are counted; a part with fewer
    rows than its share gives some of them again, and a warning says how many.

    Args:
        parts: of each part, by a name of yours, `weight` (1), `name` of its data set (`file`) and that one's options:
            `data.parts={sums: {name: arithmetic, weight: 3}, mine: {path: mine.jsonl}}`.
        rows: how many in all; 0 for as many as there can be without giving a row twice, as always for held-out rows.
        seed: of the draw.
        split: `own` as each part's options say; another one is asked of every part, for held-out rows (`eval.data`).

    Raises:
        DataError: no parts, a weight that is not above 0, an unknown data set or option, a split that a part does not
            have or trains on, or a part without rows.
    """
    if not parts:
        example = "data.parts={mine: {path: mine.jsonl, weight: 3}, sums: {name: arithmetic}}"
        raise DataError(f"data=mixture needs data.parts, such as {example}")
    if rows < 0:
        raise DataError(f"data=mixture: rows={rows}; expected 0 (as many as there are) or more")
    weights = {name: parse_weight(name, part) for name, part in parts.items()}
    datasets = {name: load_part(name, part, split) for name, part in parts.items()}
    # A length is one of training: of a problem that is graded twice nothing more is learnt.
    total = 0 if split == "heldout" else rows
    counts = row_counts(weights, {name: len(of) for name, of in datasets.items()}, total)
    which_rows = "rows" if split == "own" else f"{split} rows"
    places = np.concatenate([choose_rows(name, len(datasets[name]), counts[name], seed, which_rows) for name in parts])
    which = np.repeat(np.arange(len(parts)), [counts[name] for name in parts])
    order = numpy_generator(seed, "mixture").permutation(len(places))
    left_over = {f"of {name} left over": max(len(datasets[name]) - counts[name], 0) for name in parts}
    mixed = LazyRows(
        MixedRows(tuple(datasets), tuple(datasets.values()), which, places),
        order,
        lambda index, row: dict(row),
        columns=mixture_columns(list(datasets.values())),
        counts=left_over,
    )
    return mixed if any(isinstance(of, LazyRows) for of in datasets.values()) else Rows(mixed, counts=left_over)


@dataclass(frozen=True)
class MixedRows:
    """Rows by their place in the mixture: which part each is of, and where it stands there."""

    names: tuple[str, ...]
    parts: tuple[Sequence[Row], ...]
    which: NDArray[np.int64]
    places: NDArray[np.int64]

    def get(self, index: int) -> Row:
        """Return one row."""
        part = int(self.which[index])
        name = self.names[part]
        row = {"data_source": name, **self.parts[part][int(self.places[index])], "mixture": name}
        return row if row["data_source"] else {**row, "data_source": name}


def mixture_columns(parts: Sequence[Sequence[Row]]) -> tuple[str, ...]:
    """Return every column of any part, and the two that the mixture gives."""
    named = [part.columns if isinstance(part, LazyRows) else columns_of(part) for part in parts]
    return tuple(dict.fromkeys(("data_source", *(column for some in named for column in some), "mixture")))


def parse_weight(name: str, part: Mapping[str, Any]) -> Fraction:
    """Return a part's weight, exactly as written. Raises DataError unless it is a number above 0."""
    weight = part.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise DataError(f"data.parts.{name}.weight={weight!r}; expected a number above 0")
    return Fraction(str(weight))


def load_part(name: str, part: Mapping[str, Any], split: str) -> Rows | LazyRows:
    """Return the rows of a part, of its own split or another. Raises DataError naming the part."""
    given = {key: value for key, value in part.items() if key not in ("weight", "name")}
    try:
        dataset = bind(get("dataset", part.get("name", "file")), **given)
        if split != "own":
            own = options(dataset).get("split")
            if own is None or split not in getattr(own.annotation, "__args__", ()):
                raise DataError(f"{name_of(dataset)} has no split {split!r}")
            if own.default == "all":
                raise DataError(
                    f"it trains on all its rows, {split} ones among them; set data.parts.{name}.split=train"
                )
            dataset = bind(dataset, split=split)
        rows = dataset()
    except RLCoreError as error:
        raise type(error)(f"data.parts.{name}: {error}") from error
    if not len(rows):
        raise DataError(f"data.parts.{name}: no rows")
    return rows if isinstance(rows, LazyRows) else Rows(rows)


def row_counts(weights: Mapping[str, Fraction], have: Mapping[str, int], rows: int) -> dict[str, int]:
    """Return how many rows of each part, by largest remainder; without a total the most that repeats no row.

    Raises:
        DataError: a part would get none.
    """
    whole = sum(weights.values(), Fraction())
    shares = {name: weight / whole for name, weight in weights.items()}
    total = rows or min(int(have[name] / share) for name, share in shares.items())
    exact = {name: share * total for name, share in shares.items()}
    counts = {name: int(size) for name, size in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    none = [name for name, count in counts.items() if not count]
    if none:
        raise DataError(f"data=mixture: of {total} rows none is of part {none[0]!r}; raise its weight, or rows")
    return counts


def choose_rows(name: str, have: int, count: int, seed: int, rows: str) -> NDArray[np.int64]:
    """Return [count] places of the rows that a part gives, drawn without repeats until all rows were drawn once.

    `rows` names the rows in the warning about repeats.
    """
    if count > have:
        log.warning(
            "data=mixture: part %s has %d %s and gives %d, so that %d repeat", name, have, rows, count, count - have
        )
    passes = -(-count // have)
    drawn = [numpy_generator(seed, "mixture", name, number).permutation(have) for number in range(passes)]
    return np.concatenate(drawn)[:count]
