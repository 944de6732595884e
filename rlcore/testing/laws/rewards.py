"""Laws of rewards and reward managers: they give a score for any completion, and one failure affects one row."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlcore.component import options, source_of, started
from rlcore.errors import RewardError
from rlcore.protocols import Graded, Sample
from rlcore.services import start
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
    """Return what a reward gives for one completion, called by parameter names as in a run; coroutines are awaited.

    One that takes `completions` is asked about a list of one.
    """
    prompt, messages = "What is 3 + 4?", [{"role": "user", "content": "What is 3 + 4?"}]
    known: dict[str, Any] = {
        "prompt": prompt,
        "messages": messages,
        "data_source": "conformity",
        "extra_info": {},
        **dict.fromkeys(_TEXTS, completion),
        **dict.fromkeys(_TARGETS, target),
    }
    parameters = inspect.signature(reward).parameters
    many = "completions" in parameters
    if many:
        known = {name: [value] for name, value in known.items()} | {"prompts": [prompt], "completions": [completion]}
    arguments = {}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if name in known:
            arguments[name] = known[name]
        elif parameter.default is parameter.empty:
            arguments[name] = ["7"] if many else "7"
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        arguments = known | arguments
    result = reward(**arguments)
    result = asyncio.run(result) if inspect.isawaitable(result) else result  # type: ignore[arg-type]
    if many:
        assert len(result) == 1, f"{len(result)} scores for one completion"
        return result[0]
    return result


@contextlib.contextmanager
def started_reward(reward: Component) -> Iterator[Component]:
    """Yield what a run calls: an instance of a class, which is closed in the end, or the function itself."""
    factory = started(reward)
    try:
        yield factory
    finally:
        if factory is not reward:
            getattr(factory, "close", lambda: None)()


def rewards_return_a_score(reward: Component) -> None:
    """A finite number, None for "does not apply", or a mapping with `score`; `extracted` is text or None."""
    with started_reward(reward) as factory:
        for completion in ("7", "The answer is 7.", "no idea", ""):
            result = call(factory, completion)
            score = result["score"] if isinstance(result, Mapping) else result
            assert score is None or isinstance(score, int | float), f"{completion!r} scores {score!r}"
            assert score is None or math.isfinite(score), f"{completion!r} scores {score}"
            read = result.get("extracted") if isinstance(result, Mapping) else None
            assert read is None or isinstance(read, str), f"{completion!r}: extracted is {type(read).__name__}, no text"


def rewards_refuse_rows_by_value_errors(reward: Component) -> None:
    """A reward that checks rows says by a ValueError, and by nothing else, which row it cannot grade."""
    if getattr(source_of(reward), "check_row", None) is None:
        return
    targets: tuple[Any, ...] = (None, "", [], "7", "\x00", 7, float("nan"), {})
    with started_reward(reward) as factory:
        for target in targets:
            try:
                _row_check(factory)({"prompt": "What is 3 + 4?", "target": target})
            except ValueError:
                continue
            except Exception as error:
                raise AssertionError(f"raises {type(error).__name__} for the target {target!r}: {error}") from error


def _row_check(factory: Component) -> Callable[[Mapping[str, Any]], None]:
    check: Callable[[Mapping[str, Any]], None] = getattr(factory, "check_row", None) or source_of(factory).check_row
    return check


def rewards_never_raise_on_hostile_text(reward: Component) -> None:
    """Whatever a policy writes is scored or does not apply; an exception would unscore the row."""
    with started_reward(reward) as factory:
        for text in HOSTILE:
            try:
                call(factory, text)
            except Exception as error:
                raise AssertionError(f"raises {type(error).__name__} on {text[:40]!r}: {error}") from error


def rewards_are_deterministic(reward: Component) -> None:
    """The same completion has the same score, every time."""
    with started_reward(reward) as factory:
        for text in ("7", "The answer is \\boxed{7}.", *HOSTILE[:6]):
            first, second = call(factory, text), call(factory, text)
            assert repr(first) == repr(second), f"{text[:40]!r} scores {first!r}, then {second!r}"


# -- managers: `factory(reward)` starts one


def _samples(*completions: str) -> list[Sample]:
    return [Sample("2 + 2 =", text, None, {}) for text in completions]


def _rewards() -> dict[str, Any]:
    """Return rewards to try managers with, defined here so that they are pickled by value and not by this file."""

    def number(completion: str) -> float:
        return float(completion)

    def half(completion: str) -> float:
        return 0.5

    def nothing(completion: str) -> None:
        return None

    def slow(completion: str) -> float:
        if completion == "slow":
            time.sleep(_SLOW)
        return float(completion != "slow")

    async def slow_and_asynchronous(completion: str) -> float:
        if completion == "slow":
            await asyncio.sleep(_SLOW)
        return float(completion != "slow")

    named = {"number": number, "half": half, "nothing": nothing}
    return {**named, "slow": slow, "slow and asynchronous": slow_and_asynchronous}


_SLOW, _LIMIT = 3.0, 1.0


def _score(factory: Component, reward: Any, samples: list[Sample]) -> list[Graded]:
    manager = start("reward_manager", factory, reward)
    try:
        return list(manager.score(samples))
    finally:
        manager.close()


def managers_keep_the_order(factory: Component) -> None:
    """One grade per sample, in order, none of none, and the same again."""
    samples, number = _samples("0.25", "0.5", "0.75"), _rewards()["number"]
    grades = _score(factory, number, samples)
    assert [grade.score for grade in grades] == [0.25, 0.5, 0.75], f"{[grade.score for grade in grades]}"
    assert [grade.score for grade in _score(factory, number, samples[::-1])] == [0.75, 0.5, 0.25]
    assert _score(factory, number, []) == []


def managers_keep_a_failure_to_its_row(factory: Component) -> None:
    """A reward that raises, or gives what is not finite, unscores its own row and says why."""
    grades = _score(factory, _rewards()["number"], _samples("0.5", "x", "nan", "0.25", "0.5", "0.5", "0.5", "0.5"))
    scores = [grade.score for grade in grades]
    assert math.isnan(scores[1]), f"a reward that raised scores {scores[1]}"
    assert math.isnan(scores[2]), f"a reward of NaN scores {scores[2]}"
    assert scores[:1] + scores[3:] == [0.5, 0.25, 0.5, 0.5, 0.5, 0.5], f"other rows score {scores}"
    assert grades[1].error, "the failed row has no error"
    assert not grades[0].error, "a scored row has an error"


def managers_tell_unscored_from_0(factory: Component) -> None:
    """A reward that does not apply (None) leaves the row unscored, without an error."""
    try:
        (grade,) = _score(factory, _rewards()["nothing"], _samples("0.5"))
    except RewardError:
        # It may also refuse a reward that never applies.
        return
    assert math.isnan(grade.score), f"None scores {grade.score}"


def managers_stop_what_takes_too_long(factory: Component) -> None:
    """Where a manager has a limit (`seconds`), a reward past it unscores its own row; the others keep their order."""
    if "seconds" not in options(factory):
        return
    for name in ("slow", "slow and asynchronous"):
        limited = functools.partial(factory, seconds=_LIMIT)
        grades = _score(limited, _rewards()[name], _samples("0", "slow", "1", "2"))
        scores = [grade.score for grade in grades]
        assert math.isnan(scores[1]), f"a {name} reward scores {scores[1]} after {_SLOW:g} s, the limit is {_LIMIT:g} s"
        assert grades[1].error, f"the row of a {name} reward has no error"
        assert scores[:1] + scores[2:] == [1.0, 1.0, 1.0], f"other rows score {scores}"


def managers_keep_a_failing_part_apart(factory: Component) -> None:
    """Of several rewards, one that does not apply is left out of the sum, and one that fails unscores its rows only.

    A manager that takes one reward (the protocol asks for no more) is not judged.
    """
    rewards = _rewards()
    try:
        manager = factory({"first": rewards["half"], "never": rewards["nothing"], "second": rewards["number"]})
    except (TypeError, ValueError):
        return  # it takes one reward
    try:
        grades = manager.score(_samples("0.5", "x", *["0.25"] * 8))
    except TypeError:
        return  # it takes one reward, and looked at it no earlier than it called it
    finally:
        manager.close()
    if all(grade.error for grade in grades):
        return  # likewise, with its failure isolated
    assert grades[0].score == 1.0, f"0.5 and 0.5 beside a reward that does not apply sum up to {grades[0].score}"
    assert math.isnan(grades[1].score), f"a row of which a reward raised scores {grades[1].score}"
    assert grades[1].error, "a row of which a reward raised has no error"
    found = dict(grades[0].components)
    assert found == {"first": 0.5, "second": 0.5}, f"the score components are {found}"
