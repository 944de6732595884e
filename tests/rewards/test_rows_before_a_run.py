"""Rows that no completion could be right about end a run before its model is loaded."""

import threading

import numpy as np
import pytest

from rlcore import Run
from rlcore.component import bind
from rlcore.errors import ConfigError, DataError
from rlcore_algorithms import grpo
from rlcore_answers.arithmetic import expression_answer
from rlcore_rewards.combinations import PerSource

GOOD = {"prompt": "a", "target": 3, "numbers": [1, 2], "data_source": "sums"}


def check(rows, reward=expression_answer, **options):
    """Ask what a run asks before it loads the model, which is not there."""
    Run(algorithm=grpo(group_size=2), model="hf:no/model", data=rows, reward=reward, prompts=2, **options).check()


@pytest.mark.parametrize("target", [None, "three", np.array([])])
def test_b67_a_row_without_a_target_is_named(target):
    said = r"training row 1 of 3 \(from 0\), with the target .*: reward 'expression_answer' could grade no completion"
    with pytest.raises(DataError, match=said):
        check([GOOD, {**GOOD, "target": target}, GOOD])


def test_b68_a_row_of_an_unknown_source_is_named_with_the_way_to_map_it():
    reward = bind(PerSource, sources={"sums": expression_answer})
    with pytest.raises(DataError, match="training row 2 of 3 .*'my/sums' has no reward; known: 'sums'.*reward.default"):
        check([GOOD, GOOD, {**GOOD, "data_source": "my/sums"}], reward)


def test_a_reward_that_no_worker_can_have_is_refused_before_the_model_is_loaded():
    lock = threading.Lock()
    with pytest.raises(ConfigError, match="'locked'.*cannot be sent.*'lock'.*reward_manager.isolate=false"):

        def locked(completion):
            with lock:
                return 1.0

        check([GOOD, GOOD], locked)
