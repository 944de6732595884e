"""Faults in losses that users of other frameworks met, asked of every loss and reduction that could have them."""

import pytest
import torch

from rlcore import get, names
from rlcore.component import bind, invoke, reads
from rlcore.config import load
from rlcore.errors import UnknownNameError
from rlcore.math import Counts, weighted_loss
from rlcore.protocols import Term, Update
from rlcore.testing.laws.inputs import Columns, current_columns, fields, loss_columns
from rlcore_algorithms import grpo
from rlcore_algorithms.reductions import token_mean
from tests.run import small
from tests.shelf import shelf
from tests.train import cases

NAN, INF = float("nan"), float("inf")
LOSSES, KLS, REDUCTIONS = shelf("loss"), shelf("kl"), shelf("reduction")


def reduced(loss, reduction, columns: Columns):
    """A loss as the number that an update makes of it, and its gradients by what a trainer makes; None if refused."""
    leaves = {n: columns[n].clone().requires_grad_() for n in current_columns(columns)}
    found = fields(invoke(loss, {**columns, **leaves}))[0]
    weights = invoke(reduction, columns)
    if found.dim() == 1 and weights.dim() == 2:
        return None
    value = weighted_loss(found, weights, columns["mask"])
    wanted = [leaves[r.name] for r in reads(loss) if r.name in leaves]
    return value, torch.autograd.grad(value, wanted)


@pytest.mark.parametrize("name", LOSSES)
def test_B28_a_loss_of_which_everything_is_masked_is_0_with_gradients_of_0(name):
    columns = loss_columns(3)
    off = torch.zeros_like(columns["mask"])
    columns |= {"mask": off, "counts": Counts.of(off, columns["group"], max_new_tokens=7)}
    for reduction in REDUCTIONS.values():
        found = reduced(LOSSES[name], reduction, columns)
        if found is not None:
            assert found[0] == 0, reduction
            assert all(torch.equal(gradient, torch.zeros_like(gradient)) for gradient in found[1]), reduction


@pytest.mark.parametrize("garbage", [NAN, -INF, 1e6])
@pytest.mark.parametrize("name", LOSSES)
def test_B28_B29_an_all_masked_row_beside_others_changes_nothing_whatever_stands_in_it(name, garbage):
    columns = loss_columns(4)
    row = ~columns["mask"].any(1)
    assert row.any()
    for column, x in columns.items():
        if isinstance(x, torch.Tensor) and x.dim() == 2 and x.is_floating_point() and column != "weight":
            columns[column] = torch.where(row[:, None], garbage, x)
    rest = {n: x[~row] if isinstance(x, torch.Tensor) else x for n, x in columns.items()}
    for reduction in REDUCTIONS.values():
        whole, alone = (reduced(LOSSES[name], reduction, c) for c in (columns, rest))
        if whole is None:
            continue
        torch.testing.assert_close(whole[0], alone[0])
        for gradient, expected in zip(whole[1], alone[1], strict=True):
            torch.testing.assert_close(gradient[~row], expected)
            assert not gradient[row].any()


@pytest.mark.parametrize("garbage", [NAN, INF, -INF, -300.0])
@pytest.mark.parametrize("name", sorted(KLS))
def test_B29_a_kl_term_never_looks_off_the_mask(name, garbage):
    rows, update = cases.batch(), Update((Term(KLS[name], token_mean, 0.1, name="kl"),))
    off = ~rows["mask"]
    columns = {c: rows[c] for c in ("ref_logprob", "old_logprob")}
    changed = []
    for given in (columns, {c: torch.where(off, garbage, x) for c, x in columns.items()}):
        subject = cases.trainer()
        subject.attach_reference(cases.trainer(cases.PlainModel(seed=1), frozen=True))
        result = subject.update(rows.assign(given), update, seed=0, max_new_tokens=16)
        assert result.finite
        changed.append((cases.weights(subject), result.metrics["loss"].value))
    assert cases.same(changed[0][0], changed[1][0])
    assert changed[0][1] == changed[1][1]


def test_B32_a_name_in_the_registry_is_the_function_of_that_name():
    assert set(names("kl")) == set(KLS)
    values = {name: invoke(get("kl", name), loss_columns(5)) for name in names("kl")}
    for name, function in KLS.items():
        assert get("kl", name) is function
        twins = [other for other, x in values.items() if other != name and torch.equal(x, values[name])]
        # A straight-through kind has the value of its kind and another gradient.
        assert twins in ([], [f"{name}_straight_through"], [name.removesuffix("_straight_through")])


@pytest.mark.parametrize("kind", ["kl", "kl_in_reward"])
@pytest.mark.parametrize("name", ["k4", "K3", "low_var_kl"])
def test_B32_an_unknown_name_of_a_kl_raises_and_is_never_another_one(kind, name):
    with pytest.raises(UnknownNameError, match=rf"unknown kl '{name}'.*nown: abs, .*k1, .*k3"):
        get("kl", name)
    with pytest.raises(UnknownNameError, match=f"unknown kl '{name}'"):
        load([f"{kind}={name}", f"algorithm.{kind}_coefficient=0.1"])


@pytest.mark.parametrize("name", ["clipped", "decoupled"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("ratio", [0.1, 0.75, 0.9, 1.0, 1.1, 1.25, 1.3, 2.0, 10.0])
def test_B34_B35_the_clip_on_a_grid_of_ratios_and_signs(name, sign, ratio):
    kept = min(max(ratio, 0.8), 1.28)
    expected = max(-sign * ratio, -sign * kept)
    if sign < 0:
        expected = min(expected, 3.0)
    on = torch.ones(1, 1, dtype=torch.bool)
    old = torch.full((1, 1), -1.0)
    columns = {"logprob": old + torch.tensor(ratio).log(), "old_logprob": old, "rollout_logprob": old, "mask": on}
    columns |= {"advantage": torch.full((1, 1), sign), "kept_logmass": torch.zeros(1, 1)}
    options = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0}
    found = fields(invoke(bind(LOSSES[name], **options), columns))[0]
    torch.testing.assert_close(found, torch.full((1, 1), expected), rtol=0, atol=1e-5)


def test_B37_sampler_trainer_and_reference_speak_of_one_temperature(tmp_path):
    run = small.make(
        small.save_model(tmp_path / "model"),
        tmp_path,
        algorithm=grpo(group_size=2, kl_coefficient=0.1, minibatches=2),
        sampling={"temperature": 0.5},
        learning_rate=0.0,
        steps=1,
        training={"precision": "float32"},
    ).train()
    assert run.history.column("update/ratio") == pytest.approx([1.0], abs=1e-5)
    assert run.history.column("update/old_kl") == pytest.approx([0.0], abs=1e-5)
    assert run.history.column("update/loss/kl") == pytest.approx([0.0], abs=1e-9)
    # Against what the sampler said while it drew.
    assert run.history.column("policy/kl") == pytest.approx([0.0], abs=1e-5)
