"""Laws of rewards and reward managers: nothing that a policy writes may break them."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Mapping
from typing import Any

from rlcore.errors import RewardError
from rlcore.protocols import Graded, Sample
from rlcore.testing.laws.inputs import Component

HOSTILE = (
    "",
    " \n\t",
    "\x00\x07\ud800",
    "}{" * 200,
    "\\boxed{" * 300,
    "\\boxed{}" + "{" * 50,
    "9" * 4000,
    "1e999999999",
    "-inf nan 1/0",
    "(" * 500 + "1" + ")" * 500,
    "2**2**2**2**2**2",
    "__import__('os').getcwd()",
    "<think>" * 100 + "</answer>",
    "\uff05\uff15\u202e42 \u0664\u0662",
    "7\n" * 2000,
)
"""What a policy may write: nothing, control characters, deep nesting, huge numbers, code."""
_TEXTS = ("completion", "solution_str")
_TARGETS = ("target", "ground_truth")


def call(reward: Component, completion: str, target: str = "7") -> Any:
    """A reward's answer to one completion, as a run would ask it by parameter names; coroutines are awaited."""
    known: dict[str, Any] = {
        "prompt": "What is 3 + 4?",
        "messages": [{"role": "user", "content": "What is 3 + 4?"}],
        "data_source": "conformity",
        "extra_info": {},
        **dict.fromkeys(_TEXTS, completion),
        **dict.fromkeys(_TARGETS, target),
    }
    given = {}
    for name, parameter in inspect.signature(reward).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if name in known:
            given[name] = known[name]
        elif parameter.default is parameter.empty:
            given[name] = "7"
    result = reward(**given)
    return asyncio.run(result) if inspect.isawaitable(result) else result  # type: ignore[arg-type]


def rewards_return_a_score(reward: Component) -> None:
    """A number, None for "does not apply", or a mapping with `score`; nothing infinite."""
    for completion in ("7", "The answer is 7.", "no idea", ""):
        result = call(reward, completion)
        score = result["score"] if isinstance(result, Mapping) else result
        assert score is None or isinstance(score, int | float), f"{completion!r} scores {score!r}"
        assert score is None or not math.isinf(score), f"{completion!r} scores {score}"


def rewards_never_raise_on_hostile_text(reward: Component) -> None:
    """Whatever a policy writes is scored or does not apply; an exception would unscore the row."""
    for text in HOSTILE:
        try:
            call(reward, text)
        except Exception as error:
            raise AssertionError(f"raises {type(error).__name__} on {text[:40]!r}: {error}") from error


def rewards_are_deterministic(reward: Component) -> None:
    """The same completion has the same score, every time."""
    for text in ("7", "The answer is \\boxed{7}.", *HOSTILE[:6]):
        first, second = call(reward, text), call(reward, text)
        assert repr(first) == repr(second), f"{text[:40]!r} scores {first!r}, then {second!r}"


# -- managers: `made(reward)` starts one


def _samples(*completions: str) -> list[Sample]:
    return [Sample("2 + 2 =", text, None, {}) for text in completions]


def _number(completion: str) -> float:
    """The completion as a number; raises for anything else."""
    return float(completion)


def _nothing(completion: str) -> None:
    """None: it never applies."""


def _score(made: Component, reward: Component, samples: list[Sample]) -> list[Graded]:
    manager = made(reward)
    try:
        return list(manager.score(samples))
    finally:
        getattr(manager, "close", lambda: None)()


def managers_keep_the_order(made: Component) -> None:
    """One grade per sample, in order, none of none, and the same again."""
    samples = _samples("0.25", "0.5", "0.75")
    grades = _score(made, _number, samples)
    assert [grade.score for grade in grades] == [0.25, 0.5, 0.75], f"{[grade.score for grade in grades]}"
    assert [grade.score for grade in _score(made, _number, samples[::-1])] == [0.75, 0.5, 0.25]
    assert _score(made, _number, []) == []


def managers_keep_a_failure_to_its_row(made: Component) -> None:
    """A reward that raises, or gives what is not finite, unscores its own row and says why."""
    grades = _score(made, _number, _samples("0.5", "x", "nan", "0.25", "0.5", "0.5", "0.5", "0.5"))
    scores = [grade.score for grade in grades]
    assert math.isnan(scores[1]), f"a reward that raised scores {scores[1]}"
    assert math.isnan(scores[2]), f"a reward of NaN scores {scores[2]}"
    assert scores[:1] + scores[3:] == [0.5, 0.25, 0.5, 0.5, 0.5, 0.5], f"other rows score {scores}"
    assert grades[1].error, "the failed row has no error"
    assert not grades[0].error, "a scored row has an error"


def managers_tell_unscored_from_0(made: Component) -> None:
    """A reward that does not apply (None) leaves the row unscored, without an error."""
    try:
        (grade,) = _score(made, _nothing, _samples("0.5"))
    except RewardError:
        # It may also refuse a reward that never applies.
        return
    assert math.isnan(grade.score), f"None scores {grade.score}"
