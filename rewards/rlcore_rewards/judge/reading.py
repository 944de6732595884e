"""The score in a judge's answer: a number in the range, or an error that says why there is none."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from rlcore.errors import RewardError

ScoreText = tuple[float, str]
"""A score, and the piece of the answer that it was read from."""

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)"
# The whole line, so that "Score: 80%" or "Score: 7 or 8" is no score.
SCORE = re.compile(
    rf"^[ \t*_#>-]*score[ \t*_]*[:=][ \t*_]*(?P<score>{NUMBER})(?:[ \t]*/[ \t]*(?P<of>{NUMBER}))?[ \t*_.]*\r?$",
    re.IGNORECASE | re.MULTILINE,
)


class NoScoreError(RewardError):
    """An answer that holds no score in the range."""


@dataclass(frozen=True)
class ScoreReader:
    """The instruction that asks a judge for a score, and the reader of its answer: from `lowest` to `highest`."""

    lowest: float
    highest: float

    @property
    def instruction(self) -> str:
        """Return what a judge is asked to end its answer with."""
        return (
            f"Say briefly why, then end with a line `Score: X` where X is a number from {self.lowest:g} (worst) to"
            f" {self.highest:g} (best)."
        )

    def read(self, answer: str) -> ScoreText:
        """Return the score: the last line `Score: X`, else the field `score` of the last JSON object that has it.

        What was thought before `</think>` is no part of the answer.

        Raises:
            NoScoreError: there is none, or it is out of the range.
        """
        final = answer.rpartition("</think>")[2]
        if "<think>" in final:
            raise NoScoreError("the answer ends while the judge is thinking")
        number, piece = score_in_line(final, self.highest) or score_in_json(final)
        # Written so that NaN is outside too.
        if not self.lowest <= number <= self.highest:
            raise NoScoreError(f"the score {piece!r:.40} is not from {self.lowest:g} to {self.highest:g}")
        return number, piece


def score_in_line(text: str, highest: float) -> ScoreText | None:
    """Return the score of the last line `Score: X`, or None without one. Raises NoScoreError for `X/Y` of another Y."""
    found = list(SCORE.finditer(text))
    if not found:
        return None
    last = found[-1]
    if last["of"] is not None and float(last["of"]) != highest:
        raise NoScoreError(f"a score out of {last['of']}, asked for was one up to {highest:g}")
    return parse_score(last["score"]), last[0].strip()


def score_in_json(text: str) -> ScoreText:
    """Return the field `score` of the last JSON object that has it. Raises NoScoreError if there is none."""
    decoder = json.JSONDecoder()
    start = text.rfind("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and "score" in value:
            return parse_score(value["score"]), json.dumps(value["score"], ensure_ascii=False)
        start = text.rfind("{", 0, start)
    raise NoScoreError("no line `Score: NUMBER`")


def parse_score(value: Any) -> float:
    """Return a number, or a text that is one, as a finite float. Raises NoScoreError for anything else."""
    if isinstance(value, str) and re.fullmatch(NUMBER, value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NoScoreError(f"{value!r:.40} is no number")
    return float(value)
