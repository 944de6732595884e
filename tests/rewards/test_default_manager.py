import asyncio
import functools
import math
import threading
import time

import numpy as np
import pytest

from rlcore.errors import ConfigError, RewardError
from rlcore.protocols import RewardManager, Sample
from rlcore.registry import get
from rlcore_rewards.managers import DefaultManager
from rlcore_rewards.numeric import numeric_answer


def sample(completion="4", prompt="2+2=", messages=None, **data):
    return Sample(prompt, completion, messages, data or {"target": "4"})


def scores(manager, samples):
    return [None if math.isnan(one.score) else one.score for one in manager.score(samples)]


def test_it_is_a_reward_manager_and_keeps_the_order():
    def slow_first(completion):
        time.sleep(0.02 if completion == "0" else 0)
        return int(completion)

    manager = DefaultManager(slow_first)
    assert isinstance(manager, RewardManager)
    assert scores(manager, [sample(str(i)) for i in range(20)]) == list(range(20))
    manager.close()
    assert manager.score([]) == []


def test_parameters_are_filled_by_name():
    seen = {}

    def reward(
        solution_str,
        completion,
        ground_truth,
        target,
        prompt,
        messages,
        data_source,
        extra_info,
        level,
        absent=None,
        *,
        scale=2.0,
        **kwargs,
    ):
        seen.update(locals())
        return scale

    chat = [{"role": "user", "content": "2+2?"}]
    [one] = DefaultManager(reward, isolate=False).score(
        [
            sample(
                "4", "<user>2+2?", chat, target="4", data_source="s", extra_info={"i": 1}, level=3, scale=9.0, other="o"
            )
        ]
    )
    assert one.score == 2.0
    assert (seen["solution_str"], seen["completion"], seen["ground_truth"], seen["target"]) == ("4", "4", "4", "4")
    assert (seen["prompt"], seen["messages"], seen["data_source"], seen["extra_info"]) == (
        "<user>2+2?",
        chat,
        "s",
        {"i": 1},
    )
    assert (seen["level"], seen["absent"], seen["kwargs"]) == (3, None, {"other": "o"})


def test_a_column_named_like_the_sample_never_takes_its_place():
    [one] = DefaultManager(lambda completion, prompt: float(completion == "mine" and prompt == "asked")).score(
        [Sample("asked", "mine", None, {"completion": "of the data", "prompt": "of the data"})]
    )
    assert one.score == 1.0


def test_a_column_that_the_data_lacks_is_an_error_before_anything_is_called():
    manager = DefaultManager(lambda completion, ground_truht: 1.0)
    with pytest.raises(
        RewardError, match=r"reads 'ground_truht', which the data does not have.*Did you mean 'ground_truth'"
    ):
        manager.check({"ground_truth"})
    with pytest.raises(RewardError, match=r"reads 'ground_truht'"):
        manager.score([sample()])


def test_b68_what_the_data_lacks_is_an_error_that_lists_every_name_to_be_had():
    with pytest.raises(
        RewardError,
        match="reads 'level', which the data does not have; to be had:"
        " completion, conversation, ground_truth, messages, prompt, solution_str, target",
    ):
        DefaultManager(lambda level, completion: 1.0).check({"target"})


def test_a_function_of_verls_signature_needs_no_source_and_no_extra_info_and_is_told_once(caplog):
    def of_verl(data_source, solution_str, ground_truth, extra_info):
        extra_info["mine"] = len(extra_info)
        return float(data_source == "" and extra_info == {"mine": 0} and solution_str == ground_truth)

    manager = DefaultManager(of_verl, isolate=False)
    manager.check({"target"})
    assert scores(manager, [sample(), sample(), sample("5")]) == [1.0, 1.0, 0.0]
    said = [record.message for record in caplog.records]
    assert said == ["reward 'of_verl' is given data_source='', extra_info={}: the data has no such column"]
    [one] = manager.score([sample(target="4", data_source="s", extra_info={"i": 1})])
    assert one.score == 0.0

    class Stateful:
        def __call__(self, completion, data_source):
            return 1.0

    with pytest.raises(RewardError, match="reads 'data_source', which the data does not have"):
        DefaultManager(Stateful).check({"target"})


def test_a_function_of_many_samples_has_its_source_and_extra_info_likewise():
    def batch(completions, extra_info):
        return [float(one == {}) for one in extra_info]

    manager = DefaultManager(batch, isolate=False)
    assert scores(manager, [sample(), sample(target="4", extra_info={"i": 1})]) == [1.0, 0.0]


def test_without_a_share_nothing_stops_the_run_and_every_kind_of_failure_is_told_once_with_its_rows(caplog):
    def fragile(completion):
        return 1 / int(completion)

    manager = DefaultManager(fragile, isolate=False, max_failed_share=None)
    for text in ("a", "0", *"bcdefghij"):
        [one] = manager.score([sample(text)])
        assert math.isnan(one.score)
    assert not caplog.records
    manager.close()
    first, second, last = [record.message for record in caplog.records]
    assert first.startswith("a reward failed; unscored: 10 rows. reward 'fragile': ValueError: invalid literal")
    assert first.count("Traceback") == 1
    assert second.startswith("a reward failed; unscored: 1 row. reward 'fragile': ZeroDivisionError")
    assert last.startswith("no row was ever scored: of 11 rows 11 failed")


def test_a_row_that_the_rewards_own_check_refuses_needs_no_traceback():
    manager = DefaultManager(numeric_answer, max_failed_share=None)
    manager.score([sample(target=None)])
    assert "None is no number" in manager.first_traceback
    assert len(manager.first_traceback.splitlines()) == 1


def test_a_failure_is_one_line_and_names_a_reward_as_it_is_registered():
    def wordy(completion):
        raise ValueError("one\ntwo")

    [one] = DefaultManager(wordy).score([sample()])
    assert one.error == "reward 'wordy': ValueError: one two"
    [one] = DefaultManager(get("reward", "math")).score([sample(target=None)])
    assert one.error.startswith("reward 'math': ValueError: the target None")


@pytest.mark.parametrize(
    ("returned", "score", "components"),
    [
        (1, 1.0, {}),
        (True, 1.0, {}),
        (np.float32(0.5), 0.5, {}),
        (np.array(0.25), 0.25, {}),
        ({"score": 0.5, "form": 1, "extracted": "12"}, 0.5, {"form": 1.0}),
    ],
)
def test_what_a_reward_may_return(returned, score, components):
    [one] = DefaultManager(lambda completion: returned).score([sample()])
    assert (one.score, one.components, one.error) == (score, components, None)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("1.0", "returned str '1.0' as score"),
        ([1.0], "returned list"),
        ({"reward": 1.0}, "without 'score'; its keys: reward"),
        (math.nan, "returned nan as score"),
        (math.inf, "returned inf as score"),
        ({"score": 1.0, "form": math.nan}, "returned nan as component 'form'"),
        (np.array([1.0, 2.0]), "array"),
        (1j, "returned complex 1j as score"),
        (np.complex128(1 + 2j), "returned complex128"),
        (10**400, "which is no one real number"),
    ],
)
def test_what_it_may_not_return_unscores_its_row_and_says_so(returned, said):
    manager = DefaultManager(lambda completion: returned if completion == "bad" else 1.0)
    good, bad = manager.score([sample("good"), sample("bad")])
    assert (good.score, good.error) == (1.0, None)
    assert math.isnan(bad.score)
    assert said in bad.error
    assert manager.failed == 1
    assert "Traceback" not in manager.first_traceback


def test_a_row_whose_reward_raises_is_unscored_and_named(caplog):
    def fragile(completion):
        return 1 / int(completion)

    manager = DefaultManager(fragile)
    grades = manager.score([sample("1"), sample("0", prompt="what is zero?"), sample("2"), sample("x")])
    assert [one.score for one in grades if one.error is None] == [1.0, 0.5]
    assert grades[1].error == "reward 'fragile': ZeroDivisionError: division by zero"
    assert "what is zero?" in manager.first_traceback
    assert "row 1 of its call" in manager.first_traceback
    assert "return 1 / int(completion)" in manager.first_traceback
    assert sum("a reward failed" in record.message for record in caplog.records) == 1


def test_the_failure_that_is_kept_is_the_first_row_and_not_the_fastest_thread():
    def fragile(completion):
        time.sleep(0.05 if completion == "0" else 0)
        return 1 / int(completion)

    async def fragile_too(completion):
        await asyncio.sleep(0.05 if completion == "0" else 0)
        return 1 / int(completion)

    for reward in (fragile, fragile_too):
        manager = DefaultManager(reward)
        manager.score([sample("1"), sample("0"), sample("x"), sample("y")])
        assert "ZeroDivisionError" in manager.first_traceback


def test_a_reward_that_exits_does_not_end_the_run():
    def leaving(completion):
        raise SystemExit(completion) if completion == "0" else ValueError

    with pytest.raises(RewardError, match="every reward failed"):
        DefaultManager(leaving).score([sample("0")] * 4)


def test_b65_none_is_left_out_of_the_sum_and_a_row_without_parts_is_unscored():
    firsts, seconds = {"a": 1.0, "b": None, "c": 0.0}, {"a": None, "b": None, "c": 0.5}
    manager = DefaultManager(
        {"first": lambda completion: firsts[completion], "second": lambda completion: seconds[completion]}
    )
    grades = manager.score([sample("a"), sample("b"), sample("c")])
    assert [None if math.isnan(one.score) else one.score for one in grades] == [1.0, None, 0.5]
    assert [one.components for one in grades] == [{"first": 1.0}, {}, {"first": 0.0, "second": 0.5}]
    assert [one.error for one in grades] == [None, None, None]


def test_b65_a_failure_in_any_part_unscores_the_row_by_name():
    manager = DefaultManager(
        {"first": lambda completion: 1.0, "second": lambda completion: math.nan if completion == "b" else 1.0}
    )
    grades = manager.score([sample("a"), sample("b")])
    assert grades[0].score == 2.0
    assert math.isnan(grades[1].score)
    assert grades[1].error.startswith("reward 'second': returned nan as score; expected a finite number")


def test_coroutines_run_together_within_the_bound_and_in_order():
    running = most = 0

    async def reward(completion):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        if completion == "3":
            raise ConnectionError("no answer")
        return float(completion)

    manager = DefaultManager(reward, workers=4)
    assert scores(manager, [sample(str(i)) for i in range(8)]) == [0, 1, 2, None, 4, 5, 6, 7]
    assert most == 4


def test_coroutines_run_where_a_loop_runs_already_and_keep_one_loop():
    loops = []

    async def reward(completion):
        loops.append(asyncio.get_running_loop())
        return 1.0

    async def notebook():
        manager = DefaultManager(functools.partial(reward))
        return scores(manager, [sample()]) + scores(manager, [sample()])

    assert asyncio.run(notebook()) == [1.0, 1.0]
    assert loops[0] is loops[1]


def test_a_plain_function_may_return_an_awaitable_and_objects_may_be_called():
    class Judge:
        async def __call__(self, completion):
            return 1.0

    async def later():
        return 0.5

    assert scores(DefaultManager(lambda completion: later()), [sample()]) == [0.5]
    assert scores(DefaultManager(Judge()), [sample()]) == [1.0]


def test_one_worker_means_the_calling_thread():
    threads = set()

    def reward(completion):
        threads.add(threading.current_thread())
        return 1.0

    DefaultManager(reward, workers=1, isolate=False).score([sample()] * 3)
    assert threads == {threading.main_thread()}
    with pytest.raises(ConfigError, match="workers=0"):
        DefaultManager(reward, workers=0)


def test_past_the_share_of_failures_the_run_stops_with_the_first_traceback():
    def half(completion):
        if int(completion) % 2:
            raise KeyError("no such unit")
        return 1.0

    manager = DefaultManager(half)
    manager.score([sample(str(i)) for i in range(8)])  # four failures say nothing yet
    with pytest.raises(RewardError, match=r"(?s)8 of the last 16 rewards failed.*KeyError: 'no such unit'.*Traceback"):
        manager.score([sample(str(i)) for i in range(8)])
    tolerant = DefaultManager(half, max_failed_share=0.5)
    for _ in range(4):
        tolerant.score([sample(str(i)) for i in range(8)])
    assert (tolerant.graded, tolerant.scored, tolerant.failed) == (32, 16, 16)


def test_every_reward_failing_is_an_error_at_once():
    with pytest.raises(RewardError, match=r"(?s)every reward failed: of 4 rows 4 raised.*the target None is no number"):
        DefaultManager(numeric_answer).score([sample(target=None)] * 4)


def test_a_function_that_forgets_to_return_is_an_error():
    manager = DefaultManager(lambda completion: None)
    assert scores(manager, [sample()] * 16) == [None] * 16
    with pytest.raises(RewardError, match=r"32 gave None.*does the function return its score"):
        manager.score([sample()] * 16)


def test_no_reward_at_all_is_an_error():
    with pytest.raises(ConfigError, match="no reward to grade with"):
        DefaultManager({})


@pytest.mark.parametrize("workers", [1, 4])
def test_what_a_reward_changes_is_its_own_and_never_the_data_set(workers):
    def spoiling(completion, messages, tests, extra_info, ground_truth, target):
        messages.append("x")
        messages[0]["content"] = "x"
        tests[0].append("x")
        extra_info["seen"].clear()
        target.append(len(ground_truth))
        return float(len(tests[0]) + len(extra_info["seen"]) + len(target))

    chat = [{"role": "user", "content": "2+2?"}]
    data = {"tests": [["a"]], "extra_info": {"seen": [1]}, "target": ["4"]}
    row = Sample("2+2?", "4", chat, data)
    assert scores(DefaultManager({"a": spoiling, "b": spoiling}, workers=workers), [row] * 3) == [8.0] * 3
    assert chat == [{"role": "user", "content": "2+2?"}]
    assert data == {"tests": [["a"]], "extra_info": {"seen": [1]}, "target": ["4"]}


def test_a_traceback_begins_at_the_rewards_own_code_and_cannot_steer_a_terminal(caplog):
    def hostile(completion):
        raise ValueError(f"bad \x1b[2J\r{completion}")

    manager = DefaultManager(hostile)
    [one] = manager.score([sample("\x1b]0;t\x07")])
    assert one.error == r"reward 'hostile': ValueError: bad \x1b[2J\r\x1b]0;t\x07"
    assert "Traceback" in manager.first_traceback
    assert "caller.call" not in manager.first_traceback
    for text in (manager.first_traceback, caplog.text):
        assert not set(text) & {"\x1b", "\r", "\x07"}


def test_positional_only_parameters_are_filled_by_their_names_too():
    def reward(completion, level=2, absent=3, unreachable=5, /, *, scale=1.0, **rest):
        return float(completion) + level * 10 + absent * 100 + unreachable * 1000

    manager = DefaultManager(reward)
    manager.check({"target"})
    assert scores(manager, [sample("4"), sample("4", level=7), sample("4", unreachable=0)]) == [5324, 5374, 5324]

    async def later(completion, /):
        return float(completion)

    assert scores(DefaultManager(later), [sample("4")]) == [4.0]
    with pytest.raises(RewardError, match="reads 'answr'"):
        DefaultManager(lambda answr, /: 1.0).check({"answer"})


def test_closing_says_that_no_row_was_ever_scored(caplog):
    manager = DefaultManager(lambda completion: None)
    manager.close()
    assert not caplog.records
    manager.score([sample()] * 3)
    manager.close()
    assert "no row was ever scored: of 3 rows 0 failed and 3 gave None; does the reward return" in caplog.text
    caplog.clear()
    scored = DefaultManager(lambda completion: 1.0)
    scored.score([sample()])
    scored.close()
    assert not caplog.records
