"""Small tasks made from a seed, of chosen difficulty: arithmetic, sorting, counting letters.

No problem stands in two splits, whatever their seeds; each row has its `difficulty`, for curricula.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

from rlcore.data import DrawnRows, Row
from rlcore.errors import DataError
from rlcore.seeding import stream
from rlcore_envs.datasets.seeded_tasks import SIGNS, TaskSplit, check_range, draw_rows, evaluate_terms


def arithmetic(
    *,
    split: TaskSplit = "train",
    rows: int = 4096,
    seed: int = 0,
    shortest: int = 2,
    longest: int = 3,
    digits: int = 2,
    signs: str = "+-",
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> DrawnRows:
    """Return rows such as `{"prompt": "12 + 7 - 3 = ", "target": 16, "difficulty": 3}`; `numeric_answer` grades them.

    Problems with the same numbers and signs, in any order, are on one side of the split.

    Args:
        split: of the problems; `warm` rows have a `completion`, the answer.
        rows: how many.
        seed: of the draw; equal options give equal rows.
        shortest: numbers of the shortest problem, from 2.
        longest: numbers of the longest one. A row's `difficulty` is its count of numbers.
        digits: each number has from 1 to so many digits.
        signs: which of + - * stand between numbers; products first, as usual.
        system_prompt: a system message; makes each prompt a conversation.
        template: a text with `{prompt}` where the problem goes.
        chat: make each prompt a conversation without a system message.

    Raises:
        DataError: an option out of its range; and, as rows are drawn, more rows than there are problems.
    """
    check_range("arithmetic", shortest=(shortest, 2, longest), longest=(longest, 2, 64), digits=(digits, 1, 18))
    if not signs or set(signs) - set(SIGNS):
        raise DataError(f"data=arithmetic: signs={signs!r}; expected some of {' '.join(SIGNS)}")
    generator = random.Random(stream(seed, "arithmetic", split))

    def problems() -> Iterator[tuple[str, Row]]:
        while True:
            numbers = [random_number(generator, digits) for _ in range(generator.randint(shortest, longest))]
            between = [generator.choice(signs) for _ in numbers[1:]]
            text = str(numbers[0]) + "".join(f" {s} {n}" for s, n in zip(between, numbers[1:], strict=True))
            key = f"{sorted(numbers)}{sorted(between)}"
            yield key, to_row(f"{text} = ", evaluate_terms(numbers, between), len(numbers), "arithmetic", split)

    form = {"system_prompt": system_prompt, "template": template, "chat": chat}
    raise_ = "longest or digits"
    return draw_rows(problems(), name="arithmetic", split=split, rows=rows, raise_=raise_, prompt_format=form)


def sorting(
    *,
    split: TaskSplit = "train",
    rows: int = 4096,
    seed: int = 0,
    shortest: int = 3,
    longest: int = 6,
    digits: int = 2,
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> DrawnRows:
    """Return rows such as `{"prompt": "Sort, ...: 17, 3, 9", "target": "3, 9, 17"}`; `exact_answer` grades them.

    Lists with the same numbers are on one side of the split. `difficulty` is the length of the list.

    Args:
        split: of the problems; `warm` rows have a `completion`, the answer.
        rows: how many.
        seed: of the draw; equal options give equal rows.
        shortest: numbers of the shortest list, from 2.
        longest: numbers of the longest one, which are all different.
        digits: each number has from 1 to so many digits.
        system_prompt: a system message; makes each prompt a conversation.
        template: a text with `{prompt}` where the problem goes.
        chat: make each prompt a conversation without a system message.

    Raises:
        DataError: an option out of its range; and, as rows are drawn, more rows than there are problems.
    """
    most = 10**digits // 2 if 1 <= digits <= 18 else 2
    check_range(
        "sorting", digits=(digits, 1, 18), shortest=(shortest, 2, longest), longest=(longest, 2, min(most, 256))
    )
    generator = random.Random(stream(seed, "sorting", split))

    def problems() -> Iterator[tuple[str, Row]]:
        while True:
            count = generator.randint(shortest, longest)
            numbers: dict[int, None] = {}
            while len(numbers) < count:
                numbers[random_number(generator, digits)] = None
            answer, shown = (", ".join(map(str, some)) for some in (sorted(numbers), numbers))
            prompt = f"Sort, smallest first, and answer with the numbers alone, separated by commas: {shown}"
            yield answer, to_row(prompt, answer, count, "sorting", split)

    form = {"system_prompt": system_prompt, "template": template, "chat": chat}
    raise_ = "longest or digits"
    return draw_rows(problems(), name="sorting", split=split, rows=rows, raise_=raise_, prompt_format=form)


def letter_counting(
    *,
    split: TaskSplit = "train",
    rows: int = 4096,
    seed: int = 0,
    shortest: int = 4,
    longest: int = 10,
    letters: int = 6,
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
) -> DrawnRows:
    """Return rows such as `{"prompt": "How often does ... a ... banana?", "target": 3}`; `numeric_answer` grades them.

    Words are random letters. All questions about one word are on one side of the split. `difficulty` is its length.

    Args:
        split: of the problems; `warm` rows have a `completion`, the answer.
        rows: how many.
        seed: of the draw; equal options give equal rows.
        shortest: letters of the shortest word.
        longest: letters of the longest one.
        letters: a word is made of at most so many different ones: the fewer, the more often each stands in it.
        system_prompt: a system message; makes each prompt a conversation.
        template: a text with `{prompt}` where the problem goes.
        chat: make each prompt a conversation without a system message.

    Raises:
        DataError: an option out of its range; and, as rows are drawn, more rows than there are problems.
    """
    check_range(
        "letter_counting", shortest=(shortest, 1, longest), longest=(longest, 1, 1024), letters=(letters, 1, 26)
    )
    generator = random.Random(stream(seed, "letter_counting", split))

    def problems() -> Iterator[tuple[str, Row]]:
        while True:
            own = generator.sample(string.ascii_lowercase, letters)
            word = "".join(generator.choice(own) for _ in range(generator.randint(shortest, longest)))
            asked = generator.choice(own)  # perhaps not in the word at all
            prompt = f"How often does the letter {asked} stand in the word {word}? Answer with the number."
            yield word, to_row(prompt, word.count(asked), len(word), "letter_counting", split)

    form = {"system_prompt": system_prompt, "template": template, "chat": chat}
    raise_ = "longest or letters"
    return draw_rows(problems(), name="letter_counting", split=split, rows=rows, raise_=raise_, prompt_format=form)


def to_row(prompt: str, target: int | str, difficulty: int, source: str, split: TaskSplit) -> Row:
    """Return a problem as a row; a warm one shows its answer."""
    row: Row = {"prompt": prompt, "target": target, "difficulty": difficulty, "data_source": source}
    return {**row, "completion": str(target)} if split == "warm" else row


def random_number(generator: random.Random, digits: int) -> int:
    """Return a number of 1 to so many digits, each count of digits as likely."""
    return generator.randrange(10 ** generator.randint(1, digits))
