"""The further losses and reductions on numbers worked out by hand, and their bad options."""

import math
from dataclasses import replace

import pytest
import torch

from rlcore.component import bind, reads
from rlcore.errors import ConfigError
from rlcore.math import Counts, k3, weighted_loss
from rlcore.math.kl import full
from rlcore.registry import get
from rlcore.testing import conform
from rlcore_algorithms import clip_cov, dppo, gspo, kl_cov, losses, luspo
from rlcore_algorithms.corrections import bypass
from rlcore_algorithms.kls import k3_unbiased
from rlcore_algorithms.reductions import sequence_mean_token_mean, sequence_mean_token_sum, token_sum
from tests.shelf import shelf

LOSSES, KLS = shelf("loss"), shelf("kl")
POLICY_LOSSES = [n for n in LOSSES if "old_logprob" in {read.name for read in reads(LOSSES[n])}]


def close(found, expected, tolerance=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance)


def at(loss, pairs, **options):
    """A loss of (ratio, advantage) pairs in one row, with the old policy at 0.2."""
    ratio, advantage = torch.tensor(pairs).T
    old = torch.full_like(ratio, 0.2).log()
    logprob = (old + ratio.log())[None].requires_grad_()
    output = loss(logprob, old[None], advantage[None], torch.ones(1, len(pairs), dtype=torch.bool), **options)
    (gradient,) = torch.autograd.grad(output.loss.sum(), logprob)
    return output, gradient


def test_the_two_sided_clip_bounds_what_a_bad_token_can_cost():
    pairs = [(1.1, 1.0), (10.0, 1.0), (1.1, -1.0), (10.0, -1.0)]
    output, gradient = at(losses.clipped, pairs, dual_clip=4.0)
    close(output.loss, [[-1.1, -1.2, 1.1, 4.0]])
    close(gradient, [[-1.1, 0, 1.1, 0]])
    close(output.metrics["dual_clip_share"], [[0.0, 0, 0, 1]], 0)
    with pytest.raises(ConfigError, match="delta=1.1 must be at least"):
        get("algorithm", "trl-1.16/grpo")(delta=1.1)


def test_trls_cispo_takes_a_bound_of_the_ratio_below_one():
    """TRL 1.16: -min(r, epsilon_high).detach() A logprob; without an epsilon_high the bound is epsilon, 0.2."""
    for options, bound in (({}, 5.0), ({"epsilon_high": 0.5}, 0.5), ({"epsilon_high": None}, 0.2)):
        loss = get("algorithm", "trl-1.16/cispo")(**options).loss
        _, gradient = at(loss, [(0.1, 1.0), (0.3, -1.0), (9.0, 1.0)])
        close(gradient, [[-min(0.1, bound), min(0.3, bound), -min(9.0, bound)]])
    with pytest.raises(ConfigError, match="epsilon_high=-0.5 bounds the ratio itself"):
        get("algorithm", "trl-1.16/cispo")(epsilon_high=-0.5)


def test_cispo_bounds_the_weight_and_never_the_gradient():
    output, gradient = at(losses.cispo, [(0.1, 1.0), (2.0, -1.0), (9.0, 1.0)])
    close(gradient, [[-0.1, 2.0, -5.0]])
    close(output.metrics["clip_share"], [[0.0, 0, 1]], 0)
    _, bounded = at(losses.cispo, [(0.1, 1.0), (9.0, 1.0)], clip_low=0.2, clip_high=0.2)
    close(bounded, [[-0.8, -1.2]])


def test_gspo_has_one_ratio_a_row_and_a_clip_of_its_own():
    # Ratios 2 and 1/2 cancel; 1.21 and 1 make 1.1, beyond the bound of 1.05 for A > 0 and not for A < 0.
    mask = torch.ones(3, 2, dtype=torch.bool)
    logprob = torch.tensor([[2.0, 0.5], [1.21, 1.0], [1.21, 1.0]]).log().requires_grad_()
    advantage = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]])
    output = losses.gspo(logprob, torch.zeros(3, 2), advantage, mask, clip_low=0.05, clip_high=0.05)
    close(output.loss, [[-1.0, -1.0], [-1.05, -1.05], [1.1, 1.1]])
    close(output.metrics["ratio"], [1.0, 1.1, 1.1])
    value = weighted_loss(output.loss, sequence_mean_token_mean(mask, Counts.of(mask)), mask)
    (gradient,) = torch.autograd.grad(value, logprob)
    close(gradient, [[-1 / 6, -1 / 6], [0.0, 0.0], [1.1 / 6, 1.1 / 6]])


def test_gspo_differentiated_through_its_mean_is_the_same_where_a_row_has_one_advantage():
    torch.manual_seed(0)
    mask = torch.rand(5, 7) < 0.7
    old, logprob = -torch.rand(5, 7).double(), (-torch.rand(5, 7).double()).requires_grad_()
    advantage = torch.randn(5, 1).double().expand(5, 7)
    weights = sequence_mean_token_mean(mask, Counts.of(mask)).double()
    ours = weighted_loss(losses.gspo(logprob, old, advantage, mask, clip_low=0.2, clip_high=0.2).loss, weights, mask)
    ratio = (((logprob - old) * mask).sum(1) / mask.sum(1).clamp(min=1)).exp()
    gain = advantage[:, 0]
    rows = torch.maximum(-gain * ratio, -gain * ratio.clamp(0.8, 1.2))
    theirs = (weights * rows * mask.any(1)).sum()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(x, logprob)[0] for x in (ours, theirs)))


def test_luspo_is_gspo_with_rows_weighed_by_their_length():
    assert luspo().loss.func is gspo().loss.func
    mask = torch.tensor([[True, True, True], [True, False, False]])
    loss = torch.tensor([[2.0, 2, 2], [5, 0, 0]])
    close(weighted_loss(loss, sequence_mean_token_sum(mask, Counts.of(mask)), mask), (3 * 2 + 5) / 2)


def test_sapo_fades_sooner_where_the_advantage_is_negative():
    _, gradient = at(losses.sapo, [(1.0, 1.0), (1.0, -1.0), (3.0, 1.0), (3.0, -1.0)])
    gate = [1 / (1 + math.exp(-2 * tau)) for tau in (1.0, 1.05)]
    close(gradient, [[-1.0, 1.0, -12 * gate[0] * (1 - gate[0]), 12 * gate[1] * (1 - gate[1])]])


def test_gmpo_clips_log_ratios_on_the_side_that_the_advantage_favours():
    mask = torch.ones(2, 2, dtype=torch.bool)
    logprob = torch.tensor([[1.0, 0.1], [-1.0, 0.1]], requires_grad=True)
    advantage = torch.tensor([[2.0, 2.0], [-2.0, -2.0]])
    output = losses.gmpo(logprob, torch.zeros(2, 2), advantage, mask)
    first, second = math.exp((0.4 + 0.1) / 2), math.exp((-0.4 + 0.1) / 2)
    close(output.loss, [[-2 * first] * 2, [2 * second] * 2])
    (gradient,) = torch.autograd.grad(output.loss.sum(), logprob)
    close(gradient, [[0.0, -2 * first], [0.0, 2 * second]])
    weighed = losses.gmpo(logprob, torch.zeros(2, 2), advantage, mask, torch.tensor([[1.0, 4.0], [1.0, 1.0]]))
    close(weighed.loss, [[-4 * first] * 2, [2 * second] * 2])


def test_vespo_fades_rows_that_are_far_off_either_way():
    mask = torch.ones(3, 2, dtype=torch.bool)
    old = torch.tensor([[0.0, 0.0], [-2.0, -2.0], [2.0, 2.0]])
    output = losses.vespo(torch.zeros(3, 2), old, torch.ones(3, 2), mask)
    w = [1.0, math.exp(4), math.exp(-4)]
    close(output.metrics["phi"][:, 0], [x**2 * math.exp(3 * (1 - x)) for x in w])


def test_dppo_drops_tokens_by_how_far_their_probability_moved_and_not_by_its_ratio():
    old = torch.tensor([[0.001, 0.5, 0.5, 0.5]])
    now = torch.tensor([[0.01, 0.7, 0.7, 0.3]])
    advantage, mask = torch.tensor([[1.0, 1.0, -1.0, -1.0]]), torch.ones(1, 4, dtype=torch.bool)
    output = losses.dppo_tv(now.log(), old.log(), advantage, mask)
    close(output.metrics["clip_share"], [[0.0, 1, 0, 1]], 0)
    # KL of 0.5 to 0.7 is 0.087 nats, of 0.001 to 0.01 0.007.
    output = losses.dppo_kl(now.log(), old.log(), advantage, mask)
    close(output.metrics["clip_share"], [[0.0, 1, 0, 1]], 0)
    close(
        losses.dppo_kl(now.log(), old.log(), advantage, mask, low=0.1, high=0.1).metrics["clip_share"], [[0.0] * 4], 0
    )


def test_dppo_is_measured_against_the_sampler_and_computes_no_old_logprob():
    plan = dppo().graph().resolve()
    assert "old_logprob" in plan.pruned
    assert plan.sources["update", "old_logprob"] == "correction"
    own = replace(dppo(), correction=None).graph().resolve()
    assert own.sources.get(("update", "old_logprob")) is None
    close(bypass(torch.tensor([[-1.0]]), torch.tensor([[-0.2]])).old_logprob, [[-1.2]])


def test_the_decoupled_loss_weighs_the_clipped_one_to_the_policy_that_sampled():
    mask, one = torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 3)
    old, rollout = torch.tensor([[-1.0, -1.0, -1.0]]), torch.tensor([[-1.0, -2.0, -5.0]])
    output = losses.decoupled(old, old, rollout, torch.zeros(1, 3), one, mask, weight_cap=10.0)
    close(output.loss, [[-1.0, -math.e, 0.0]])
    close(losses.decoupled(old, old, rollout, -one, one, mask).loss, [[-math.e, -math.exp(2), -math.exp(5)]], 1e-4)


def test_positive_likelihood_looks_at_the_graders_score_and_not_at_unscored_rows():
    logprob, mask = -torch.ones(3, 2), torch.ones(3, 2, dtype=torch.bool)
    output = losses.positive_nll(logprob, torch.tensor([1.0, 0.0, float("nan")]), mask)
    close(output.loss, [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])


def test_the_token_sum_has_no_denominator():
    mask = torch.tensor([[True, False], [True, True]])
    close(weighted_loss(torch.tensor([[1.0, 9.0], [2.0, 3.0]]), token_sum(mask, Counts.of(mask)), mask), 6.0)


@pytest.mark.parametrize("name", POLICY_LOSSES)
def test_B37_with_a_learning_rate_of_0_the_ratio_is_1_in_every_loss(name):
    logprob, mask = torch.tensor([[-0.5, -2.0]]), torch.ones(1, 2, dtype=torch.bool)
    columns = {"logprob": logprob, "old_logprob": logprob, "rollout_logprob": logprob, "advantage": torch.ones(1, 2)}
    columns |= {"mask": mask, "kept_logmass": torch.zeros(1, 2), "selected": mask}
    columns |= {"ref_logprob": logprob, "score": torch.ones(1)}
    from rlcore.component import invoke

    metrics = getattr(invoke(LOSSES[name], columns), "metrics", {})
    for metric, expected in (("ratio", 1.0), ("old_kl", 0.0), ("clip_share", 0.0), ("phi", 1.0)):
        assert metric not in metrics or (metrics[metric] == expected).all()


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("gspo", {"clip_low": 2.0}, "clip_low"),
        ("gspo", {"dual_clip": 0.5}, "dual_clip"),
        ("cispo", {"clip_low": 0.2, "clip_high": -0.3}, "clip_high at least -clip_low"),
        ("sapo", {"temperature_negative": 0.0}, "temperature_negative"),
        ("gmpo", {"clip_low": -0.4}, "clip_low"),
        ("vespo", {"decay_positive": -1.0}, "decays"),
        ("dro", {"beta": 0.0}, "beta"),
        ("dppo_tv", {"low": -0.1}, "low"),
        ("dppo_kl", {"ratio_cap": 0.5}, "ratio_cap"),
        ("kl_cov", {"coefficient": -1.0}, "coefficient"),
        ("decoupled", {"weight_cap": 0.0}, "weight_cap"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(name, options, named):
    from rlcore.component import invoke
    from rlcore.testing.laws.inputs import loss_columns

    with pytest.raises(ConfigError, match=named):
        invoke(bind(LOSSES[name], **options), loss_columns())


# -- KL


def test_B32_every_name_of_a_kl_is_a_formula_of_its_own():
    logprob, ref = torch.tensor([[-1.0, -1.5, -1.0]]), torch.tensor([[-1.5, -1.0, -1.0]])
    expected = {
        "k1": [0.5, -0.5, 0.0],
        "abs": [0.5, 0.5, 0.0],
        "k2": [0.125, 0.125, 0.0],
        "k3": [0.106531, 0.148721, 0.0],
    }
    for name, values in expected.items():
        close(KLS[name](logprob, ref), [values])
        if name != "k2":
            close(KLS[f"{name}_straight_through"](logprob, ref), [values])


def test_B31_a_ceiling_of_k3_is_an_option_and_cuts_the_gradient_above_it():
    logprob = torch.tensor([[-3.0, -1.0]], requires_grad=True)
    value = k3(logprob, torch.tensor([[0.0, -1.2]]), ceiling=10.0)
    value.sum().backward()
    close(value.detach(), [[10.0, math.exp(-0.2) - 1 + 0.2]])
    close(logprob.grad, [[0.0, 1 - math.exp(-0.2)]])


def test_the_unbiased_kl_pulls_with_the_probability_that_a_token_has_now():
    logprob = torch.tensor([[-3.0]], requires_grad=True)
    value = k3_unbiased(logprob, torch.tensor([[-1.0]]), torch.tensor([[-1.0]]))
    close(value.detach(), [[math.exp(-2) * (math.exp(2) - 3)]])
    # d/dx of e^(x+1) (e^(-1-x) - 1 + 1 + x) = (1 + e^(x+1) (1 + x)) - ... = e^(x+1) (1 + x) at x = -3.
    value.sum().backward()
    close(logprob.grad, [[math.exp(-2) * -2]])


def test_the_expected_gradient_of_the_unbiased_kl_is_that_of_the_kl():
    torch.manual_seed(0)
    logits, old, ref = (torch.randn(6).double() for _ in range(3))
    logits.requires_grad_()
    now, q, mu = torch.log_softmax(logits, 0), torch.log_softmax(ref, 0), torch.log_softmax(old, 0)
    estimate = (mu.exp() * k3_unbiased(now[None], q[None], mu[None])[0]).sum()
    exact = full(logits[None], ref[None])[0]
    torch.testing.assert_close(estimate, exact)
    torch.testing.assert_close(*(torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (estimate, exact)))


def test_the_full_kl_is_0_between_equals_and_finite_where_a_token_is_excluded():
    logits = torch.tensor([[1.0, 2.0, -torch.inf]])
    assert full(logits, logits) == 0
    close(full(torch.tensor([[0.0, -torch.inf]]), torch.tensor([[0.0, 0.0]])), [math.log(2)])


# -- named algorithms


def test_selects_of_named_algorithms_reach_their_update():
    for algorithm in (clip_cov(), kl_cov()):
        update = next(n for n in algorithm.graph().resolve().nodes if n.name == "update")
        assert update.call.selects == algorithm.selects
        assert not update.reads_column("selected")


test_cispo_with_one_ratio_a_row_keeps_every_law = conform("loss", bind(losses.cispo, level="sequence"))
test_sapo_with_one_ratio_a_row_keeps_every_law = conform("loss", bind(losses.sapo, level="sequence"))
