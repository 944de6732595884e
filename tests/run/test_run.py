"""Whole runs of a tiny model: what is loaded, repeated, written, skipped and stopped."""

import json
import logging
import math
import types
from dataclasses import replace

import pytest
import torch
import yaml
from safetensors.torch import load_file

from rlcore import Node, hookimpl
from rlcore.errors import ConfigError, DataError, RegistryError, RewardError, RunError
from rlcore.metrics import is_measured
from rlcore.protocols import Term
from rlcore.registry import Plugin, registry
from rlcore.run.history import History
from rlcore.run.progress import Progress
from rlcore.run.training_state import TrainingState, write_summary
from rlcore.train.model import LanguageModel
from rlcore_algorithms import dapo, grpo, ppo, reinforce_pp
from rlcore_algorithms.losses import policy_gradient
from rlcore_algorithms.reductions import token_mean
from tests.run import small


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def begin(model, tmp_path):
    return lambda **settings: small.make(model, tmp_path, **settings)


def weights(folder):
    return load_file(folder / "model.safetensors")


# -- what is loaded


@pytest.mark.parametrize(
    ("algorithm", "count"),
    [
        (grpo(group_size=2), 1),
        (grpo(group_size=2, kl_coefficient=0.1), 2),
        (ppo(group_size=2), 2),
        (ppo(group_size=2, kl_in_reward_coefficient=0.1), 3),
    ],
    ids=["grpo", "grpo with kl", "ppo", "ppo with kl"],
)
def test_as_many_models_are_loaded_as_the_graph_reads(begin, monkeypatch, algorithm, count):
    loads, load = [], LanguageModel.load.__func__
    monkeypatch.setattr(LanguageModel, "load", classmethod(lambda cls, *a, **k: loads.append(1) or load(cls, *a, **k)))
    run = begin(algorithm=algorithm, roles={"sampler": {"execution": "local"}})
    loaded = run.load()
    assert len(loads) == count
    # Counted once more by storages: the sampler and the trainer share one set.
    storages = {trainer.model.module.get_input_embeddings().weight.data_ptr() for trainer in loaded.trainers.values()}
    assert len(storages) == count
    assert loaded.first.rollout.sampler.model.module.get_input_embeddings().weight.data_ptr() in storages


# -- the same again


def test_equal_seeds_give_equal_runs_and_another_seed_another_one(begin):
    one, other = begin(name="one").train(), begin(name="other").train()
    small.assert_equal_runs(one.folder, other.folder)
    third = begin(name="third", seed=1).train()
    assert small.read(third.folder / "rollouts.jsonl") != small.read(one.folder / "rollouts.jsonl")


def test_the_token_budget_changes_no_loss_and_no_gradient(begin):
    algorithm = grpo(group_size=4, kl_coefficient=0.1)
    exact = {"precision": "float32"}
    one = begin(name="one", algorithm=algorithm, steps=1, training=exact).train()
    other = begin(name="other", algorithm=algorithm, steps=1, training={**exact, "token_budget": 1}).train()
    assert small.read(one.folder / "rollouts.jsonl") == small.read(other.folder / "rollouts.jsonl")
    for name in ("update/loss", "update/gradient_norm", "update/entropy"):
        assert one.history.column(name) == pytest.approx(other.history.column(name), rel=1e-5, abs=1e-6)


def test_at_learning_rate_zero_nothing_moves(begin, model):
    run = begin(algorithm=grpo(group_size=2, kl_coefficient=0.1, minibatches=2), learning_rate=0.0).train()
    after = weights(run.folder / "model")
    for name, value in weights(model).items():
        assert torch.equal(value, after[name]), name
    # Several updates a step compare with a forward pass of its own, in other microbatches: equal to rounding.
    assert run.history.column("update/ratio") == pytest.approx([1.0] * 3, abs=1e-5)
    kl = [name for name in run.history[0] if "loss/kl" in name]
    assert kl
    assert run.history.column(kl[0]) == pytest.approx([0.0] * 3, abs=1e-9)


def test_with_one_update_a_step_the_ratio_is_exactly_one(begin):
    run = begin(learning_rate=1e-2).train()
    assert run.history.column("update/ratio") == [1.0] * 3
    assert run.history.column("update/ratio_max") == [1.0] * 3


def test_training_moves_the_weights(begin, model):
    run = begin().train()
    after = weights(run.folder / "model")
    assert any(not torch.equal(value, after[name]) for name, value in weights(model).items())


# -- what is written


def test_a_runs_folder_has_every_file_in_strict_json(begin):
    run = begin(save={"every": 2, "rollouts": True}).train()
    folder = run.folder
    assert {p.name for p in folder.iterdir()} >= {
        "config.yaml", "versions.json", "metrics.jsonl", "rollouts.jsonl", "checkpoints", "rollouts",
        "model", "summary.json",
    }  # fmt: skip
    rows = small.read(folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    wanted = {
        "score", "score/group_variance", "advantage/group_variance", "groups/without_variance", "response/length",
        "response/truncated", "update/entropy", "update/clip_share",
    }  # fmt: skip
    for row in rows:
        assert wanted <= set(row)
        assert row["schema"] == 1
        assert not any(is_measured(name) for name in row)
        assert {"seconds/step", "speed/rollout_tokens_per_second"} <= set(row["measured"])
    samples = small.read(folder / "rollouts.jsonl")
    assert len(samples) == 3 * 2 * 2
    assert {
        "step",
        "group",
        "session",
        "prompt",
        "completion",
        "target",
        "score",
        "advantage",
        "stop",
        "tokens",
    } <= set(samples[0])
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == ["step_2", "step_3"]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["learning_rate"] == 1e-2
    assert config["algorithm"]["name"] == "grpo"
    versions = json.loads((folder / "versions.json").read_text())
    assert len(versions["components"]["loss"]["sha256"]) == 64
    assert versions["packages"]["torch"] == torch.__version__
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["steps"] == 3
    assert summary["run"] == str(folder)


def test_the_model_that_is_written_is_a_plain_folder_of_the_trained_weights(begin):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = begin().train()
    loaded = AutoModelForCausalLM.from_pretrained(run.folder / "model")
    tokenizer = AutoTokenizer.from_pretrained(run.folder / "model")
    trained = run._loaded.trainers["trainer"].model.module
    assert torch.equal(loaded.get_input_embeddings().weight, trained.get_input_embeddings().weight)
    assert tokenizer("1+1=")["input_ids"] == run._loaded.model.tokenizer("1+1=")["input_ids"]
    assert loaded.config.eos_token_id == tokenizer.eos_token_id


def test_the_resolved_configuration_holds_no_address_so_that_a_resumed_run_is_recognised(begin):
    def kept(reward, token_reward):
        return {"reward": reward, "token_reward": token_reward}

    algorithm = replace(
        grpo(group_size=2),
        terms=(Term(policy_gradient, token_mean, 0.1),),
        extra=((Node(kept, name="kept", writes=("reward", "token_reward")), "before", "advantage"),),
    )
    run = begin(algorithm=algorithm, steps=1).train()
    assert " at 0x" not in (run.folder / "config.yaml").read_text()
    assert "policy_gradient" in (run.folder / "config.yaml").read_text()


def test_a_second_run_of_one_name_is_refused_before_anything_is_lost(begin):
    begin(steps=1).train()
    with pytest.raises(ConfigError, match="is already there: go on with resume="):
        begin(steps=1).train()


@pytest.mark.parametrize("tracker", ["jsonl", "{tmp_path}/slow.py:Bad"])
def test_a_run_that_could_not_begin_says_why_and_leaves_its_name_free(begin, tmp_path, tracker):
    (tmp_path / "slow.py").write_text(BAD.format(at=None))
    chosen = (tracker.format(tmp_path=tmp_path),)
    with pytest.raises(DataError, match="no prompt is left"):
        begin(max_prompt_tokens=2, tracker=chosen).train()
    assert begin(steps=1, tracker=chosen).train().step == 1


def test_history_follows_the_run_and_a_missing_metric_names_the_nearest(begin):
    run = begin(steps=2).train()
    assert [row["step"] for row in run.history] == [1.0, 2.0]
    with pytest.raises(LookupError, match="Did you mean 'score'"):
        run.history.column("scor")


# -- sizes and data


def test_sizes_that_do_not_divide_are_refused_with_the_numbers(begin):
    # B82
    with pytest.raises(ConfigError, match="prompts=3 does not divide into minibatches=2"):
        begin(prompts=3, algorithm=grpo(group_size=2, minibatches=2))


def test_what_a_filter_leaves_need_not_divide(begin):
    # B82: a step of one group in two minibatches leaves the second one empty, and trains on what is there.
    def first_group(old_logprob, group):
        return (group == group.min()).nonzero().flatten()

    algorithm = grpo(group_size=3, minibatches=2)
    algorithm = replace(algorithm, extra=((Node(first_group, name="one", kind="filter"), "before", "advantage"),))
    run = begin(algorithm=algorithm, steps=2).train()
    assert run.history.column("rows/trained") == [3.0, 3.0]
    assert all(math.isfinite(value) for value in run.history.column("update/loss"))


def test_a_data_set_smaller_than_a_step_is_refused_with_both_sizes(begin):
    # B83
    for ask in (lambda run: run.check(), lambda run: run.train()):
        with pytest.raises(DataError, match="4 rows from a data set of 3.* 0 whole batches"):
            ask(begin(prompts=4, data=small.ROWS[:3]))


def test_data_that_runs_out_is_drawn_again_in_another_order(begin):
    # B83: 5 rows, 2 a step, 6 steps.
    run = begin(data=small.ROWS[:5], steps=6).train()
    prompts = [row["prompt"] for row in small.read(run.folder / "rollouts.jsonl")][::2]
    assert len(run.history) == 6
    for epoch in (prompts[:5], prompts[5:10]):
        assert sorted(epoch) == sorted(row["prompt"] for row in small.ROWS[:5])
    assert prompts[:5] != prompts[5:10]


def test_a_schedule_over_epochs_counts_the_rows_that_are_left(begin):
    rows = [*small.ROWS[:8], *({**row, "prompt": row["prompt"] * 9} for row in small.ROWS[:8])]
    run = begin(
        data=rows, steps=None, epochs=1.0, prompts=4, max_prompt_tokens=8, long_prompts="filter",
        schedule="linear", learning_rate=1e-2,
    ).train()  # fmt: skip
    # Two steps of four, not four: the rate falls to 0 behind the last one.
    assert [row["update/learning_rate"] for row in run.history] == pytest.approx([1e-2, 5e-3])


def test_steps_and_epochs_are_one_length(begin):
    with pytest.raises(ConfigError, match="steps=3 and epochs=2.0 are both set"):
        begin(epochs=2.0)
    assert len(begin(steps=None, epochs=1.0, prompts=4).train().history) == 3


def test_no_prompt_left_and_too_little_room_are_said_before_the_first_step(begin):
    with pytest.raises(DataError, match="no prompt is left: all 12 have more than max_prompt_tokens=2"):
        begin(max_prompt_tokens=2).train()
    with pytest.raises((DataError, ConfigError), match="256"):
        begin(max_new_tokens=255).train()


def test_rows_with_columns_of_their_own_all_have_every_column(begin):
    # Which columns a batch has must not depend on which rows are drawn together, nor may a refill trip over it.
    data = [{**row, "hint": "h"} if i % 2 else dict(row) for i, row in enumerate(small.ROWS)]
    seen = []

    def by_hint(completion, hint=None):
        seen.append(hint)
        return small.digits(completion, None)

    by_hint.bounded = True  # called in this process, where its list is
    run = begin(algorithm=dapo(group_size=4), data=data, reward=by_hint, steps=2, limits={"max_rounds": 50}).train()
    assert len(run.history) == 2
    assert set(seen) == {"h", None}


# -- rewards that fail


def failing_on(numbers, error=None, value=None):
    calls = []

    def reward(completion):
        calls.append(completion)
        if len(calls) - 1 in numbers:
            if error is not None:
                raise error
            return value
        return small.digits(completion, None)

    reward.bounded = True  # called in this process, where its list is
    return reward


@pytest.mark.parametrize(
    "how", [{"error": ValueError("no digits here")}, {"value": float("nan")}, {"value": None}, {"value": math.inf}]
)
def test_a_row_that_cannot_be_scored_has_no_vote_and_is_counted(begin, how, caplog):
    # B65
    with caplog.at_level(logging.WARNING):
        run = begin(
            algorithm=grpo(group_size=4), steps=2, reward=failing_on({1, 6}, **how), save={"rollouts": True, "every": 1}
        ).train()
    samples = small.read(run.folder / "rollouts.jsonl")
    unscored = [row for row in samples if row["score"] is None]
    assert len(unscored) == 2
    assert all(row["advantage"] == 0.0 for row in unscored)
    assert run.history.column("rows/unscored") == [2.0, 0.0]
    assert json.loads((run.folder / "summary.json").read_text())["unscored"] == 2
    assert run.history.column("rows/trained") == [6.0, 8.0]
    scores = [row["score"] for row in samples if row["step"] == 1 and row["score"] is not None]
    assert run.history[0]["score"] == pytest.approx(sum(scores) / len(scores))
    if how.get("value", 0) is not None:
        assert caplog.text.count("a reward failed") == 1
        assert "failing_on" in caplog.text or "reward" in caplog.text


def test_unscored_rows_are_said_in_their_step_and_at_the_end(begin, capfd):
    run = begin(steps=2, reward=failing_on({1}, error=ValueError("no digits here")), tracker="console")
    run.progress.quiet = False
    run.train()
    steps = {line.split()[1]: line for line in capfd.readouterr().err.splitlines() if line.startswith("step ")}
    assert "unscored 1" in steps["1"]
    assert "unscored" not in steps["2"]


def test_the_end_says_how_many_rows_were_unscored_and_what_would_hold_problems_out(begin, capfd, tmp_path):
    run = begin(steps=1, reward=failing_on({1}, error=ValueError("no digits here")))
    run.progress.quiet = False
    run.train()
    said = capfd.readouterr().err
    assert "1 row unscored (1 failed)" in said
    assert said.count("no held-out problems: rows_in_memory has none") == 1
    data = {"path": str(small.save_data(tmp_path / "rows.jsonl"))}
    run = begin(name="file", steps=1, data=data)
    run.progress.quiet = False
    run.train()
    said = capfd.readouterr().err
    assert said.count("no held-out problems: set eval.data=FILE or data.split=train") == 1
    assert "unscored" not in said


def test_an_unscored_row_has_no_gradient_from_any_term_and_is_in_no_denominator(begin):
    # The same as if it had never been drawn: the KL and entropy terms and the token mean do not see it.
    seen = []

    def spy(logprob, old_logprob, advantage, mask):
        if torch.is_grad_enabled():
            seen.append(mask.any(1).tolist())
        return -advantage * logprob

    algorithm = replace(grpo(group_size=4, kl_coefficient=0.1), loss=spy)
    run = begin(algorithm=algorithm, prompts=1, steps=1, reward=failing_on({1, 2}, value=None))
    run.load()  # a dry step calls the loss too
    seen.clear()
    run.train()
    assert sorted(on for part in seen for on in part) == [True, True]


def test_every_reward_failing_stops_the_run_with_the_first_traceback(begin):
    def broken(completion):
        return 1 / 0

    run = begin(reward=broken)
    with pytest.raises(RewardError, match=r"ZeroDivisionError: division by zero[\s\S]*return 1 / 0"):
        run.train()


def test_a_step_of_which_nothing_could_be_scored_changes_no_weight(begin, model):
    def never(completion):
        return None

    run = begin(reward=never, steps=2).train()
    after = weights(run.folder / "model")
    for name, value in weights(model).items():
        assert torch.equal(value, after[name]), name
    assert run.history.column("rows/trained") == [0.0, 0.0]
    assert "score" not in run.history[0]


def test_a_reward_that_needs_a_column_the_data_has_not_is_refused_before_a_rollout(begin):
    def needs(completion, solution):
        return 1.0

    with pytest.raises(RewardError, match="reads 'solution', which the data does not have"):
        begin(reward=needs).check()


# -- updates that are not finite


def poisoned(at):
    """A loss that is NaN in these steps of six; `progress` tells the step."""

    def loss(logprob, advantage, progress):
        value = -advantage * logprob
        return value * float("nan") if torch.is_grad_enabled() and round(progress * 6) in at else value

    return replace(grpo(group_size=2), loss=loss)


def test_an_update_that_is_not_finite_is_skipped_counted_and_kept(begin):
    # B94
    run = begin(algorithm=poisoned({1}), steps=6, save={"every": 1, "keep": 6}).train()
    assert run.history.column("update/updates/skipped") == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    checkpoints = run.folder / "checkpoints"
    before, after, later = (small.state_of(checkpoints / f"step_{i}")["trainers"]["trainer"] for i in (1, 2, 3))
    small.same(before["model"], after["model"])
    small.same(before["optimizer"]["torch"], after["optimizer"]["torch"])
    assert any(not torch.equal(value, later["model"][name]) for name, value in after["model"].items())
    kept = small.state_of(run.folder / "failed" / "step_1")
    assert {"batch", "scalars", "trainers"} <= set(kept)
    assert {"tokens", "advantage", "group", "data.prompt"} <= set(kept["batch"])
    assert kept["scalars"]["seed"]
    assert all(torch.isfinite(v).all() for v in weights(run.folder / "model").values())


def ones(completion):
    """The same score for everything."""
    return 1.0


ones.bounded = True


@pytest.mark.parametrize("size", [1, 2])
def test_a_run_in_which_no_scores_differed_warns_of_it_once(begin, capfd, size):
    algorithm = grpo(group_size=2) if size == 2 else reinforce_pp(group_size=1)
    run = begin(reward=ones, algorithm=algorithm).train()
    warned = [line for line in capfd.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(warned) == 1
    assert "in every step all samples of a group had the same score (mean score of the last step: 1)" in warned[0]
    assert f"rlcore rollouts {run.folder}" in warned[0]
    assert run.summary["steps_without_signal"] == 3


def test_a_run_in_which_some_scores_differed_does_not_warn(begin, capfd):
    for name, algorithm in (("two", grpo(group_size=2)), ("one", reinforce_pp(group_size=1))):
        run = begin(name=name, algorithm=algorithm).train()
        assert run.summary["steps_without_signal"] < 3
        assert "warning" not in capfd.readouterr().err


def test_a_run_whose_last_ten_steps_had_no_signal_warns_of_these(tmp_path, capfd):
    flat = {"groups/without_variance": 1.0, "groups/singleton": 0.0, "score": 0.0, "score/max": 0.0}
    for before, said in ((0, "in every step"), (1, "in each of the last 10 steps")):
        rows = [{**flat, "groups/without_variance": 0.5}] * before + [flat] * 10
        state = TrainingState(step=len(rows), history=History(rows))
        state.history[-1]["update/updates/applied"] = 1.0
        summary = write_summary(tmp_path, state, {}, Progress(quiet=True))
        assert said in capfd.readouterr().err
        assert summary["steps_without_signal"] == 10
    flat_for_nine = TrainingState(step=10, history=History([{"update/updates/applied": 1.0}, *[flat] * 9]))
    write_summary(tmp_path, flat_for_nine, {}, Progress(quiet=True))
    assert capfd.readouterr().err == ""


def test_a_quiet_run_still_warns_of_skipped_updates_and_says_that_none_was_applied(begin, capfd):
    factor = [1.0]
    algorithm = replace(grpo(group_size=2), loss=lambda logprob, advantage: -advantage * logprob * factor[0])
    run = begin(name="skipped", algorithm=algorithm, steps=2, limits={"max_skipped": 9})
    run.load()  # the dry step, which refuses a loss that is never finite, is behind it
    factor[0] = float("nan")
    run.train()
    said = capfd.readouterr().err
    assert "warning: step 1: an update was not finite and was skipped" in said
    assert "warning: no update was applied in 2 steps (2 were not finite, 0 had nothing to train on)" in said
    assert json.loads((run.folder / "summary.json").read_text())["updates_applied"] == 0
    run = begin(name="empty", reward=lambda completion: None, steps=2).train()
    assert "(0 were not finite, 2 had nothing to train on)" in capfd.readouterr().err
    run = begin(name="applied", steps=2).train()
    assert run.summary["updates_applied"] == 2
    assert "warning" not in capfd.readouterr().err


def test_too_many_of_them_in_a_row_stop_the_run_and_no_weight_is_lost(begin):
    run = begin(algorithm=poisoned({2, 3, 4, 5}), steps=6, limits={"max_skipped": 2}, save={"every": 1})
    with pytest.raises(
        RunError,
        match=r"2 updates in a row were not finite .*limits.max_skipped.*rlcore replay .*/failed/step_3 --check",
    ):
        run.train()
    assert len(run.history) == 4
    saved = small.last_state(run.folder)["trainers"]["trainer"]["model"]
    assert all(torch.isfinite(value).all() for value in saved.values())


def test_skipped_updates_that_are_not_in_a_row_stop_nothing(begin):
    run = begin(algorithm=poisoned({1, 3, 5}), steps=6, limits={"max_skipped": 2}).train()
    assert sum(run.history.column("update/updates/skipped")) == 3


# -- trackers and hooks


BAD = """
import time
from rlcore import Tracker

class Bad(Tracker):
    '''Fails where it is told to.'''
    at = {at!r}

    def start(self, **about):
        if self.at == "start":
            raise OSError("no network")

    def log(self, step, metrics):
        if self.at == step:
            raise OSError("no network")

    def finish(self):
        if self.at == "finish":
            raise OSError("no network")
"""


@pytest.mark.parametrize("at", ["start", 2, "finish"])
def test_a_tracker_that_fails_warns_once_and_the_others_get_every_row(begin, tmp_path, caplog, at):
    # B95
    (tmp_path / "bad.py").write_text(BAD.format(at=at))
    run = begin(tracker=(f"{tmp_path}/bad.py:Bad", "jsonl")).train()
    assert [row["step"] for row in small.read(run.folder / "metrics.jsonl")] == [1, 2, 3]
    assert caplog.text.count("no network") == 1


def test_watching_hooks_see_the_run_and_one_that_fails_stops_nothing(begin, caplog):
    seen = []
    module = types.ModuleType("watcher")
    module.run_started = hookimpl(lambda folder: seen.append("started"), specname="run_started")
    module.node_finished = hookimpl(lambda node: seen.append(node), specname="node_finished")
    module.step_finished = hookimpl(
        lambda step, metrics: seen.append((step, "score" in metrics)), specname="step_finished"
    )
    module.checkpoint_saved = hookimpl(lambda folder: seen.append(folder.name), specname="checkpoint_saved")
    module.run_finished = hookimpl(lambda run: 1 / 0, specname="run_finished")
    module.run_failed = hookimpl(lambda error: seen.append(type(error).__name__), specname="run_failed")
    registry().load(Plugin("watcher", "watcher", "watcher-rl", "1"), lambda: module)
    try:
        begin(steps=1).train()
        assert seen[0] == "started"
        assert seen.index("rollout") < seen.index("update") < seen.index((1, True)) < seen.index("step_1")
        assert "plugin watcher-rl:watcher failed in hook run_finished" in caplog.text
        with pytest.raises(RunError):
            begin(name="failing", algorithm=poisoned({1, 2}), steps=6, limits={"max_skipped": 1}).train()
        assert seen[-1] == "RunError"
    finally:
        registry().manager.unregister(module)
        registry().plugins.pop()


# -- other objects


def test_parts_may_be_functions_of_a_file_and_unknown_ones_name_the_nearest(begin, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def near(completion: str, target: str) -> float:\n    return len(completion) / 4\n"
    )
    run = begin(reward=f"{tmp_path}/mine.py:near", steps=1).train()
    assert len(run.history) == 1
    with pytest.raises(LookupError, match="Did you mean 'numeric_answer'"):
        begin(reward="numeric_anser")
    with pytest.raises(RegistryError, match="Did you mean 'near'"):
        begin(reward=f"{tmp_path}/mine.py:neer")
    with pytest.raises(ConfigError, match=r"unknown setting 'learning_rat'.*Did you mean 'learning_rate'"):
        begin(learning_rat=1.0)


def test_evaluation_uses_the_same_seeds_before_and_after_so_at_rate_zero_it_is_equal(begin, tmp_path):
    (tmp_path / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in small.ROWS[:6]))
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in small.ROWS))
    run = begin(
        data={"name": "file", "path": str(tmp_path / "all.jsonl"), "split": "all"},
        eval={"data": str(tmp_path / "held.jsonl"), "every": 1, "samples": 2},
        learning_rate=0.0,
        steps=2,
    ).train()
    rows = small.read(run.folder / "evaluations.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert len({row["score"] for row in rows}) == 1
    assert rows[0]["samples"] == 12
    assert len(small.read(run.folder / "heldout.jsonl")) == 6
    assert run.summary["score_before"] == run.summary["score_after"]


def test_a_prompt_that_no_tokenizer_takes_is_named_with_its_row(tmp_path):
    model = small.save_model(tmp_path / "model")
    rows = [{"prompt": "1", "target": "1"}, {"prompt": "\ud800", "target": "1"}]
    with pytest.raises(DataError, match="row 1: its prompt cannot be encoded"):
        small.make(model, tmp_path, data=rows).check()
