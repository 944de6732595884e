"""From what a judge said to a number: one in the range, or an error that says why not."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from rlcore.errors import ConfigError, RewardError

Form = Literal["number", "json"]
Read = tuple[float, str]
"""A score, and the piece of the answer that it was read from."""

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)"
# The whole line, so that "Score: 80%" or "Score: 7 or 8" is no score.
SCORE = re.compile(
    rf"^[ \t*_#>-]*score[ \t*_]*[:=][ \t*_]*(?P<score>{NUMBER})(?:[ \t]*/[ \t]*(?P<of>{NUMBER}))?[ \t*_.]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)


class NoScoreError(RewardError):
    """An answer that holds no score in the range."""


def compiled(pattern: str) -> re.Pattern[str] | None:
    """A pattern of the user's own with one group, the number; None for none. Raises ConfigError for another one."""
    if not pattern:
        return None
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"reward.pattern={pattern!r} is no regular expression: {error}") from None
    if found.groups != 1:
        raise ConfigError(f"reward.pattern={pattern!r} has {found.groups} groups; expected one, around the number")
    return found


@dataclass(frozen=True)
class ScoreReader:
    """How a judge has to give its score, and how it is read: the options are those of `Judge`.

    Raises:
        ConfigError: a pattern that is no regular expression with one group.
    """

    form: Form
    field: str
    pattern: str
    lowest: float
    highest: float

    def __post_init__(self) -> None:
        compiled(self.pattern)

    @property
    def instruction(self) -> str:
        """What a judge is told of the form of its answer; nothing where a pattern is set: its template says it."""
        if self.pattern:
            return ""
        of = f"a number from {self.lowest:g} (worst) to {self.highest:g} (best)"
        if self.form == "json":
            return f'Say briefly why, then end with a JSON object {{"{self.field}": X}} where X is {of}.'
        return f"Say briefly why, then end with a line `Score: X` where X is {of}."

    def read(self, answer: str) -> Read:
        """The score: of several in an answer the last one, but none of what was thought before `</think>`.

        Raises:
            NoScoreError: there is none, or it is out of the range.
        """
        said = answer.rpartition("</think>")[2]
        if "<think>" in said:
            raise NoScoreError("the answer ends while the judge is thinking")
        own = compiled(self.pattern)
        number, piece = of_json(said, self.field) if self.form == "json" else of_pattern(said, own, self.highest)
        # Written so that NaN is outside too.
        if not self.lowest <= number <= self.highest:
            raise NoScoreError(f"the score {piece!r:.40} is not from {self.lowest:g} to {self.highest:g}")
        return number, piece


def of_pattern(text: str, own: re.Pattern[str] | None, highest: float) -> Read:
    """The last number that the pattern finds."""
    found = list((own or SCORE).finditer(text))
    if not found:
        raise NoScoreError(f"nothing matches {own.pattern!r}" if own else "no line `Score: NUMBER`")
    last = found[-1]
    if own is None and last["of"] is not None and float(last["of"]) != highest:
        raise NoScoreError(f"a score out of {last['of']}, asked for was one up to {highest:g}")
    return number_of(last[1]), last[0].strip()


def of_json(text: str, field: str) -> Read:
    """The field of the last JSON object that has it."""
    decoder = json.JSONDecoder()
    start = text.rfind("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and field in value:
            return number_of(value[field]), json.dumps(value[field], ensure_ascii=False)
        start = text.rfind("{", 0, start)
    raise NoScoreError(f"no JSON object with a field {field!r}")


def number_of(value: Any) -> float:
    """A number, or a text that is one, as a finite float."""
    if isinstance(value, str) and re.fullmatch(NUMBER, value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NoScoreError(f"{value!r:.40} is no number")
    return float(value)
