"""Declared shapes: what a user calls with others is refused, and a run pays nothing for it."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rlcore import bind
from rlcore.component import invoke
from rlcore.errors import ComponentError
from rlcore.math import k3
from rlcore.registry import names, registry
from rlcore.shapes import checked, checking, unchecked
from rlcore.testing import counted
from rlcore_algorithms.advantages import group_norm
from rlcore_algorithms.losses import clipped

LOGPROB, MASK = torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.bool)


@pytest.mark.parametrize("loss", [clipped, bind(clipped, clip_high=0.3)])
def test_u34_an_advantage_of_another_shape_is_refused(loss):
    """[2] beside [2, 2] broadcast along the tokens and gave wrong signs on half of them."""
    with pytest.raises(ComponentError, match=r"clipped: advantage is float32 \[2\]; it is declared as float \[B, T\]"):
        loss(LOGPROB, LOGPROB, torch.zeros(2), MASK)
    assert loss(LOGPROB, LOGPROB, torch.zeros(2, 2), MASK).loss.shape == (2, 2)


def test_one_letter_is_one_size_and_a_type_is_a_type():
    with pytest.raises(ComponentError, match=r"group is int64 \[3\].*beside reward \[2\]"):
        group_norm(torch.zeros(2), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ComponentError, match="mask is float32"):
        clipped(LOGPROB, LOGPROB, LOGPROB, MASK.float())
    with pytest.raises(ComponentError, match="ref_logprob"):
        k3(LOGPROB, LOGPROB[0])


def mine(reward: Float[Tensor, " B"], old_logprob: Float[Tensor, "B T"]) -> Float[Tensor, " B"]:
    return reward


def test_a_stranger_s_component_is_checked_where_everything_is():
    columns = {"reward": torch.zeros(3), "old_logprob": torch.zeros(2, 2)}
    with pytest.raises(ComponentError, match=r"mine: old_logprob is float32 \[2, 2\]"), checking():
        invoke(mine, columns)


def test_a_run_calls_the_function_itself():
    # Tests check all shapes; a thread of its own begins without.
    import contextvars

    plain = contextvars.Context()
    assert plain.run(unchecked, clipped) is not clipped
    assert plain.run(unchecked, clipped).__name__ == "clipped"
    assert plain.run(unchecked, bind(clipped, clip_high=0.3)).func is plain.run(unchecked, clipped)
    assert plain.run(unchecked, mine) is mine
    assert checked(checked(mine)).__wrapped__ is mine


@pytest.mark.parametrize("kind", ["advantage", "loss", "kl", "correction", "filter", "shaping", "select", "reduction"])
def test_everything_that_is_built_in_is_checked(kind):
    import contextvars

    for entry in registry().entries(kind):
        if entry.distribution == "rlcore" and entry.name != "entropy_bonus":
            assert contextvars.Context().run(unchecked, entry.thing) is not entry.thing, entry.name
    assert names(kind)


def test_a_decorator_around_a_checked_component_is_never_stepped_over():
    import contextvars

    doubled = counted(clipped)
    contextvars.Context().run(lambda: unchecked(doubled)(LOGPROB, LOGPROB, LOGPROB, MASK))
    assert doubled.calls == 1
