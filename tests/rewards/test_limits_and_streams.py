"""What the default manager does with time: rewards that hang, samples that come one after another, calls of batches."""

import asyncio
import math
import os
import threading
import time
from concurrent.futures import as_completed

import numpy as np
import pytest

from rlcore.errors import ConfigError, DataError, RewardError
from rlcore.protocols import Sample
from rlcore_answers.arithmetic import expression_answer
from rlcore_rewards.calling import bounded, checks_rows
from rlcore_rewards.managers import DefaultManager


def sample(completion="4", prompt="2+2=", messages=None, **data):
    return Sample(prompt, completion, messages, data)


def samples(count):
    return [sample(str(number)) for number in range(count)]


def seen(grades):
    return [None if math.isnan(one.score) else one.score for one in grades]


@pytest.fixture
def manager():
    """Makes managers that are closed when the test ends."""
    made = []

    def make(rewards, **options):
        made.append(DefaultManager(rewards, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_b65_a_batch_with_one_that_hangs_one_that_raises_and_one_that_does_not_apply_ends_in_time(manager):
    def hangs(completion):
        time.sleep(60 if completion == "7" else 0)
        return 1.0

    def raises(completion):
        return float(1 / (int(completion) - 9) != 0)

    def applies(completion):
        return None if completion == "11" else 1.0

    async def waits(completion):
        await asyncio.sleep(60 if completion == "13" else 0)
        return 1.0

    limit = 2.0
    graded = manager({"hangs": hangs, "raises": raises, "applies": applies, "waits": waits}, seconds=limit)
    graded.score(samples(6))
    before = time.monotonic()
    grades = graded.score(samples(256))
    assert time.monotonic() - before < limit + 1 + 3  # three seconds for a machine that does other things
    assert {row for row, one in enumerate(grades) if math.isnan(one.score)} == {7, 9, 13}
    assert grades[7].error == "reward 'hangs': stopped after 2 s"
    assert grades[9].error == "reward 'raises': ZeroDivisionError: division by zero"
    assert grades[13].error == "reward 'waits': stopped after 2 s"
    assert (grades[11].score, dict(grades[11].components)) == (3.0, {"hangs": 1.0, "raises": 1.0, "waits": 1.0})
    assert grades[7].components == {"raises": 1.0, "applies": 1.0, "waits": 1.0}
    assert {one.score for row, one in enumerate(grades) if row not in (7, 9, 11, 13)} == {4.0}
    assert graded.failed == 3
    assert "reward 'hangs': stopped after 2 s" in graded.first_traceback
    assert seen(graded.score(samples(6))) == [4.0] * 6


def test_a_reward_that_only_hangs_ends_the_batch_early(manager):
    graded = manager(lambda completion: time.sleep(60), seconds=0.2, workers=4)
    before = time.monotonic()
    with pytest.raises(
        RewardError, match=r"the first 8 calls were all stopped after 0.2 s; .*reward_manager.seconds=N"
    ):
        graded.score(samples(256))
    assert time.monotonic() - before < 5  # all of them would take 12.8


def test_a_coroutine_that_will_not_be_cancelled_is_left_behind(manager):
    async def stubborn(completion):
        while completion == "1":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue
        return 1.0

    graded = manager(stubborn, seconds=1)
    assert seen(graded.score(samples(3))) == [1.0, None, 1.0]


def test_a_coroutine_that_blocks_the_loop_is_named_and_the_next_batch_has_another_loop(manager, caplog):
    release = threading.Event()

    async def blocking(completion):
        if completion == "1":
            release.wait(60)
        return 1.0

    graded = manager(blocking, seconds=1, workers=1)
    grades = graded.score(samples(3))
    assert seen(grades) == [1.0, None, None]
    said = "not finished when reward 'blocking', row 1 of its call, blocked the event loop"
    assert said in grades[1].error
    assert said in caplog.text
    release.set()
    assert seen(graded.score([sample("2")] * 3)) == [1.0] * 3


def test_what_bounded_runs_in_this_process_without_a_limit(manager):
    @bounded
    def slow(completion):
        time.sleep(0.4)
        return float(os.getpid())

    assert seen(manager(slow, seconds=0.1).score([sample()])) == [os.getpid()]
    assert seen(manager(lambda completion: os.getpid(), isolate=False).score([sample()])) == [os.getpid()]
    assert seen(manager(lambda completion: os.getpid()).score([sample()])) != [os.getpid()]

    async def patient(completion):
        await asyncio.sleep(0.4)
        return 1.0

    assert seen(manager(bounded(patient), seconds=0.1).score([sample()])) == [1.0]


def test_a_worker_that_dies_unscores_its_row_alone(manager):
    def deadly(completion):
        if completion == "2":
            os._exit(1)
        return 1.0

    graded = manager(deadly)
    grades = graded.score(samples(8))
    assert seen(grades) == [1.0, 1.0, None, *[1.0] * 5]
    assert grades[2].error == "reward 'deadly': its process died: the function ended it"


def test_a_function_that_cannot_travel_is_refused_before_a_rollout_with_the_way_out(manager):
    lock = threading.Lock()

    def locked(completion):
        with lock:
            return 1.0

    with pytest.raises(ConfigError, match=r"'locked'.*cannot pickle.*it holds 'lock'.*reward_manager.isolate=false"):
        manager(locked).check({"target"})
    with pytest.raises(ConfigError, match="isolate=false"):
        manager(locked).score(samples(2))
    assert seen(manager(locked, isolate=False).score(samples(2))) == [1.0, 1.0]


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": -1}, {"seconds": math.inf}, {"workers": 0}])
def test_limits_that_are_none_are_refused(options):
    with pytest.raises(ConfigError, match="allowed"):
        DefaultManager(expression_answer, **options)


# -- samples one after another


def test_grades_come_as_they_are_ready_and_each_in_the_order_of_its_samples(manager):
    def sleepy(completion):
        time.sleep(1 if completion == "0" else 0)
        return float(completion)

    graded = manager(sleepy, workers=2)
    first, second = graded.submit(samples(3)), graded.submit([sample("5"), sample("4")])
    done = list(as_completed([first, second], timeout=20))
    assert done == [second, first]
    assert (seen(first.result()), seen(second.result())) == ([0.0, 1.0, 2.0], [5.0, 4.0])
    assert graded.submit([]).result() == []
    assert graded.graded == 5


def test_streams_can_be_awaited_and_fail_as_score_does(manager):
    async def rollouts():
        graded = manager({"plain": lambda completion: float(completion), "here": expression_answer})
        groups = [[sample(str(n), target=n) for n in (k, k + 1)] for k in range(5)]
        return await asyncio.gather(*(asyncio.wrap_future(graded.submit(group)) for group in groups))

    assert [seen(grades) for grades in asyncio.run(rollouts())] == [[k + 1.0, k + 2.0] for k in range(5)]
    with pytest.raises(RewardError, match="every reward failed"):
        manager(lambda completion: 1 / 0).submit(samples(4)).result()


# -- signatures of others


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """Verl's."""
    return {"score": float(solution_str == str(ground_truth)), "acc": True, "index": extra_info["index"]}


@pytest.mark.parametrize("isolate", [True, False])
def test_a_function_of_verl_works_as_it_is(manager, isolate):
    rows = [
        sample("4", data_source="s", ground_truth="4", extra_info={"index": 3}),
        sample("5", data_source="s", target=4, extra_info={"index": np.int64(4)}),
    ]
    grades = manager(compute_score, isolate=isolate).score(rows)
    assert [(one.score, dict(one.components)) for one in grades] == [
        (1.0, {"acc": 1.0, "index": 3.0}),
        (0.0, {"acc": 1.0, "index": 4.0}),
    ]


def lengths(prompts, completions, target, **columns):
    """TRL's."""
    assert sorted(columns) == ["ground_truth", "level"]
    return [None if t is None else float(len(c)) for c, t in zip(completions, target, strict=True)]


async def lengths_later(completions, **columns):
    await asyncio.sleep(0)
    assert "prompts" in columns
    assert not {"prompt", "completion"} & set(columns)
    return [float(len(one)) for one in completions]


class Conversational:
    def __call__(self, completions, prompts):
        assert prompts[0] == [{"role": "user", "content": "2+2?"}]
        return [float(one[0]["content"]) + (one[0]["role"] != "assistant") for one in completions]


def test_functions_of_trl_work_as_they_are(manager):
    rows = [sample("a", target=1, level=2), sample("abc", target=None), sample("abcd", target=3)]
    for isolate in (True, False):
        assert seen(manager(lengths, isolate=isolate).score(rows)) == [1.0, None, 4.0]
    assert seen(manager(lengths_later).score(rows)) == [1.0, 3.0, 4.0]
    chat = [{"role": "user", "content": "2+2?"}]
    assert seen(manager(Conversational()).score([sample("4", messages=chat), sample("5", messages=chat)])) == [4.0, 5.0]


def test_a_function_of_batches_is_called_once_and_fails_by_the_entry_or_as_a_whole(manager):
    def counted(completions):
        return [len(completions), math.nan, "x"]

    grades = manager(counted).score(samples(3))
    assert seen(grades) == [3.0, None, None]
    assert "returned nan as score" in grades[1].error
    grades = manager(lambda completions: [1.0] * 5, max_failed_share=1.0).score(samples(3))
    assert {one.error for one in grades} == {
        "reward '<lambda>': returned list of 5 entries; expected a list of 3, one a completion"
    }
    slow = manager(lambda completions: time.sleep(60), seconds=0.2, max_failed_share=1.0).score(samples(3))
    assert {one.error for one in slow} == {"reward '<lambda>': stopped after 0.2 s"}
    with pytest.raises(
        RewardError,
        match=r"reads 'completion_ids'.*to be had: .*completions, conversation, ground_truth, messages, prompt",
    ):
        manager(lambda completions, completion_ids: []).check({"target"})


def test_a_class_is_started_and_closed_with_the_manager():
    closed = []

    @bounded
    class Counting:
        def __init__(self, *, start: float = 2.0) -> None:
            self.count = start

        def __call__(self, completion):
            self.count += 1
            return {"score": self.count, "extracted": completion}

        def close(self):
            closed.append(self.count)

    graded = DefaultManager(Counting, workers=1)
    grades = graded.score(samples(2))
    assert [(one.score, one.extracted) for one in grades] == [(3.0, "0"), (4.0, "1")]
    graded.close()
    assert closed == [4.0]


# -- rows


def test_b67_a_row_whose_target_no_completion_can_meet_is_named_before_the_first_rollout():
    def whole(data):
        int(data["target"])

    @checks_rows(whole)
    def reward(completion, target):
        return 1.0

    graded = DefaultManager({"sum": reward, "plain": lambda completion: 1.0})
    assert graded.checks_rows
    for good in (np.int64(7), np.str_("7"), 7, "7"):
        graded.check_row({"target": good})
    with pytest.raises(DataError, match="reward 'sum' could grade no completion: invalid literal"):
        graded.check_row({"target": "seven"})
    assert not DefaultManager(lambda completion: 1.0).checks_rows
    with pytest.raises(DataError, match="'expression_answer' could grade no completion: the target None is no number"):
        DefaultManager(expression_answer).check_row({"target": None, "numbers": [1]})


def test_b67_numpy_types_reach_a_function_as_they_are_and_its_own_come_back(manager):
    def typed(completion, ground_truth, extra_info):
        return np.float32(ground_truth * 2) if extra_info["on"] else None

    rows = [sample(ground_truth=np.int64(7), extra_info={"on": np.bool_(True), "x": np.float32(1)})]
    assert seen(manager(typed).score(rows)) == [14.0]
    assert seen(manager(typed, isolate=False).score(rows)) == [14.0]
