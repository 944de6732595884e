"""What strange results, exceptions and functions do to their own row, and to nothing else."""

import asyncio
import math
import os
import sys
import time

import numpy as np
import pytest

from rlcore.errors import ConfigError
from rlcore.protocols import Sample
from rlcore_rewards.calling import read_outcomes
from rlcore_rewards.combinations import Weighted
from rlcore_rewards.managers import DefaultManager


class NoText(Exception):
    def __str__(self):
        raise RuntimeError("none")


class Unwritten:
    def __repr__(self):
        raise ValueError("none")


class NoFloat:
    def __float__(self):
        raise KeyError("none")


class Ends:
    def __reduce__(self):
        return sys.exit, (4,)


def graded(reward, **options):
    """The grades of four samples, of which the third is odd."""
    manager = DefaultManager(reward, workers=2, max_failed_share=1.0, **options)
    try:
        return manager.score([Sample("", text, None, {}) for text in ("a", "b", "odd", "d")])
    finally:
        manager.close()


def only_the_third_failed(found, said):
    assert [one.score for one in found[:2] + found[3:]] == [1.0] * 3
    assert math.isnan(found[2].score)
    assert said in found[2].error


@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize(
    ("kind", "said"), [(Unwritten, "returned Unwritten as score"), (NoFloat, "which is no one real number: 'none'")]
)
def test_a_result_that_cannot_be_read_or_shown_costs_its_row(kind, said, isolate):
    only_the_third_failed(graded(lambda completion: kind() if completion == "odd" else 1.0, isolate=isolate), said)


def test_a_result_that_would_end_whoever_reads_it_costs_its_row():
    only_the_third_failed(graded(lambda completion: Ends() if completion == "odd" else 1.0), "SystemExit: 4")


@pytest.mark.parametrize("isolate", [True, False])
def test_an_exception_without_a_text_is_named_by_its_type(isolate):
    def reward(completion):
        if completion == "odd":
            raise NoText
        return 1.0

    only_the_third_failed(graded(reward, isolate=isolate), "NoText")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
def test_what_would_end_a_loop_ends_one_asynchronous_call(error):
    async def reward(completion):
        await asyncio.sleep(0)
        if completion == "odd":
            raise error
        return 1.0

    only_the_third_failed(graded(reward), type(error).__name__)


def test_rows_that_a_blocked_loop_left_say_which_call_blocked_it():
    async def reward(completion):
        if completion == "odd":
            time.sleep(3)
        await asyncio.sleep(0.01)
        return 1.0

    found = graded(reward, seconds=0.2)
    assert any("reward 'reward', row 2 of its call, blocked the event loop" in (one.error or "") for one in found)


def test_a_coroutine_that_cancels_the_others_is_no_end_of_the_run():
    async def reward(completion):
        if completion == "odd":
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.sleep(0.05)
        return 1.0

    found = graded(reward)
    assert len(found) == 4
    assert "cancelled what was not its own" in found[3].error


def test_a_function_whose_loading_ends_the_process_is_named():
    class Fatal:
        def __reduce__(self):
            return os._exit, (7,)

    fatal = Fatal()

    def reward(completion):
        return float(fatal is not None)

    with pytest.raises(ConfigError, match=r"'reward': reward cannot be loaded .*ends the process \(exit status 7\)"):
        graded(reward)


def test_a_function_without_known_parameters_is_named():
    with pytest.raises(ConfigError, match="'float': its parameters cannot be known"):
        DefaultManager(float)


@pytest.mark.parametrize("results", [{1.0, 2.0}, np.array(1.0), None, 1.0, {"a": 1.0, "b": 1.0}, "ab"])
def test_only_what_has_an_order_and_a_length_is_a_list_of_grades(results):
    assert ["expected a list of 2, one a completion" in str(one) for one in read_outcomes(results, 2)] == [True, True]


def test_a_part_that_is_only_reported_scores_no_row_that_the_others_cannot_grade():
    parts = {"right": lambda completion: None if completion == "odd" else 1.0, "length": lambda completion: 9.0}
    found = graded(Weighted(components=parts, weights={"length": 0.0}))
    assert [one.score for one in found[:2]] == [1.0, 1.0]
    assert math.isnan(found[2].score)
    assert (found[2].error, found[2].components) == (None, {"length": 9.0})
