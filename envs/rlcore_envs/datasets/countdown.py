"""Countdown, made on the fly: reach a target from a few numbers, using each once with + - *."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from rlcore.data import DrawnRows, Row
from rlcore.errors import DataError
from rlcore.seeding import stream
from rlcore_envs.datasets.seeded_tasks import SIGNS, TaskSplit, drawn_rows, evaluate_terms, split_of_text

LARGEST_TARGET = 99
# So many draws without a new row mean that there are no more, or next to none.
PATIENCE = 2000


@dataclass(frozen=True)
class CountdownProblem:
    """Numbers in the order in which they are shown, and the target; `solution` is one way to it, of often many."""

    numbers: tuple[int, ...]
    target: int
    solution: str

    @property
    def prompt(self) -> str:
        """Return the text that a model is given: "3 7 2 -> 19: "."""
        return f"{' '.join(map(str, self.numbers))} -> {self.target}: "


def countdown(
    *,
    split: TaskSplit = "train",
    rows: int = 4096,
    seed: int = 0,
    count: int = 3,
    largest: int = 20,
    careless: float = 0.0,
) -> DrawnRows:
    """Return rows such as `{"prompt": "3 7 2 -> 19: ", "target": 19, "numbers": [3, 7, 2], "kind": "expression"}`.

    Every problem can be solved without brackets. No prompt stands twice in a split (in `warm`, none with the same
    completion), and no problem in two splits whatever their seeds: see `split_of_problem`.

    Args:
        split: `warm` rows have a `completion`, a demonstration for supervised training.
        rows: how many.
        seed: of the draw; equal options give equal rows.
        count: numbers in a problem.
        largest: each is drawn from 1 to this.
        careless: share of demonstrations that use the numbers once but do not look at the target.

    Raises:
        DataError: an option out of its range; and, as rows are drawn, more rows than there are problems.
    """
    if rows < 1 or count < 2 or largest < 1 or not 0 <= careless <= 1:
        raise DataError(
            f"data=countdown needs rows >= 1, count >= 2, largest >= 1 and careless from 0 to 1; found rows={rows},"
            f" count={count}, largest={largest}, careless={careless}"
        )
    generator = random.Random(stream(seed, "countdown", split))

    def draws() -> Iterator[tuple[str, Row]]:
        for problem in problems(generator, split, count=count, largest=largest):
            row: Row = {
                "prompt": problem.prompt,
                "target": problem.target,
                "numbers": list(problem.numbers),
                "kind": "expression",
                "data_source": "countdown",
            }
            if split == "warm":
                row["completion"] = demonstration(problem, generator, careless)
            yield problem.prompt + row.get("completion", ""), row

    raise_ = f"count={count} or largest={largest}"
    return drawn_rows(draws(), name="countdown", split=split, rows=rows, raise_=raise_, patience=PATIENCE)


def problems(generator: random.Random, split: TaskSplit, *, count: int, largest: int) -> Iterator[CountdownProblem]:
    """Yield problems of a split until `PATIENCE` draws give none: uniform numbers, a target by random signs."""
    misses = 0
    while misses < PATIENCE:
        numbers = tuple(generator.randint(1, largest) for _ in range(count))
        solution, target = random_expression(numbers, generator)
        if 1 <= target <= LARGEST_TARGET and split_of_problem(numbers, target) == split:
            misses = 0
            yield CountdownProblem(numbers, target, solution)
        else:
            misses += 1


def split_of_problem(numbers: tuple[int, ...], target: int) -> TaskSplit:
    """Return the split that a problem belongs to, whatever the order of its numbers and the way to its target.

    The text "2,3,7=19" (numbers sorted) decides, as `split_of_text` says.
    """
    return split_of_text(f"{','.join(map(str, sorted(numbers)))}={target}")


def demonstration(problem: CountdownProblem, generator: random.Random, careless: float) -> str:
    """Return the solution or, for the careless share, an expression of the numbers that seldom meets the target."""
    return random_expression(problem.numbers, generator)[0] if generator.random() < careless else problem.solution


def random_expression(numbers: tuple[int, ...], generator: random.Random) -> tuple[str, int]:
    """Return an expression of the numbers in random order with random signs between them, and its value."""
    order = generator.sample(numbers, len(numbers))
    signs = [generator.choice(SIGNS) for _ in order[1:]]
    text = str(order[0]) + "".join(f"{sign}{number}" for sign, number in zip(signs, order[1:], strict=True))
    return text, evaluate_terms(order, signs)
