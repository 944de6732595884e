"""The trainer as the graph sees it: forward, offers, versions, resume, critics."""

import copy
import math
import pickle

import pytest
import torch

from rlcore.batch import Batch
from rlcore.component import bind
from rlcore.errors import CheckpointError, ConfigError, ModelError, UnknownNameError
from rlcore.protocols import LossOutput, Term, Trainer, Update
from rlcore.train.head import VALUE
from rlcore.train.optimizers import adamw
from rlcore.train.schedule import constant, cosine
from rlcore.train.trainer import TrainerConfig
from tests.tiny import make_tiny, save_tiny
from tests.train import cases
from tests.train.cases import PlainModel, TableModel, batch, same, tiny_trainer, trainer, weights

OLD = {"old_logprob": "logprob"}


def ratio_watch(logprob, old_logprob, mask):
    ratio = torch.exp(logprob - old_logprob)
    return LossOutput(-ratio * mask, {"highest": (ratio, "max"), "lowest": (ratio, "min")})


WATCH = Update((Term(ratio_watch, cases.token_mean),))


def rows_of(tokens, prompt):
    on = [[i >= prompt for i in range(len(tokens))]]
    return Batch({"length": [len(tokens)], "tokens": [tokens], "sampled": on, "mask": on})


def test_it_keeps_the_protocol():
    subject = tiny_trainer()
    assert isinstance(subject, Trainer)
    assert {"logprob", "entropy", "square_sum"} <= subject.readouts
    assert VALUE not in subject.readouts


def test_a_config_survives_pickling_and_starts_where_it_lands(tmp_path):
    folder = save_tiny(tmp_path / "model", num_hidden_layers=1)
    config = pickle.loads(pickle.dumps(TrainerConfig(model=str(folder), device="cpu", precision="float32")))
    subject = config.start()
    assert subject.version == 0
    subject.save_model(tmp_path / "again")
    again = TrainerConfig(model=str(tmp_path / "again"), device="cpu", precision="float32").start()
    assert same(weights(subject), weights(again))


def test_log_probabilities_are_those_of_the_state_before_the_token():
    # B38
    table = torch.log(torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]], dtype=torch.float64))
    found = trainer(TableModel(table)).forward(rows_of([0, 1, 2], 1), OLD)["old_logprob"]
    assert found.tolist() == pytest.approx([0.0, -1.609438, -1.203973], abs=1e-6)


def test_log_probabilities_are_at_the_sampling_temperature():
    # B37
    model = TableModel([[2.0, 0.0], [2.0, 0.0]])
    found = trainer(model).forward(rows_of([1, 0], 1), OLD, temperature=0.5)["old_logprob"]
    assert found.tolist() == pytest.approx([0.0, -0.018150], abs=1e-6)


def test_forward_agrees_with_the_plain_hugging_face_model():
    subject = tiny_trainer()
    rows = batch(vocabulary=80)
    found = subject.forward(rows, {"old_logprob": "logprob", "old_entropy": "entropy"}, temperature=0.8)
    plain = make_tiny(num_hidden_layers=2).module
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        for i in range(len(rows)):
            ids = rows["tokens"][i, : rows.length[i]]
            scores = torch.log_softmax(plain(ids[None]).logits[0].float() / 0.8, -1)
            expected = scores[:-1].gather(1, ids[1:, None])[:, 0] * rows["sampled"][i, 1 : rows.length[i]]
            torch.testing.assert_close(
                rows.pad(found["old_logprob"])[i, 1 : rows.length[i]], expected, atol=2e-5, rtol=0
            )
    assert (found["old_entropy"][rows.flat("sampled")] > 0).all()
    assert (found["old_entropy"][~rows.flat("sampled")] == 0).all()


def test_forward_is_blind_to_microbatches_and_runs_only_rows_with_something_sampled():
    rows = batch()
    sampled = rows["sampled"].clone()
    sampled[3] = False
    rows = rows.assign({"sampled": sampled})
    whole = trainer().forward(rows, OLD)["old_logprob"]
    subject = trainer(token_budget=9, share_prompts=False)
    torch.testing.assert_close(subject.forward(rows, OLD)["old_logprob"], whole, rtol=1e-12, atol=1e-12)
    assert subject.model.positions_run == int(rows.length.sum() - rows.length[3])
    assert (rows.pad(whole)[3] == 0).all()


def test_common_prompts_are_run_once():
    rows = batch(groups=2, size=4, prompt=3)
    shared, alone = trainer(), trainer(share_prompts=False)
    torch.testing.assert_close(shared.forward(rows, OLD)["old_logprob"], alone.forward(rows, OLD)["old_logprob"])
    assert alone.model.positions_run - shared.model.positions_run == 2 * 3 * 3


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_at_learning_rate_zero_the_ratio_is_one(temperature, precision):
    subject = tiny_trainer(learning_rate=0.0, precision=precision)
    rows = batch(groups=2, vocabulary=80)
    rows = rows.assign({"mask": rows["sampled"]})
    rows = rows.assign(subject.forward(rows, OLD, temperature=temperature))
    before = weights(subject)
    for _ in range(2):
        found = subject.update(rows, WATCH, seed=0, temperature=temperature).metrics.values()
        assert found["highest"] == found["lowest"] == 1.0
    assert same(before, weights(subject))


def test_what_an_update_offers_is_bit_equal_to_a_forward_pass_before_it():
    rows = batch(groups=2, vocabulary=80).drop(["old_logprob"])
    rows = rows.assign({"mask": rows["sampled"]})
    update = Update((Term(cases.clipped, cases.token_mean),))
    offering, reading = tiny_trainer(), tiny_trainer()
    offering.update(rows, Update(update.terms, provides=OLD), seed=0)
    reading.update(rows.assign(reading.forward(rows, OLD)), update, seed=0)
    assert same(weights(offering), weights(reading))


@pytest.mark.parametrize("shape", [dict(epochs=2), dict(minibatches=2), dict(selects=True)])
def test_what_an_update_of_several_offers_is_of_the_weights_before_the_first(shape):
    def keep(mask, old_logprob):
        assert (old_logprob[mask] < 0).all()
        return {"mask": mask}

    selects = (keep,) if shape.pop("selects", False) else ()
    rows = batch().drop(["old_logprob"])
    terms = (Term(cases.clipped, cases.token_mean),)
    offering, reading = trainer(learning_rate=0.1), trainer(learning_rate=0.1)
    offering.update(rows, Update(terms, provides=OLD, selects=selects, **shape), seed=0)
    reading.update(rows.assign(reading.forward(rows, OLD)), Update(terms, selects=selects, **shape), seed=0)
    for name, found in weights(offering).items():
        torch.testing.assert_close(found, weights(reading)[name])


def test_the_version_grows_by_one_with_every_update():
    subject = trainer()
    subject.update(batch(), Update(cases.UPDATE.terms, epochs=2, minibatches=2), seed=0, max_new_tokens=16)
    assert (subject.version, subject.optimizer.updates) == (1, 4)


def test_the_learning_rate_climbs_per_optimizer_update():
    subject = trainer(learning_rate=1.0, schedule=bind(constant, warmup_steps=4))
    update = Update((Term(cases.nll, cases.token_mean),), epochs=4)
    assert subject.update(batch(), update, seed=0).metrics["learning_rate"].value == pytest.approx(
        (0.25 + 0.5 + 0.75 + 1) / 4
    )


def test_a_resumed_trainer_goes_on_bit_for_bit():
    rows = batch(groups=2, vocabulary=80)
    settings = dict(
        schedule=bind(cosine, warmup_steps=2),
        optimizer=bind(adamw, weight_decay=0.1),
        total_steps=8,
        max_grad_norm=0.1,
    )
    update = Update(cases.UPDATE.terms, minibatches=2)
    straight = tiny_trainer(**settings)
    for step in range(2):
        straight.update(rows, update, seed=step, max_new_tokens=16)
    state = copy.deepcopy(straight.state_dict())
    resumed = trainer(make_tiny(num_hidden_layers=2, seed=9), **settings)
    resumed.load_state_dict(state)
    for subject in (straight, resumed):
        subject.update(rows, update, seed=2, max_new_tokens=16)
    assert same(weights(straight), weights(resumed))
    assert straight.version == resumed.version == 3
    assert straight.optimizer.learning_rate == resumed.optimizer.learning_rate


def test_a_state_of_another_kind_of_trainer_is_refused():
    with pytest.raises(CheckpointError, match="value_head"):
        trainer().load_state_dict(trainer(head="value").state_dict())
    with pytest.raises(CheckpointError, match="optimizer"):
        trainer(frozen=True).load_state_dict(trainer().state_dict())


def squared(new_value, returns):
    return (new_value - returns).square()


def test_a_critic_learns_the_returns_and_speaks_of_the_state_before_the_token():
    rows = batch()
    rows = rows.assign({"mask": rows["sampled"]})
    critic = trainer(PlainModel(dtype=torch.float32), head="value", learning_rate=0.02)
    assert critic.readouts == {VALUE}
    assert critic.forward(rows, {"value": VALUE})["value"].abs().max() == 0
    # The return is a function of the token before, which a value of the state after it could only guess.
    returns = torch.zeros(rows["mask"].shape)
    returns[:, 1:] = (rows["tokens"][:, :-1] % 2).float()
    rows = rows.assign({"returns": returns})
    update = Update((Term(squared, cases.token_mean),))
    losses = [critic.update(rows, update, seed=i).metrics["loss"].value for i in range(150)]
    assert losses[-1] < 0.3 * losses[0]


def test_the_value_of_a_token_is_the_head_at_the_token_before():
    # B23
    critic = trainer(TableModel([[10.0, 0, 0, 0], [11, 0, 0, 0], [12, 0, 0, 0], [13, 0, 0, 0]]), head="value")
    with torch.no_grad():
        critic.forward_pass.value_head.weight[0] = 1.0
    found = critic.forward(rows_of([0, 1, 2, 3], 2), {"value": VALUE, "bootstrap_value": VALUE})
    assert found["value"].tolist() == [0, 0, 11, 12]
    assert found["bootstrap_value"].tolist() == [13]


def test_a_critic_is_saved_with_its_head(tmp_path):
    critic = trainer(make_tiny(num_hidden_layers=1), head="value")
    rows = batch(vocabulary=80).assign({"returns": torch.ones(batch()["mask"].shape)})
    critic.update(rows, Update((Term(squared, cases.token_mean),)), seed=0)
    critic.save_model(tmp_path / "critic")
    again = TrainerConfig(model=str(tmp_path / "critic"), head="value", precision="float32", device="cpu").start()
    expected = critic.forward(rows, {"value": VALUE})["value"]
    assert expected.abs().max() > 0
    torch.testing.assert_close(again.forward(rows, {"value": VALUE})["value"], expected)


def test_a_frozen_trainer_reads_and_cannot_be_updated():
    reference = trainer(frozen=True)
    assert reference.forward(batch(), {"ref_logprob": "logprob"})["ref_logprob"].min() < 0
    with pytest.raises(ModelError, match="frozen"):
        reference.update(batch(), cases.UPDATE, seed=0)


def test_a_readout_that_the_head_lacks_is_named():
    with pytest.raises(UnknownNameError, match="logprob"):
        trainer().forward(batch(), {"old_logprob": "logprobs"})
    with pytest.raises(UnknownNameError, match="value"):
        trainer(head="value").forward(batch(), OLD)


def test_a_plugin_s_readout_is_read_from_the_same_chunk():
    def margin(logits, token):
        return logits.topk(2).values.diff().abs().squeeze(-1)

    subject = trainer(readouts={"margin": margin})
    assert "margin" in subject.readouts
    assert subject.forward(batch(), {"old_logprob": "margin"})["old_logprob"].max() > 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(schedule=cosine), "total_steps"),
        (dict(token_budget=0), "token_budget"),
        (dict(max_grad_norm=0.0), "max_grad_norm"),
        (dict(learning_rate=-1.0), "learning_rate"),
        (dict(head="valu"), "allowed: policy, value"),
    ],
)
def test_settings_that_cannot_train_are_refused_before_a_model_loads(settings, said):
    with pytest.raises(ConfigError, match=said):
        TrainerConfig(model="nowhere", **settings)


def test_a_trainer_without_a_model_says_so():
    with pytest.raises(ModelError, match="no model"):
        TrainerConfig().start()


def test_bfloat16_is_near_float32_and_its_weights_stay_float32():
    rows = batch(groups=2, vocabulary=80)
    exact, fast = tiny_trainer(), tiny_trainer(precision="bfloat16")
    a, b = (subject.forward(rows, OLD)["old_logprob"] for subject in (exact, fast))
    assert b.dtype == torch.float32
    assert 0 < (a - b).abs().max() < 0.3
    fast.update(rows, cases.UPDATE, seed=0, max_new_tokens=16)
    assert all(p.dtype == torch.float32 for p in fast.model.module.parameters())
    assert math.isfinite(float(fast.forward(rows, OLD)["old_logprob"].sum()))
