"""KL over the whole vocabulary as a term: the trainer reads it beside the reference, in one process."""

from dataclasses import replace

import pytest
import torch

from rlcore.errors import GraphError, ModelError, UnknownNameError
from rlcore.math.kl import full as between
from rlcore.protocols import Term, Update
from rlcore_algorithms import grpo
from rlcore_algorithms.kls import full
from tests.run.small import make, read, save_model
from tests.train import cases
from tests.train.cases import PlainModel, batch, trainer

UPDATE = Update((Term(full, cases.token_mean),))


def beside(**settings):
    own = trainer(**settings)
    own.attach_reference(trainer(PlainModel(seed=1), frozen=True))
    return own


def logits_of(model, rows):
    """All logits at once: [sampled tokens, V]."""
    tokens = [row[:length] for row, length in zip(rows["tokens"], rows.length.tolist(), strict=True)]
    found = []
    for row in tokens:
        so_far = model.module["embedding"][row].cumsum(0) / torch.arange(1, len(row) + 1)[:, None]
        found.append(torch.tanh(so_far @ model.module["middle"])[:-1] @ model.head.weight.T + model.head.bias)
    on = rows["mask"] if "mask" in rows.names else rows["sampled"]
    return torch.cat([z[mask[1 : len(z) + 1]] for z, mask in zip(found, on, strict=True)])


def test_its_value_and_gradient_are_those_of_all_logits_at_once():
    rows = batch()
    own = beside(token_budget=20)
    theirs = PlainModel(seed=1)
    direct = PlainModel()
    value = between(logits_of(direct, rows) / 0.7, logits_of(theirs, rows).detach() / 0.7).mean()
    value.backward()
    found = own.gradient(rows, UPDATE, seed=0, temperature=0.7)
    for name, parameter in direct.module.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-9, atol=1e-12)
    result = own.update(rows, UPDATE, seed=0, temperature=0.7)
    assert result.metrics.values()["loss"] == pytest.approx(float(value.detach()), rel=1e-6)


def test_a_trainer_alone_does_not_offer_it():
    assert "full_kl" not in trainer().readouts
    with pytest.raises(UnknownNameError, match="full_kl"):
        trainer().update(batch(), UPDATE, seed=0)


def test_models_of_two_vocabularies_are_refused():
    with pytest.raises(ModelError, match="11 tokens beside 12"):
        trainer().attach_reference(trainer(PlainModel(vocabulary=12), frozen=True))


def test_as_kl_in_the_loss_it_loads_the_reference_and_no_pass_of_its_own():
    plan = replace(grpo(), kl=full, kl_coefficient=0.1).graph().resolve()
    assert "reference" in plan.roles
    assert "ref_logprob" in plan.pruned
    assert "reference" not in replace(grpo(), kl=None, kl_coefficient=0.0).graph().resolve().roles


def test_as_kl_in_the_reward_it_is_a_gap():
    algorithm = replace(grpo(), kl=None, kl_coefficient=0.0, kl_in_reward=full, kl_in_reward_coefficient=0.1)
    with pytest.raises(GraphError, match="full_kl"):
        algorithm.graph().resolve()


def test_a_run_with_it_trains_and_starts_at_no_distance(tmp_path):
    model = save_model(tmp_path / "model")
    run = make(model, tmp_path, algorithm=replace(grpo(group_size=2), kl=full, kl_coefficient=0.5))
    run.train()
    kl = [row["update/loss/kl"] for row in read(tmp_path / "run" / "metrics.jsonl") if "update/loss/kl" in row]
    assert kl[0] == pytest.approx(0, abs=1e-6)
    assert kl[-1] > 1e-7
