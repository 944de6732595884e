"""Corrections on numbers worked out by hand, as a list in a graph, and what they report."""

import math
from dataclasses import replace

import pytest
import torch

from rlcore.batch import Batch
from rlcore.component import bind
from rlcore.errors import ComponentError, ConfigError
from rlcore.execute.border import call_on_rows
from rlcore.graph import Node
from rlcore_algorithms import grpo
from rlcore_algorithms.corrections import bypass, geometric_mask, icepop, measured, normalized, rejected, truncated
from tests.execute.fakes import executor

ON = torch.tensor([[True, True], [True, False]])
ZERO = torch.zeros(2, 2)
ROLLOUT = torch.full((2, 2), -3.0)


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


def ratios(*rows):
    """Trainer's log-probabilities with these ratios to the sampler's."""
    return ROLLOUT + torch.tensor(rows).log()


def test_weights_are_bounded_by_truncated_and_cut_out_by_icepop():
    old = ratios([3.0, 0.25], [1.5, 9.0])
    close(truncated(old, ROLLOUT, ZERO, ON).weight, [[2.0, 0.25], [1.5, 0.0]])
    close(truncated(old, ROLLOUT, ZERO, ON, low=0.5).weight, [[2.0, 0.5], [1.5, 0.0]])
    close(icepop(old, ROLLOUT, ZERO, ON, high=2.0).weight, [[0.0, 0.0], [1.5, 0.0]])
    close(truncated(old, ROLLOUT, ZERO, ON, level="sequence").weight, [[0.75, 0.75], [1.5, 0.0]])
    close(truncated(old, ROLLOUT, ZERO, ON, level="sequence_mean").weight, [[math.sqrt(0.75)] * 2, [1.5, 0.0]])


def test_under_top_p_the_kept_mass_is_taken_off_before_anything_is_compared():
    # The trainer says 0.4; top-p kept 0.8, so the sampler drew it with 0.5: no mismatch.
    old, rollout = torch.full((2, 2), 0.4).log(), torch.full((2, 2), 0.5).log()
    kept = torch.full((2, 2), 0.8).log()
    close(truncated(old, rollout, kept, ON).weight, [[1.0, 1.0], [1.0, 0.0]])
    assert torch.equal(rejected(old, rollout, kept, ON).mask, ON)
    close(bypass(rollout, kept).old_logprob, old.tolist())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"level": "token", "low": 0.5, "high": 2.0}, [[False, True], [True, False]]),
        ({"level": "sequence_sum", "low": 0.5, "high": 2.0}, [[True, True], [True, False]]),
        ({"level": "sequence_mean", "low": 0.9, "high": 1.2}, [[False, False], [True, False]]),
        ({"level": "sequence_max", "low": 0.5, "high": 2.0}, [[False, False], [True, False]]),
        ({"level": "token", "low": None, "high": 2.0}, [[False, True], [True, False]]),
        # k2 of ratio 3 is 0.6035, of 0.5 0.2402, of 1.1 0.0045; k3 0.9014, 0.1931, 0.0047.
        ({"level": "token", "measure": "k2", "low": None, "high": 0.5}, [[False, True], [True, False]]),
        ({"level": "sequence_sum", "measure": "k2", "low": None, "high": 0.8}, [[False, False], [True, False]]),
        ({"level": "sequence_mean", "measure": "k3", "low": None, "high": 0.55}, [[True, True], [True, False]]),
        ({"level": "sequence_max", "measure": "k3", "low": None, "high": 0.55}, [[False, False], [True, False]]),
    ],
)
def test_rejection_by_token_and_row(options, expected):
    old = ratios([3.0, 0.5], [1.1, 99.0])
    assert rejected(old, ROLLOUT, ZERO, ON, **options).mask.tolist() == expected


def test_weights_multiply_down_a_list_and_are_then_normalized():
    old = ratios([2.0, 0.5], [1.0, 1.0])
    first = truncated(old, ROLLOUT, ZERO, ON).weight
    second = icepop(old, ROLLOUT, ZERO, ON, first, low=0.8, high=3.0).weight
    close(second, [[4.0, 0.0], [1.0, 0.0]])
    close(normalized(second, ON).weight, [[2.4, 0.0], [0.6, 0.0]])
    # Row means 2 and 1.
    close(normalized(second, ON, over="row").weight, [[4 / 1.5, 0.0], [1 / 1.5, 0.0]])
    close(normalized(ZERO, ON).weight, [[0.0, 0.0], [0.0, 0.0]])


def test_diagnostics_by_hand():
    found = measured(ratios([2.0, 0.5], [math.e, 1.0]), ROLLOUT, ZERO, ON).metrics
    close(found["kl"], [[-math.log(2), math.log(2)], [-1.0, 0.0]])
    close(found["chi_square"], (4 + 0.25 + math.e**2) / 3 - 1, 1e-5)
    close(found["row_chi_square"], (1 + math.e**2) / 2 - 1, 1e-5)
    close(found["sampler_perplexity"], [math.exp(3)] * 2, 1e-4)
    close(found["trainer_perplexity"], [math.exp(3), math.exp(2)], 1e-4)
    close(found["perplexity_ratio"], [1.0, math.exp(-1)])
    weights = truncated(ratios([2.0, 0.5], [1.0, 1.0]), ROLLOUT, ZERO, ON).metrics
    close(weights["effective_sample_share"], (3.5 / 3) ** 2 / (5.25 / 3))


@pytest.mark.parametrize(
    ("correction", "options"),
    [
        (truncated, {"high": 0.0}),
        (truncated, {"low": 3.0}),
        (icepop, {"low": -1.0}),
        (rejected, {"low": 2.0}),
        (rejected, {"measure": "k3"}),
        (rejected, {"measure": "k2", "low": None, "high": -1.0}),
    ],
)
def test_bounds_that_make_no_sense_are_refused(correction, options):
    with pytest.raises(ConfigError, match=r"low=|high="):
        correction(ROLLOUT, ROLLOUT, ZERO, ON, **options)


def test_a_list_of_corrections_is_a_list_of_nodes_that_rewrite_each_others_weights_and_masks():
    chain = (measured, truncated, geometric_mask, normalized)
    plan = replace(grpo(), correction=chain).graph().resolve()
    names = [n.name for n in plan.nodes if n.kind == "correction"]
    assert names == ["correction", "correction_2", "correction_3", "correction_4"]
    assert plan.sources["correction_4", "weight"] == "correction_2"
    assert plan.sources["correction_4", "mask"] == "correction_3"
    assert plan.sources["update", "weight"] == "correction_4"
    assert ("correction_2", "weight") not in plan.sources


def test_a_bypass_spares_the_forward_pass_of_the_trainer():
    plan = replace(grpo(), correction=bypass).graph().resolve()
    assert "old_logprob" in plan.pruned
    assert plan.sources["update", "old_logprob"] == "correction"


def raw(score=(1.0, float("nan"))):
    columns = {"length": torch.tensor([3, 3]), "score": torch.tensor(score), "session": torch.arange(2)}
    for name in ("old_logprob", "rollout_logprob", "kept_logmass"):
        columns[name] = torch.zeros(2, 3)
    columns["old_logprob"][:, 1] = math.log(3.0)
    columns["sampled"] = columns["mask"] = torch.tensor([[False, True, True]]).repeat(2, 1)
    return Batch(columns)


def test_metrics_of_a_correction_are_votes_of_the_mask_that_it_was_handed():
    component = bind(rejected, level="token", low=0.5, high=2.0)
    node = Node(component, name="correction", kind="correction")
    written = call_on_rows(node, component, raw(), tuple(r.name for r in node.reads), {})
    assert written["mask"].tolist() == [[False, False, True], [False, False, False]]
    values = written["metrics"].values()
    assert values["rejected_share"] == 0.5
    assert values["rejected_row_share"] == 1.0
    assert written["metrics"]["rejected_share"].weight == 2


def test_metrics_that_are_no_mapping_are_refused():
    def odd(mask):
        return {"mask": mask, "metrics": 3}

    node = Node(odd, name="odd", kind="correction", writes=("mask",))
    with pytest.raises(ComponentError, match="expected a mapping"):
        call_on_rows(node, odd, raw(), ("mask",), {})


def test_a_run_reports_the_metrics_of_its_corrections_under_the_name_of_their_node():
    made = executor(replace(grpo(), correction=(measured, truncated)).graph(reward=lambda completion, target: 0.0))
    outcome = made.run_step(0)
    values = outcome.metrics.values()
    # The fakes' sampler says -1 of every token, their trainer -0.5.
    assert values["correction/kl"] == pytest.approx(-0.5)
    assert values["correction_2/weight"] == pytest.approx(math.exp(0.5))
    sampled = outcome.batch.flat("sampled")
    close(outcome.batch.flat("weight")[sampled], [math.exp(0.5)] * int(sampled.sum()))
