"""Fields of JSON that agree with those expected, and sums that must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from rlcore.data import native, target_of
from rlcore.errors import ConfigError
from rlcore_rewards.numeric import parse_number
from rlcore_rewards.structure.json_text import Where, extract_json, parse_json


class JsonFields:
    """The share of the target's fields that the JSON object in a completion agrees with, if all `sums` come out.

        score = mean over fields of agreement     if every sum agrees, else 0

    Agreement is 1 or 0 for a number, text, boolean or null; the mean over the keys expected for an object; and for a
    list the sum over its items in order by the longer of the two lengths. Numbers agree within `tolerance`, and may
    be written as text ("$1,234.50"); texts agree but for case and the width of spaces. Keys that are not expected do
    not count. No JSON object: 0.

    Of a table that was read off a page, the sum says whether it is all there: with sums={"total": "rows.amount"} the
    numbers `amount` of the object's `rows` must add up to the target's `total`. No rows, or one without a readable
    amount, is a sum that does not agree. A key of `sums` is not a field besides. With sums alone the score is 1 or 0.

    Components: `found`, and for each field and sum its agreement as `field.NAME` and `sum.NAME`.

    Args:
        sums: by the name of a number in the target, the path of the numbers that must add up to it: keys with dots
            between, where a list stands for each of its items.
        tolerance: how far two numbers may be apart, as a share of the one expected.
        where: which JSON of the completion counts (`extract_json`).

    Raises ConfigError for a tolerance or path that cannot be.
    """

    bounded = True  # linear in the length of the text

    def __init__(
        self, *, sums: Mapping[str, str] | None = None, tolerance: float = 1e-9, where: Where = "last"
    ) -> None:
        if not 0 <= tolerance < 1:
            raise ConfigError(f"json_fields: tolerance={tolerance}; allowed: 0 or more, less than 1")
        self.sums = {name: tuple(path.split(".")) for name, path in (sums or {}).items()}
        empty = [name for name, path in self.sums.items() if not all(path)]
        if empty:
            raise ConfigError(f"json_fields: sums.{empty[0]}={'.'.join(self.sums[empty[0]])!r}; expected KEY.KEY")
        self.tolerance = Fraction(str(tolerance))
        self.where: Where = where

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError if the target is no object, or lacks a number that a sum is for."""
        self._read_target(target_of(data))

    def __call__(self, completion: str, target: Any) -> dict[str, Any]:
        """Return the score of one completion. Raises ValueError as `check_row` does."""
        expected = self._read_target(target)
        found = extract_json(completion, where=self.where, of=dict)
        if found is None:
            return {"score": 0.0, "found": 0.0, "extracted": None}
        sums = {name: self._adds_up(found.value, path, expected[name]) for name, path in self.sums.items()}
        fields = {name: self._agreement(found.value, name, expected) for name in expected if name not in self.sums}
        mean = sum(fields.values()) / len(fields) if fields else 1.0
        return {
            "score": mean if all(sums.values()) else 0.0,
            "found": 1.0,
            **{f"field.{name}": value for name, value in fields.items()},
            **{f"sum.{name}": float(agrees) for name, agrees in sums.items()},
            "extracted": found.text,
        }

    def _read_target(self, target: Any) -> dict[str, Any]:
        target = native(target)
        if isinstance(target, str):
            text = parse_json(target.strip())
            target = text.value if text else target
        if not isinstance(target, dict) or not target:
            raise ValueError(f"the target is {target!r:.80}; expected an object of fields, or its JSON text")
        for name in self.sums:
            if name not in target:
                raise ValueError(f"the target has no {name!r}, which a sum is for; it has: {', '.join(target)}")
            parse_number(target[name])
        return target

    def _adds_up(self, found: Any, path: tuple[str, ...], expected: Any) -> bool:
        """Return whether the numbers at a path add up to the one expected; none at all do not."""
        numbers = [as_number(value) for value in values_at(found, path)]
        readable = [number for number in numbers if number is not None]
        return (
            bool(numbers)
            and len(readable) == len(numbers)
            and self._near(sum(readable, Fraction()), parse_number(expected))
        )

    def _near(self, one: Fraction, expected: Fraction) -> bool:
        return abs(one - expected) <= self.tolerance * abs(expected)

    def _agreement(self, found: Any, name: str | int, expected: Any) -> float:
        """Return how far what is found under a key, or at a place, agrees with what is expected there."""
        there = name in found if isinstance(found, dict) else isinstance(name, int) and name < len(found)
        return self._agrees(found[name], expected[name]) if there else 0.0

    def _agrees(self, found: Any, expected: Any) -> float:
        if isinstance(expected, dict | list):
            if type(found) is not type(expected):
                return 0.0
            longest = len(expected) if isinstance(expected, dict) else max(len(found), len(expected))
            names: Iterable[Any] = expected if isinstance(expected, dict) else range(len(expected))
            # Nothing expected, nothing found: an empty list is an answer too.
            return sum(self._agreement(found, name, expected) for name in names) / longest if longest else 1.0
        if isinstance(expected, bool) or expected is None:
            return float(found is expected)
        if isinstance(expected, int | float):
            number = as_number(found)
            return float(number is not None and self._near(number, parse_number(expected)))
        return float(isinstance(found, str | int | float) and fold_text(found) == fold_text(expected))


def as_number(value: Any) -> Fraction | None:
    """Return a value as an exact number, or None if it is none."""
    try:
        return parse_number(value)
    except (ValueError, OverflowError):  # the latter for a whole number beyond every float
        return None


def values_at(found: Any, path: tuple[str, ...]) -> list[Any]:
    """Return everything at a path of keys, with None where one is missing; a list stands for each of its items."""
    if isinstance(found, list):
        return [value for item in found for value in values_at(item, path)]
    if not path:
        return [found]
    return values_at(found.get(path[0]), path[1:]) if isinstance(found, dict) else [None]


def fold_text(value: Any) -> str:
    """Return a text without difference of case and width of spaces."""
    return " ".join(str(value).split()).casefold()
