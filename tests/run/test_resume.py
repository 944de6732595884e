"""Going on: what a resumed run, a replayed one and one from another's weights share with what came before."""

import json
import re
import shutil
import signal
import threading
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from rlcore.errors import CheckpointError, ConfigError, RunError
from rlcore.tracking import Trackers
from rlcore_algorithms import dapo, grpo, ppo
from rlcore_algorithms.controllers.adaptive_kl import adaptive_kl
from tests.run import small

TEN = [{"prompt": f"{i}=", "target": str(i)} for i in range(10)]
ADAPTIVE = replace(
    ppo(group_size=2, minibatches=2, kl_in_reward_coefficient=0.2), controller=adaptive_kl, critic_warmup=1
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def begin(model, tmp_path):
    return lambda **settings: small.make(model, tmp_path, **settings)


def stopping_at(step, samples, number=signal.SIGTERM, times=1):
    """A reward that sends a signal to this process while the given step (from 1) is graded."""
    calls, lock = [], threading.Lock()

    def reward(completion, target):
        with lock:
            calls.append(completion)
            if (step - 1) * samples < len(calls) <= (step - 1) * samples + times:
                # To the thread that handles it; and two signals of one number that wait together are one.
                signal.pthread_kill(threading.main_thread().ident, number)
                time.sleep(0.1)
        return small.digits(completion, target)

    reward.bounded = True  # called in this process, which the signal is for
    # A resumed run is told from another by the name of its parts.
    reward.__qualname__, reward.__module__, reward.__name__ = "digits", small.__name__, "digits"
    return reward


def small_digit(completion, target):
    """A score that most completions have."""
    return float(any(c in "01234567" for c in completion))


def prompts_of(folder):
    seen = {}
    for row in small.read(folder / "rollouts.jsonl"):
        seen.setdefault(row["group"], row["prompt"])
    return list(seen.values())


# -- resume


@pytest.mark.parametrize(
    "algorithm",
    [grpo(group_size=2, kl_coefficient=0.1), dapo(group_size=3), ADAPTIVE],
    ids=["grpo with kl", "dapo", "ppo with adaptive kl"],
)
def test_a_run_that_was_interrupted_ends_bit_for_bit_like_one_that_was_not(begin, algorithm):
    parts = {"algorithm": algorithm, "limits": {"max_rounds": 50}}
    whole = begin(name="whole", steps=4, **parts).train()
    begin(name="cut", steps=2, **parts).train()
    resumed = begin(name="cut", steps=4, resume=str(whole.folder.parent / "cut"), **parts).train()
    assert [row["step"] for row in resumed.history] == [1.0, 2.0, 3.0, 4.0]
    small.assert_equal_runs(resumed.folder, whole.folder)


def test_a_resumed_run_may_move_the_bounds_that_stopped_it(begin):
    def always(completion, target):
        return 1.0

    # A resumed run is told from another by the name of its parts.
    always.__qualname__, always.__module__, always.__name__ = "digits", small.__name__, "digits"
    parts = {"name": "cut", "algorithm": dapo(group_size=2)}
    cut = begin(steps=1, limits={"max_rounds": 50}, **parts).train()
    again = {"steps": 2, "reward": always, "resume": str(cut.folder), **parts}
    with pytest.raises(RunError, match=r"limits.max_rounds=2, set limits.when_underfilled=skip or train"):
        begin(limits={"max_rounds": 2}, **again).train()
    resumed = begin(limits={"max_rounds": 2, "when_underfilled": "skip"}, **again).train()
    assert resumed.history[-1]["rollout/skipped"] == 1


@pytest.mark.slow
def test_skipped_steps_are_steps_and_a_resumed_run_skips_the_same(begin, capsys):
    # B91; a group waits at the step where the run is cut.
    parts = {
        "algorithm": dapo(group_size=2, minibatches=2),
        "reward": small_digit,
        "limits": {"max_rounds": 1, "when_underfilled": "skip"},
        "save": {"rollouts": True},
    }
    whole = begin(name="whole", steps=5, **parts)
    whole.progress.quiet = False
    whole.train()
    skipped = [row["step"] for row in whole.history if row.get("rollout/skipped")]
    assert skipped == [1, 3, 4]
    assert re.findall(r"step (\d): after 1 round .* skipped, the (\d)", capsys.readouterr().err) == [
        ("1", "1"), ("3", "1"), ("4", "1")
    ]  # fmt: skip
    assert [row["step"] for row in whole.history if "update/loss" in row] == [2, 5]
    begin(name="cut", steps=3, **parts).train()
    resumed = begin(name="cut", steps=5, resume=str(whole.folder.parent / "cut"), **parts).train()
    small.assert_equal_runs(resumed.folder, whole.folder)


def test_the_first_step_of_a_resumed_run_goes_on_from_the_newest_checkpoint_not_from_the_last_row_written(begin):
    # Killed after step 3 had been written, but with a checkpoint of step 2 only.
    whole = begin(name="whole", steps=4).train()
    cut = begin(name="cut", steps=3, save={"every": 2})
    cut.train()
    shutil.rmtree(cut.folder / "checkpoints" / "step_3")
    shutil.rmtree(cut.folder / "model")
    with (cut.folder / "metrics.jsonl").open("a") as file:
        file.write('{"schema": 1, "step": 4, "sco')
    resumed = begin(steps=4, save={"every": 2}, resume=str(cut.folder)).train()
    small.assert_equal_runs(resumed.folder, whole.folder)


@pytest.mark.parametrize(
    ("first", "rows", "prompts"), [(1.0, small.ROWS, 3), (0.5, small.ROWS, 3)], ids=["boundary", "middle"]
)
def test_resume_at_an_epoch_boundary_does_the_whole_second_epoch(begin, first, rows, prompts):
    # B85: 4 batches an epoch, 2 epochs, a checkpoint after 4 (or 2): exactly 8 steps in all.
    whole = begin(name="whole", steps=None, epochs=2.0, prompts=prompts, data=rows).train()
    begin(name="cut", steps=None, epochs=first, prompts=prompts, data=rows).train()
    resumed = begin(steps=None, epochs=2.0, prompts=prompts, data=rows, resume=str(whole.folder.parent / "cut")).train()
    assert len(resumed.history) == 8
    drawn = prompts_of(resumed.folder)
    for epoch in (drawn[:12], drawn[12:]):
        assert sorted(epoch) == sorted(row["prompt"] for row in rows)
    small.assert_equal_runs(resumed.folder, whole.folder)


def test_a_resumed_run_draws_the_same_prompts_as_an_uninterrupted_one(begin):
    # B86: items 0 to 9, two a step, stopped after 3.
    whole = begin(name="whole", data=TEN, steps=7).train()
    begin(name="cut", data=TEN, steps=3).train()
    resumed = begin(data=TEN, steps=7, resume=str(whole.folder.parent / "cut")).train()
    assert prompts_of(resumed.folder) == prompts_of(whole.folder)
    assert sorted(prompts_of(resumed.folder)[:10]) == sorted(row["prompt"] for row in TEN)


def test_groups_keep_ids_of_their_own_over_a_resume(begin):
    begin(name="cut", steps=2).train()
    resumed = begin(steps=4, resume=str(begin(name="x").settings.run.folder) + "/cut").train()
    groups = {row["group"] for row in small.read(resumed.folder / "rollouts.jsonl")}
    assert groups == set(range(8))


def test_retention_goes_on_over_a_resume_and_leaves_what_is_not_its_own(begin):
    # B88
    cut = begin(name="cut", steps=1, save={"every": 1, "keep": 1}).train()
    folder = cut.folder / "checkpoints"
    (folder / "mine").mkdir()
    (folder / "step_0.notes").mkdir()
    begin(steps=2, save={"every": 1, "keep": 1}, resume=str(cut.folder)).train()
    assert sorted(p.name for p in folder.iterdir()) == ["mine", "step_0.notes", "step_2"]


def test_after_a_resume_the_reference_is_the_original_model_and_the_kl_coefficient_that_of_the_last_step(begin, model):
    # B89
    cut = begin(name="cut", steps=3, algorithm=ADAPTIVE).train()
    coefficient = small.last_state(cut.folder)["policies"][""]["executor"]["scalars"]["kl_in_reward_coefficient"]
    assert coefficient != 0.2
    resumed = begin(steps=4, algorithm=ADAPTIVE, resume=str(cut.folder))
    with resumed._own_folder() as folder:
        loaded = resumed.load()
        resumed._restore(resumed.loop(folder, Trackers({})))
    assert loaded.first.executor.scalars["kl_in_reward_coefficient"] == coefficient
    original = load_file(model / "model.safetensors")["model.embed_tokens.weight"]
    reference, trained = (
        loaded.trainers[r].model.module.get_input_embeddings().weight for r in ("reference", "trainer")
    )
    assert torch.equal(reference, original)
    assert not torch.equal(trained, original)


def test_a_finished_run_that_is_resumed_does_nothing_and_changes_nothing(begin):
    run = begin(name="cut", steps=2).train()
    before = (run.folder / "metrics.jsonl").read_bytes(), small.last_state(run.folder)
    again = begin(steps=2, resume=str(run.folder)).train()
    assert again.step == 2
    assert (run.folder / "metrics.jsonl").read_bytes() == before[0]
    small.same(small.last_state(run.folder), before[1])


def test_a_resumed_run_may_change_its_length_and_its_saving_and_nothing_else(begin):
    run = begin(name="cut", steps=1).train()
    begin(steps=2, save={"every": 1}, tracker=(), resume=str(run.folder)).train()
    for other, name in (
        ({"learning_rate": 1.0}, "learning_rate was 0.01 and is now 1.0"),
        ({"algorithm": grpo(group_size=2, clip=0.3)}, "algorithm was"),
        ({"prompts": 4}, "prompts was 2"),
        ({"seed": 1}, "seed was 0"),
    ):
        with pytest.raises(ConfigError, match=f"resume: {name}"):
            begin(resume=str(run.folder), **other).train()
    with pytest.raises(CheckpointError, match="is no run.*Did you mean 'cut'"):
        begin(resume=str(run.folder.with_name("cot"))).train()


@pytest.mark.parametrize(
    ("key", "old", "new"), [("learning_rate", "0.01", "0.5"), ("seed", "0", "7"), ("prompts", "2", "4")]
)
def test_an_edit_of_the_runs_own_file_is_found_when_it_is_resumed(begin, tmp_path, key, old, new):
    data = {"name": "file", "path": str(small.save_data(tmp_path / "rows.jsonl")), "split": "all"}
    words = {"data": data, "algorithm": "grpo", "reward": f"{small.__file__}:digits", "steps": 1}
    cut = begin(name="cut", **words).train()
    config = cut.folder / "config.yaml"
    text = config.read_text()
    assert f"\n{key}: {old}\n" in f"\n{text}"
    config.write_text(text.replace(f"{key}: {old}\n", f"{key}: {new}\n", 1))
    with pytest.raises(ConfigError, match=f"resume: {key} was {old} and is now {new}; a resumed run may change"):
        begin(resume=str(cut.folder), **{**words, key: float(new) if "." in new else int(new)}).train()
    # What the weights were trained with is still accepted: the edit is what is wrong.
    assert begin(resume=str(cut.folder), **words).train().step == 1


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_whose_checkpoints_are_all_broken_is_not_begun_anew_and_nothing_of_it_is_touched(begin):
    cut = begin(name="cut", steps=2, save={"every": 1}).train()
    (cut.folder / "checkpoints" / "step_1" / "complete.json").unlink()
    next((cut.folder / "checkpoints" / "step_2").glob("trainer/*.pt")).write_bytes(b"torn")
    before = contents(cut.folder)
    with pytest.raises(CheckpointError, match=r"step_1: its marker .* is missing.*step_2: .* 4 bytes.*metrics.jsonl"):
        begin(steps=4, resume=str(cut.folder)).train()
    assert contents(cut.folder) == before


def test_a_checkpoint_of_other_roles_is_refused_by_their_names(begin):
    cut = begin(name="cut", steps=2).train()
    step = cut.folder / "checkpoints" / "step_2"
    marker = json.loads((step / "complete.json").read_text())
    shutil.copytree(step / "trainer", step / "critic")
    marker["files"] |= {
        name.replace("trainer/", "critic/"): about for name, about in marker["files"].items() if "/" in name
    }
    (step / "complete.json").write_text(json.dumps(marker))
    with pytest.raises(CheckpointError, match=r"step_2 holds weights of critic, trainer; this run trains trainer"):
        begin(steps=4, resume=str(cut.folder)).train()


def test_a_run_with_steps_but_no_checkpoint_is_not_begun_anew(begin):
    cut = begin(name="cut", steps=2).train()
    shutil.rmtree(cut.folder / "checkpoints")
    before = contents(cut.folder)
    with pytest.raises(CheckpointError, match=r"there is none.*rows of its steps.*run.name=another"):
        begin(steps=4, resume=str(cut.folder)).train()
    assert contents(cut.folder) == before


def test_a_run_that_was_killed_in_its_first_step_begins_at_it(begin):
    whole = begin(name="whole", steps=2).train()
    cut = begin(name="cut", steps=2)
    with cut._own_folder() as folder:
        cut._describe(folder)
    (cut.folder / "rollouts.jsonl").write_text('{"schema": 1, "ste')
    resumed = begin(steps=2, resume=str(cut.folder)).train()
    small.assert_equal_runs(resumed.folder, whole.folder)


def test_the_state_of_a_component_is_saved_with_the_run(begin):
    algorithm = replace(grpo(group_size=2), advantage=RunningBaseline)
    whole = begin(name="whole", steps=3, algorithm=algorithm).train()
    begin(name="cut", steps=1, algorithm=algorithm).train()
    resumed = begin(steps=3, algorithm=algorithm, resume=str(whole.folder.parent / "cut")).train()
    assert small.last_state(whole.folder)["policies"][""]["executor"]["components"]["advantage"]["mean"] > 0
    small.assert_equal_runs(resumed.folder, whole.folder)


class RunningBaseline:
    """A running mean of the rewards."""

    def __init__(self, *, decay: float = 0.5) -> None:
        self.decay, self.mean = decay, 0.0

    def __call__(self, reward):
        found = reward - self.mean
        self.mean = self.decay * self.mean + (1 - self.decay) * float(reward.mean())
        return found

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = float(state["mean"])


# -- signals


def test_sigterm_ends_a_run_after_the_step_with_a_checkpoint_and_it_can_go_on(begin, capfd):
    whole = begin(name="whole", steps=3).train()
    stopped = begin(name="cut", steps=3, reward=stopping_at(2, 4)).train()
    assert stopped.step == 2
    assert stopped.summary["stopped"]
    assert (stopped.folder / "checkpoints" / "step_2").is_dir()
    assert "SIGTERM: the run ends after this step" in capfd.readouterr().err
    # The handlers that were there are back.
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    resumed = begin(steps=3, resume=str(stopped.folder)).train()
    small.assert_equal_runs(resumed.folder, whole.folder)


def test_a_second_signal_ends_it_at_once(begin):
    run = begin(name="cut", steps=3, reward=stopping_at(2, 4, times=2))
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert len(run.history) < 2
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


# -- from another run


def test_a_new_run_starts_from_the_weights_of_another_one_or_of_one_of_its_steps(begin):
    first = begin(name="first", steps=2, save={"every": 1, "keep": 5}).train()
    ended = load_file(first.folder / "model" / "model.safetensors")
    after_one = small.state_of(first.folder / "checkpoints" / "step_1")["trainers"]["trainer"]["model"]
    for name, spec, expected in (
        ("end", str(first.folder), ended),
        ("step", f"{first.folder}@1", after_one),
    ):
        run = begin(name=name, start_from=spec, learning_rate=0.0, steps=1).train()
        found = load_file(run.folder / "model" / "model.safetensors")
        assert all(torch.equal(found[key], expected[key]) for key in found)
        assert run.history[0]["step"] == 1.0
    with pytest.raises(CheckpointError, match="is not whole: there is no such folder; there are: step_1, step_2"):
        begin(name="none", start_from=f"{first.folder}@7").train()


def test_a_run_that_started_from_a_step_can_be_resumed_when_that_checkpoint_has_gone(begin):
    first = begin(name="first", steps=1).train()
    spec = f"{first.folder}@1"
    cut = begin(name="second", start_from=spec, steps=1).train()
    whole = begin(name="whole", start_from=spec, steps=2).train()
    shutil.rmtree(first.folder / "checkpoints" / "step_1")
    resumed = begin(start_from=spec, steps=2, resume=str(cut.folder)).train()
    small.assert_equal_runs(resumed.folder, whole.folder)


def test_the_reference_of_a_run_that_starts_from_another_is_where_it_started(begin):
    first = begin(name="first", steps=1).train()
    run = begin(name="second", start_from=str(first.folder), algorithm=grpo(group_size=2, kl_coefficient=0.1), steps=1)
    loaded = run.load()
    one, other = (loaded.trainers[r].model.module.state_dict() for r in ("trainer", "reference"))
    small.same(dict(one), dict(other))


# -- replay


def test_rollouts_that_were_kept_are_replayed_into_another_algorithm(begin):
    first = begin(name="first", steps=2, save={"rollouts": True}).train()
    second = begin(
        name="second", steps=2, replay=str(first.folder), algorithm=ppo(group_size=2), learning_rate=1e-3
    ).train()
    kept, replayed = (small.read(run.folder / "rollouts.jsonl") for run in (first, second))
    assert [row["completion"] for row in kept] == [row["completion"] for row in replayed]
    assert [row["prompt"] for row in kept] == [row["prompt"] for row in replayed]
    assert any(row["advantage"] != other["advantage"] for row, other in zip(kept, replayed, strict=True))
    # The same algorithm over the same rollouts is the same run.
    third = begin(name="third", steps=2, replay=str(first.folder)).train()
    assert first.history.column("update/loss") == third.history.column("update/loss")
    for name, value in load_file(first.folder / "model" / "model.safetensors").items():
        assert torch.equal(value, load_file(third.folder / "model" / "model.safetensors")[name])


def test_a_replay_that_does_not_fit_says_what_was_kept(begin):
    first = begin(name="first", steps=1, save={"rollouts": True}).train()
    with pytest.raises(RunError, match=r"step 0 .* holds 4 rows of 2 prompts; this run draws 2 prompts x 3 samples"):
        begin(name="wide", steps=1, replay=str(first.folder), algorithm=grpo(group_size=3)).train()
    with pytest.raises(RunError, match=r"kept no rollouts of step 1 .*save.rollouts=true"):
        begin(name="long", steps=2, replay=str(first.folder)).train()
    with pytest.raises(CheckpointError, match="is no run"):
        begin(name="none", replay=str(first.folder.with_name("nothing"))).train()


def test_a_replayed_step_may_take_greedy_samples_beside_it(begin):
    first = begin(
        name="first", steps=1, algorithm=dapo(group_size=3), save={"rollouts": True}, limits={"max_rounds": 50}
    ).train()

    def against_greedy(reward, greedy_reward):
        return reward - greedy_reward

    run = begin(
        name="second",
        steps=1,
        replay=str(first.folder),
        algorithm=replace(grpo(group_size=3), advantage=against_greedy),
    ).train()
    assert len(run.history) == 1


def test_a_resumed_run_that_begins_to_evaluate_says_nothing_of_before(begin, tmp_path):
    data = {"name": "file", "path": str(small.save_data(tmp_path / "rows.jsonl")), "split": "all"}
    cut = begin(name="cut", data=data, steps=1).train()
    run = begin(data=data, steps=2, eval={"data": data["path"], "limit": 2}, resume=str(cut.folder)).train()
    assert run.summary["score_before"] is None
    assert run.summary["score_after"] is not None
    assert [row["step"] for row in small.read(run.folder / "evaluations.jsonl")] == [2]
