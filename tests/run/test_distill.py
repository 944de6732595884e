"""On-policy distillation: a run against a plain PyTorch loop, and what it must be told."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from rlcore import Run
from rlcore.config import load
from rlcore.errors import ConfigError, ModelError, RunError
from rlcore_algorithms import distill
from tests.run import small


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return small.save_model(place / "student"), small.save_model(place / "teacher", seed=5)


def make(models, where, algorithm, **settings):
    student, teacher = models
    roles = {"teacher": {"model": str(teacher)}}
    how = {"algorithm": algorithm, "reward": None, "roles": roles, "training": {"precision": "float32"}}
    return small.make(student, where, **{**how, **settings})


def divergence(student, teacher, batch, top):
    """The mean over drawn tokens, by two modules of transformers and nothing of ours."""
    total, count = 0.0, 0
    split = batch.length.tolist()
    for tokens, on in zip(batch.flat("tokens").split(split), batch.flat("sampled").split(split), strict=True):
        log_p, log_q = (m(tokens[None]).logits[0, :-1].log_softmax(-1)[on[1:]] for m in (student, teacher))
        if top is None:
            total = total + (log_p.exp() * (log_p - log_q)).sum()
        else:
            places = log_q.topk(top or log_q.shape[-1]).indices
            log_p, log_q = log_p.gather(-1, places), log_q.gather(-1, places)
            total = total + (log_q.exp() * (log_q - log_p)).sum()
        count += int(on.sum())
    return total / count


@pytest.mark.parametrize("top", [None, 0, 5])
def test_loss_and_gradients_are_those_of_a_plain_loop(models, tmp_path, top):
    run = make(models, tmp_path, distill(forward_top=top), prompts=6, steps=1)
    loaded = run.load()
    batch = loaded.first.executor._roll_out(0).batch
    update = next(n.call for n in run.graph.nodes if n.kind == "update")
    gradients = loaded.trainers["trainer"].gradient(batch, update, seed=0)
    loss = loaded.trainers["trainer"].measure(batch, update, seed=0)["loss"].value
    student, teacher = (AutoModelForCausalLM.from_pretrained(m, dtype=torch.float32) for m in models)
    expected = divergence(student, teacher.requires_grad_(False), batch, top)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), abs=1e-5)
    for name, parameter in student.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=0, atol=1e-5)


def test_a_student_comes_near_its_teacher_and_a_run_goes_on_bit_for_bit(models, tmp_path):
    how = {"prompts": 6, "learning_rate": 1e-2, "save": {"every": 1}}
    whole = make(models, tmp_path, distill(), name="whole", steps=8, **how).train()
    losses = whole.history.column("update/loss")
    assert losses[-1] < 0.6 * losses[0]
    make(models, tmp_path, distill(), name="part", steps=5, **how).train()
    resumed = make(models, tmp_path, distill(), steps=8, **how, resume=str(tmp_path / "part")).train()
    small.same(small.unmeasured(small.last_state(whole.folder)), small.unmeasured(small.last_state(resumed.folder)))


def test_a_reward_is_for_evaluations_alone(models, tmp_path):
    graded = make(models, tmp_path, distill(), reward=small.digits, steps=1)
    assert "success" in graded.evaluate(small.ROWS[:2])
    graded.load().close()
    with pytest.raises(RunError, match="give one: reward=NAME"):
        make(models, tmp_path, distill(), steps=1).evaluate(small.ROWS[:2])


def test_a_teacher_must_be_named_and_read_the_same_tokens(models, tmp_path):
    with pytest.raises(ConfigError, match=r"needs another model as teacher: roles.teacher.model=FOLDER"):
        make(models, tmp_path, distill(), roles={})
    from tests.tiny import byte_tokenizer, save_tiny

    other = save_tiny(tmp_path / "other", tokenizer=byte_tokenizer(), **small.SIZES)
    with pytest.raises(ModelError, match=r"roles.teacher.model=.*its vocabulary has \d+ ids and the policy's"):
        make(models, tmp_path, distill(), roles={"teacher": {"model": str(other)}}).load()
    swapped = tmp_path / "swapped"
    import shutil

    shutil.copytree(models[1], swapped)
    text = (swapped / "tokenizer.json").read_text().replace('"a"', '"\\u0001"').replace('"b"', '"a"')
    (swapped / "tokenizer.json").write_text(text.replace('"\\u0001"', '"b"'))
    with pytest.raises(ModelError, match="its tokenizer gives .* the id .* they need one tokenizer"):
        make(models, tmp_path, distill(), roles={"teacher": {"model": str(swapped)}}).load()


def test_it_is_chosen_on_the_command_line(models):
    student, teacher = models
    words = [f"model={student}", "data=countdown", "algorithm=distill", f"roles.teacher.model={teacher}", "steps=1"]
    run = Run.of(load([*words, "algorithm.forward_top=8"]), quiet=True)
    assert run.algorithm.top == 8
    with pytest.raises(ConfigError, match="forward_top=-1 must be a number of tokens"):
        load([*words, "algorithm.forward_top=-1"])
