"""An update's gradient: blind to splits, to padding, to what lies off the mask."""

import math
import sys
from dataclasses import replace

import pytest
import torch

from rlcore.batch import Batch
from rlcore.errors import ComponentError, DataError, GraphError, UnknownNameError
from rlcore.protocols import LossOutput, Term, Update
from rlcore.train.update import with_mask
from tests.train import cases
from tests.train.cases import UPDATE, PlainModel, TableModel, batch, gradients, same, tiny_trainer, trainer, weights


def gradient_of(subject, parts, update=UPDATE, *, token_budget=10_000):
    """The gradient of rows that lie on several ranks: each sees the counts of all, and gradients are summed."""
    subject.token_budget = token_budget
    loop = subject.update_loop(update, parts[0].table, seed=0, temperature=0.7, max_new_tokens=16)
    parts = [with_mask(part) for part in parts]
    counts = loop.count(Batch.concat(parts))
    losses = [loop.backward(part, counts).sum() for part in parts]
    found = gradients(subject)
    subject.optimizer.zero_grad()
    return found, float(sum(losses)), loop.metrics.values()


def distance(one, other):
    norm = math.sqrt(sum(float(g.square().sum()) for g in one.values()))
    return math.sqrt(sum(float((one[name] - other[name]).square().sum()) for name in one)) / norm


def ranks(rows, count, *, by=None):
    order = torch.arange(len(rows)) if by is None else by
    return [rows.take(share) for share in torch.tensor_split(order, count)]


@pytest.mark.parametrize("token_budget", [1, 15, 40])
@pytest.mark.parametrize("share_prompts", [False, True])
def test_microbatches_do_not_change_the_gradient_in_float64(token_budget, share_prompts):
    subject = trainer(share_prompts=share_prompts)
    whole, loss, metrics = gradient_of(trainer(share_prompts=False), [batch()])
    split, split_loss, split_metrics = gradient_of(subject, [batch()], token_budget=token_budget)
    assert distance(whole, split) < 1e-9
    assert split_loss == pytest.approx(loss, rel=1e-12)
    assert split_metrics == pytest.approx(metrics)


@pytest.mark.parametrize("number", [2, 5])
def test_ranks_do_not_change_the_gradient_in_float64(number):
    subject, rows = trainer(), batch()
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(3))
    whole, loss, _ = gradient_of(subject, [rows])
    split, split_loss, _ = gradient_of(subject, ranks(rows, number, by=order))
    assert distance(whole, split) < 1e-9
    assert split_loss == pytest.approx(loss, rel=1e-12)


def test_microbatches_ranks_order_and_prompt_sharing_do_not_change_the_gradient_of_a_real_model():
    rows = batch(groups=2, vocabulary=80)
    subject = tiny_trainer(share_prompts=False)
    whole, _, _ = gradient_of(subject, [rows])
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(3))
    assert distance(whole, gradient_of(subject, [rows.take(order)])[0]) < 1e-5
    assert distance(whole, gradient_of(subject, ranks(rows, 3, by=order), token_budget=15)[0]) < 1e-5
    assert distance(whole, gradient_of(tiny_trainer(), [rows], token_budget=15)[0]) < 1e-5


def test_a_longer_row_beside_it_does_not_change_a_row_s_gradient():
    rows = batch()
    one = rows.take([0])
    longer = rows.assign({"mask": rows["mask"] & (torch.arange(len(rows)) == 0)[:, None]})
    update = Update((Term(cases.nll, cases.token_mean), Term(cases.row_nll, cases.row_mean)))
    subject = trainer()
    assert distance(gradient_of(subject, [one], update)[0], gradient_of(subject, [longer], update)[0]) < 1e-12
    # Rows with nothing on were not run.
    subject.model.positions_run = 0
    gradient_of(subject, [longer], update)
    assert subject.model.positions_run == int(one.length.sum())


def test_the_mean_over_ranks_of_unlike_sizes_is_the_mean_over_tokens():
    # B25
    def advised(logprob, advantage):
        return advantage + 0 * logprob

    def rank(values):
        row = [0, *values]
        on = [False] + [True] * len(values)
        return Batch(
            {
                "length": [len(row)],
                "tokens": [1] * len(row),
                "sampled": on,
                "mask": on,
                "advantage": [float(v) for v in row],
            }
        )

    parts = [rank([4]), rank([1, 1, 1])]
    update = Update((Term(advised, cases.token_mean),))
    assert gradient_of(trainer(), parts, update)[1] == pytest.approx(1.75)
    assert gradient_of(trainer(), [parts[1], parts[0]], update)[1] == pytest.approx(1.75)


@pytest.mark.parametrize("token_budget", [1, 5, 100])
def test_a_sum_over_a_constant_is_the_same_for_every_microbatch_and_width(token_budget):
    # B26
    def advised(logprob, advantage):
        return advantage + 0 * logprob

    rows = [[1, 1, 1, 1], [2, 2], [4], [1, 3]]
    for width in (5, 8):
        padded = torch.zeros(4, width)
        on = torch.zeros(4, width, dtype=torch.bool)
        for i, row in enumerate(rows):
            padded[i, 1 : 1 + len(row)] = torch.tensor(row, dtype=torch.float32)
            on[i, 1 : 1 + len(row)] = True
        length = torch.tensor([1 + len(row) for row in rows])
        tokens = torch.ones(4, width, dtype=torch.int64)
        given = Batch({"length": length, "tokens": tokens, "sampled": on, "mask": on, "advantage": padded})
        subject = trainer()
        subject.token_budget = token_budget
        update = Update((Term(advised, cases.over_constant),))
        result = subject.update(given, update, seed=0, max_new_tokens=4)
        assert result.metrics["loss"].value == pytest.approx(1.0)


def test_nothing_on_anywhere_is_a_loss_of_zero_and_no_step():
    # B28
    rows = batch()
    off = rows.assign({"mask": torch.zeros_like(rows["mask"])})
    subject = trainer()
    found, loss, _ = gradient_of(subject, [off])
    assert (found, loss) == ({}, 0.0)
    before = weights(subject)
    result = subject.update(off, UPDATE, seed=0, max_new_tokens=16)
    assert result.finite
    assert result.metrics["updates/empty"].value == 1
    assert same(before, weights(subject))
    assert subject.optimizer.updates == 0


def test_terms_that_read_no_weights_give_no_gradient():
    def constant(advantage):
        return advantage

    for update in (Update((Term(constant, cases.token_mean),)), Update((Term(cases.nll, cases.token_mean, 0.0),))):
        subject = trainer()
        before = weights(subject)
        assert subject.update(batch(), update, seed=0).finite
        assert same(before, weights(subject))


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
def test_garbage_off_the_mask_changes_nothing(garbage):
    rows = batch()
    off = ~rows["mask"]
    names = ("advantage", "old_logprob", "ref_logprob")
    spoiled = rows.assign({name: torch.where(off, garbage, rows[name]) for name in names})
    subject = trainer()
    clean, loss, _ = gradient_of(subject, [rows])
    found, spoiled_loss, _ = gradient_of(subject, [spoiled])
    assert same(clean, found)
    assert loss == spoiled_loss


def test_a_token_off_the_mask_has_no_gradient_path_even_if_the_model_says_infinity():
    # Token 2 after token 0 has probability 0; it is sampled, and masked off.
    table = torch.tensor([[0.0, 0.0, -math.inf], [0.0, 1.0, 2.0], [1.0, 0.0, 0.0]])
    on = torch.tensor([[False, True, False, True]])
    rows = Batch({"length": [4], "tokens": [[0, 1, 1, 2]], "sampled": [[False, True, True, True]], "mask": on})
    rows = rows.assign({"tokens": torch.tensor([[1, 0, 2, 1]]), "mask": torch.tensor([[False, True, False, True]])})
    subject = trainer(TableModel(table))
    found, loss, _ = gradient_of(subject, [rows], Update((Term(cases.nll, cases.token_mean),)))
    assert math.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in found.values())
    assert found["table"][0].abs().sum() == 0


def test_a_loss_that_is_not_finite_skips_the_update():
    rows = batch()
    bad = rows["advantage"].clone()
    bad[1] = math.nan
    subject = trainer()
    before = weights(subject)
    for _ in range(2):
        result = subject.update(rows.assign({"advantage": bad}), UPDATE, seed=0, max_new_tokens=16)
        assert not result.finite
        assert result.metrics["updates/skipped"].value == 1
    assert same(before, weights(subject))
    assert subject.update(rows, UPDATE, seed=0, max_new_tokens=16).finite
    assert not same(before, weights(subject))


def test_a_gradient_that_is_not_finite_skips_only_its_own_minibatch():
    def root(logprob, advantage):
        # The value is 0 and the gradient infinite where the advantage is 0.
        return torch.sqrt((logprob - logprob.detach()).abs() + advantage.abs())

    rows = batch(groups=2)
    advantage = rows["advantage"].clone()
    advantage[0] = 0.0
    subject = trainer()
    result = subject.update(
        rows.assign({"advantage": advantage}), Update((Term(root, cases.token_mean),), minibatches=2), seed=0
    )
    assert not result.finite
    assert result.metrics["updates/skipped"].value == 1
    assert result.metrics["updates/applied"].value == 1
    assert subject.optimizer.updates == 1


def test_a_coefficient_may_be_a_column_without_dimensions():
    subject = trainer()
    plain = Update((Term(cases.nll, cases.token_mean, 0.25),))
    named = Update((Term(cases.nll, cases.token_mean, "kl_coefficient"),))
    expected, _, _ = gradient_of(subject, [batch()], plain)
    with_column = batch().assign({"kl_coefficient": 0.25})
    assert distance(expected, gradient_of(subject, [with_column], named)[0]) < 1e-12
    subject.update(batch(), named, seed=0, scalars={"kl_coefficient": 0.25})
    with pytest.raises(GraphError, match="kl_coefficient"):
        subject.update(batch(), named, seed=0)


def test_weights_multiply_unless_the_loss_reads_them():
    def own(logprob, weight):
        return -logprob * weight.square()

    rows = batch()
    weighed = rows.assign({"weight": torch.where(rows["mask"], 3.0, math.nan)})
    subject = trainer()
    plain, _, _ = gradient_of(subject, [rows], Update((Term(cases.nll, cases.token_mean),)))
    times, _, _ = gradient_of(subject, [weighed], Update((Term(cases.nll, cases.token_mean),)))
    reads_it, _, _ = gradient_of(subject, [weighed], Update((Term(own, cases.token_mean),)))
    for name in plain:
        torch.testing.assert_close(times[name], 3 * plain[name])
        torch.testing.assert_close(reads_it[name], 9 * plain[name])


def test_a_loss_per_row_goes_with_row_weights_and_a_token_loss_is_averaged_in_its_row_first():
    def mean_nll(logprob, mask):
        return -(logprob * mask).sum(1) / mask.sum(1).clamp(min=1)

    subject = trainer()
    by_row, _, _ = gradient_of(subject, [batch()], Update((Term(mean_nll, cases.row_mean),)))
    by_token, _, _ = gradient_of(subject, [batch()], Update((Term(cases.nll, cases.row_mean),)))
    assert distance(by_row, by_token) < 1e-12


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (Update((Term(cases.row_nll, cases.token_mean),)), "one value per row"),
        (Update((Term(lambda logprob: logprob.sum(), cases.token_mean),)), r"returned \(\)"),
        (Update((Term(cases.nll, lambda mask, counts: mask.sum()),)), "reduction"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_before_the_model_runs(update, said):
    subject = trainer()
    with pytest.raises(ComponentError, match=said):
        subject.update(batch(), update, seed=0)
    assert subject.model.positions_run == 0


def test_a_loss_per_row_does_not_swallow_weights():
    rows = batch().assign({"weight": torch.ones(batch()["mask"].shape)})
    with pytest.raises(ComponentError, match="weight"):
        trainer().update(rows, Update((Term(cases.row_nll, cases.row_mean),)), seed=0)


def test_columns_and_readouts_that_are_not_there_are_named_before_the_model_runs():
    def needs_value(new_value, returns):
        return (new_value - returns).square()

    def needs_returns(logprob, returns):
        return logprob * returns

    subject = trainer()
    with pytest.raises(UnknownNameError, match="value"):
        subject.update(batch(), Update((Term(needs_value, cases.token_mean),)), seed=0)
    with pytest.raises(GraphError, match="returns"):
        subject.update(batch(), Update((Term(needs_returns, cases.token_mean),)), seed=0)
    assert subject.model.positions_run == 0


def test_an_optional_column_is_taken_if_it_is_there():
    seen = []

    def maybe(logprob, ref_logprob=None):
        seen.append(ref_logprob is not None)
        return -logprob

    trainer().update(batch(), Update((Term(maybe, cases.token_mean),)), seed=0)
    trainer().update(batch().drop(["ref_logprob"]), Update((Term(maybe, cases.token_mean),)), seed=0)
    assert seen == [True, True, False, False]


def test_metrics_are_reduced_over_the_whole_mask_whatever_the_microbatches():
    def watched(logprob, advantage, length):
        metrics = {
            "token": advantage,
            "row": length.double(),
            "largest": (advantage, "max"),
            "smallest": (advantage, "min"),
            "total": (advantage, "sum"),
        }
        return LossOutput(-logprob, metrics)

    rows = batch()
    on = rows["mask"]
    expected = rows["advantage"][on].double()
    for token_budget in (1, 20, 1000):
        subject = trainer()
        subject.token_budget = token_budget
        found = subject.update(rows, Update((Term(watched, cases.token_mean),)), seed=0).metrics.values()
        assert found["token"] == pytest.approx(float(expected.mean()))
        assert found["total"] == pytest.approx(float(expected.sum()))
        assert found["largest"] == float(expected.max())
        assert found["smallest"] == float(expected.min())
        assert found["row"] == pytest.approx(float(rows.length[on.any(1)].double().mean()))


def test_measured_readouts_are_reported_and_change_no_gradient():
    plain, watching = trainer(), trainer(measure=("entropy", "value"))
    update = Update((Term(cases.nll, cases.token_mean),))
    assert "entropy" not in plain.update(batch(), update, seed=0).metrics
    result = watching.update(batch(), update, seed=0)
    assert 0 < result.metrics["entropy"].value < math.log(cases.VOCABULARY)
    assert same(weights(plain), weights(watching))


def test_a_first_token_cannot_be_sampled():
    rows = batch()
    sampled = rows["sampled"].clone()
    sampled[2, 0] = True
    with pytest.raises(DataError, match="first token"):
        trainer().forward(rows.assign({"sampled": sampled}), {"old_logprob": "logprob"})


def test_rows_equal_in_an_index_column_that_a_loss_reads_are_seen_together():
    def paired(logprob, pair, mask):
        assert all((pair == p).sum() == 2 for p in pair.unique())
        return -(logprob * mask).sum(1)

    rows = batch(groups=2)
    rows = rows.assign({"pair": torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]), "mask": rows["sampled"]})
    subject = trainer()
    subject.token_budget = 8
    # Pairs link the two groups, so two minibatches become one.
    subject.update(rows, Update((Term(paired, cases.row_mean),), minibatches=2), seed=0)
    assert subject.optimizer.updates == 1


def test_selects_run_once_per_optimizer_update_over_all_its_rows_without_gradient():
    calls = []

    def strongest(entropy, mask, old_logprob):
        assert not entropy.requires_grad
        assert (entropy[~mask] == 0).all()
        calls.append((len(mask), int(mask.sum())))
        return {"mask": mask & (entropy >= entropy[mask].median())}

    rows = batch(groups=4)
    subject = trainer()
    subject.token_budget = 10
    update = Update((Term(cases.nll, cases.token_mean),), selects=(strongest,), minibatches=2, epochs=2)
    subject.update(rows, update, seed=0)
    assert len(calls) == 4
    assert sum(rows_seen for rows_seen, _ in calls) == 2 * len(rows)
    assert subject.optimizer.updates == 4


def test_what_a_select_turns_off_is_in_no_denominator_and_later_selects_see_it():
    def first_half(mask):
        return {"mask": mask & (mask.cumsum(1) <= 1)}

    seen = []

    def count_them(mask, logprob):
        seen.append(int(mask.sum()))
        assert int((logprob != 0).sum()) == int(mask.sum())
        return {"weight": 2.0 * mask}

    rows = batch()
    expected = int(rows["mask"].any(1).sum())
    subject = trainer()
    subject.update(rows, Update((Term(cases.nll, cases.token_mean),), selects=(first_half, count_them)), seed=0)
    assert seen == [expected]
    other = trainer()
    mask = first_half(rows["mask"])["mask"]
    other.update(rows.assign({"mask": mask}), Update((Term(cases.nll, cases.token_mean, 2.0),)), seed=0)
    assert all(torch.allclose(a, b) for a, b in zip(weights(subject).values(), weights(other).values(), strict=True))


def test_a_select_cannot_turn_tokens_on():
    def everything(mask):
        return {"mask": torch.ones_like(mask)}

    rows = batch()
    with pytest.raises(ComponentError, match="turned on"):
        trainer().update(rows, Update((Term(cases.nll, cases.token_mean),), selects=(everything,)), seed=0)


def test_rows_of_one_minibatch_are_whole_groups_and_every_row_trains_once_per_epoch():
    seen = []

    def watched(logprob, group, length):
        seen.append(sorted(group.tolist()))
        return -logprob

    rows = batch(groups=4)
    rows = rows.assign({"mask": rows["sampled"]})
    trainer().update(rows, Update((Term(watched, cases.token_mean),), minibatches=2, epochs=3), seed=1)
    epochs = seen[1:]
    assert len(epochs) == 6
    for first, second in zip(epochs[::2], epochs[1::2], strict=True):
        assert sorted(first + second) == sorted(rows["group"].tolist())
        assert not set(first) & set(second)


def test_two_terms_of_one_loss_have_their_own_metrics():
    update = Update(
        (Term(cases.nll, cases.token_mean), Term(cases.nll, cases.row_mean, 0.5), Term(cases.spread, cases.row_mean))
    )
    found = trainer().update(batch(), update, seed=0).metrics.values()
    assert {"loss/nll_1", "loss/nll_2", "loss/spread"} <= found.keys()
    assert found["loss"] == pytest.approx(found["loss/nll_1"] + found["loss/nll_2"] + found["loss/spread"])


def test_supervised_rows_train_on_their_completion_without_a_mask_or_a_group():
    whole = batch()
    rows = Batch({name: whole.stored(name) for name in ("length", "tokens", "sampled")})
    model = PlainModel()
    subject = trainer(model, learning_rate=0.05)
    update = Update((Term(cases.nll, cases.token_mean),))
    losses = [subject.update(rows, update, seed=i).metrics["loss"].value for i in range(30)]
    assert losses[-1] < 0.7 * losses[0]
    assert replace(update, epochs=2).epochs == 2


def test_a_batch_goes_through_three_modules_each_at_most_once_before_the_optimizer_steps():
    # A reader of an update follows a batch from the trainer into the update and the forward pass, and nowhere else.
    handed, kept = [], []

    def watch(frame, event, _):
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("rlcore.") or module == "rlcore.batch":
            return
        if frame.f_back is not None and frame.f_back.f_globals.get("__name__") == module:
            return
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if isinstance(value := frame.f_locals.get(name), Batch):
                kept.append(value)  # so that no other batch gets its id
                handed.append((id(value), module))

    def positive(logprob, advantage, mask):
        return {"mask": mask & (advantage > 0), "metrics": {"share": (advantage > 0).float()}}

    subject, rows = trainer(token_budget=20), batch()
    update = replace(UPDATE, selects=(positive,), epochs=2, minibatches=2, provides={"old_logprob": "logprob"})
    sys.setprofile(watch)
    try:
        result = subject.update(rows, update, seed=0, temperature=0.7, max_new_tokens=16)
    finally:
        sys.setprofile(None)
    assert result.metrics.values()["updates/applied"] == 4
    assert {module for _, module in handed} == {f"rlcore.train.{name}" for name in ("trainer", "update", "forward")}
    assert len(handed) == len(set(handed))
