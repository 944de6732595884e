"""Graphs whose rows come from the data set: supervised training, pairs, labels and reward models."""

import json
import math
import random
import subprocess
import sys
import textwrap
import time

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from rlcore import Run, get
from rlcore.checkpoint import checkpoint_step, newest
from rlcore.data import RowEncoder, TokenRow
from rlcore.errors import ComponentError, ConfigError, DataError, GraphError
from rlcore.execute.local import RolloutRows
from rlcore.graph import Graph, Node
from rlcore.offline import OfflineAlgorithm, answers_apart, completions, pairs
from rlcore.protocols import Tracker
from rlcore_algorithms import bradley_terry, dpo, grpo, kto, ppo, sft
from rlcore_algorithms.losses import nll
from rlcore_algorithms.reductions import token_mean
from rlcore_rewards.reward_model import RewardModel
from tests.run import small
from tests.strangers import installed

ROWS = [{"prompt": f"{a}+{b}=", "completion": str(a + b)} for a in range(12, 15) for b in range(4)]
PAIRS = [{"prompt": f"{a}+{b}=", "chosen": str(a + b), "rejected": "x" * (a + 1)} for a in range(3) for b in range(3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


def make(model, where, algorithm, rows, **settings):
    return small.make(
        model,
        where,
        **{"algorithm": algorithm, "data": rows, "reward": None, "training": {"precision": "float32"}, **settings},
    )


class StopAfter(Tracker):
    """Interrupts the run after some steps."""

    immediate = True

    def __init__(self, steps):
        self.steps = steps

    def log(self, step, metrics):
        if step == self.steps:
            raise KeyboardInterrupt


def plain_loss(module, encoded):
    """The cross-entropy of answers by transformers alone, a row after the other: mean over their tokens."""
    total, count = 0.0, 0
    for row in encoded:
        logits = module(torch.tensor([row.tokens])).logits[0, :-1]
        on = torch.tensor(row.sampled[1:])
        total = total + F.cross_entropy(logits[on], torch.tensor(row.tokens[1:])[on], reduction="sum")
        count += int(on.sum())
    return total / count


@pytest.mark.parametrize("budget", [8, 8192])
def test_loss_and_gradients_of_sft_are_those_of_a_plain_loop(model, tmp_path, budget):
    settings = {"training": {"precision": "float32", "token_budget": budget}}
    run = make(model, tmp_path, sft(), ROWS, prompts=len(ROWS), steps=1, **settings)
    policy, trainer = run.load().first, run.load().trainers["trainer"]
    batch = policy.executor._roll_out(0).batch
    assert len(batch) == len(ROWS)
    update = next(n.call for n in run.graph.nodes if n.kind == "update")
    gradients = trainer.gradient(batch, update, seed=0)
    module = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    loss = plain_loss(module, [policy.executor.roles.encode.completion(row) for row in ROWS])
    loss.backward()
    assert float(trainer.measure(batch, update, seed=0)["loss"].value) == pytest.approx(loss.item(), abs=1e-6)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("algorithm", [sft(), dpo(), kto(), bradley_terry()], ids=lambda a: a.name)
def test_gradients_are_the_same_however_the_rows_are_split(model, tmp_path, algorithm):
    """A token to a microbatch, prompts shared or not: sides of a pair stay together, and counts are the update's."""
    rows = [{**pair, **row, "label": i % 2} for i, (pair, row) in enumerate(zip(PAIRS, ROWS, strict=False))]
    found = []
    for number, more in enumerate(({}, {"token_budget": 1}, {"share_prompts": False}, {"token_budget": 20})):
        training = {"precision": "float32", **more}
        run = make(model, tmp_path, algorithm, rows, prompts=6, training=training, seed=3, name=str(number))
        executor, trainer = run.load().first.executor, run.load().trainers["trainer"]
        with torch.no_grad():
            head = trainer.forward_pass.value_head
            if head is not None:  # it starts at 0
                head.weight.copy_(torch.linspace(-1, 1, len(head.weight)))
        result = executor._roll_out(0)
        plan = executor.graph.resolve()
        batch = result.batch
        for node in plan.learning_stage[:-1]:
            batch = executor._run(node, plan, result, RolloutRows(batch)).batch
        gradients = trainer.gradient(batch, plan.nodes[-1].call, seed=0, scalars=result.scalars)
        found.append(gradients)
    assert max(float(g.abs().max()) for g in found[0].values()) > 1e-3
    for other in found[1:]:
        for name, gradient in found[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=2e-6)


def test_a_run_of_sft_learns_and_measures_held_out_rows(model, tmp_path):
    heldout = small.empty(tmp_path / "d") / "heldout.jsonl"
    heldout.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:5]))
    data = heldout.with_name("rows.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS[5:]))
    data = {"name": "file", "path": str(data), "split": "all"}
    run = make(model, tmp_path, sft(), data, prompts=4, steps=8, eval={"data": str(heldout), "every": 4})
    before = run.evaluate()
    encode = run.load().first.executor.roles.encode
    module = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    expected = float(plain_loss(module, [encode.completion(row) for row in ROWS[:5]]))
    assert before["loss"] == pytest.approx(expected, abs=1e-5)
    run.train()
    assert run.before["loss"] == pytest.approx(before["loss"])
    assert run.summary["loss_after"] < 0.9 * run.summary["loss_before"]
    assert run.summary["groups"] == {"drawn": 32, "trained": 32, "dropped": {}, "waiting": 0}
    assert "eval/loss" in run.history[3]
    assert not any(name.startswith(("score", "response/truncated")) for row in run.history for name in row)


@pytest.mark.parametrize("algorithm", [sft(), dpo(), kto(), bradley_terry()], ids=lambda a: a.name)
def test_one_that_was_stopped_goes_on_bit_for_bit(model, tmp_path, algorithm):
    rows = [{**pair, **row, "label": i % 2} for i, (pair, row) in enumerate(zip(PAIRS, ROWS, strict=False))]
    how = {"steps": 4, "prompts": 2, "save": {"every": 1, "keep": 9}}
    whole = make(model, tmp_path, algorithm, rows, name="whole", **how).train()
    cut = make(model, tmp_path, algorithm, rows, name="cut", **{**how, "tracker": (lambda: StopAfter(3),)})
    with pytest.raises(KeyboardInterrupt):
        cut.train()
    resumed = make(model, tmp_path, algorithm, rows, **how, resume=str(tmp_path / "cut")).train()
    small.same(small.unmeasured(small.last_state(whole.folder)), small.unmeasured(small.last_state(resumed.folder)))


def test_the_rows_of_dpo_are_the_sides_of_each_pair_and_the_loss_is_log_2_before_the_first_update(model, tmp_path):
    run = make(model, tmp_path, dpo(), PAIRS, prompts=3, steps=2).train()
    assert run.history[0]["update/loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert run.history[1]["update/loss"] < math.log(2)
    assert run.graph.resolve().roles == ("reference", "trainer")
    assert run.history[0]["rows/trained"] == 6


def test_messages_are_prompts_and_answers_too(tmp_path):
    from tests.tiny import character_tokenizer

    tokenizer = character_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '(' if m.role == 'user' else ')' }}{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}){% endif %}"
    )
    encode = RowEncoder(tokenizer, (2,))
    row = {
        "prompt": [{"role": "user", "content": "1+1="}],
        "chosen": [{"role": "assistant", "content": "2"}],
        "rejected": {"role": "assistant", "content": "3"},
    }
    chosen, rejected = pairs(row, encode)
    assert tokenizer.decode(chosen.tokens) == "(1+1=<eos>)2<eos>"
    assert tokenizer.decode(rejected.tokens) == "(1+1=<eos>)3<eos>"
    assert [t for t, on in zip(chosen.tokens, chosen.sampled, strict=True) if on] == [*tokenizer("2").input_ids[1:], 2]
    assert chosen.columns == {"chosen": True}
    # What a run draws of the prompt is exactly what stands before the answer.
    assert encode.answer({**row, "prompt": "1+1="}, "2").tokens == [*tokenizer("1+1=2").input_ids, 2]


def test_whole_conversations_as_published_are_a_prompt_and_two_answers():
    said = [{"role": "user", "content": "1+1="}]
    answers = {"chosen": "2", "rejected": "3"}
    sides = {name: [*said, {"role": "assistant", "content": text}] for name, text in answers.items()}
    for prompt in ({}, {"prompt": "1+1="}, {"prompt": said}):
        apart = answers_apart({**prompt, **sides})
        assert apart["prompt"] == said
        assert [apart[name] for name in answers] == [[side[-1]] for side in sides.values()]
    plain = {"prompt": "1+1=", **answers}
    assert answers_apart(plain) == plain
    other = [{"role": "user", "content": "1+2="}, sides["rejected"][-1]]
    with pytest.raises(DataError, match="differ before their last message"):
        answers_apart({**sides, "rejected": other})
    with pytest.raises(DataError, match="do not begin with the row's prompt"):
        answers_apart({"prompt": other[:1], **sides})


def test_a_reward_model_that_was_trained_is_used_at_once_and_by_transformers(model, tmp_path):
    rows = [{**row, "target": row["chosen"]} for row in PAIRS]
    trained = make(model, tmp_path, bradley_terry(), rows, prompts=3, steps=8, name="rm").train()
    assert trained.history[-1]["update/accuracy"] == 1
    folder = trained.folder / "model"
    prompts, good, bad = ([row[name] for row in PAIRS] for name in ("prompt", "chosen", "rejected"))
    scored = RewardModel(path=str(folder), workers=0)
    high, low = scored(prompts, good), scored(prompts, bad)
    assert all(a > b for a, b in zip(high, low, strict=True))
    classifier = AutoModelForSequenceClassification.from_pretrained(folder)
    ids = run_ids(trained, rows[0], "chosen")
    assert float(classifier(torch.tensor([ids])).logits) == pytest.approx(high[0], abs=1e-5)
    # It is a language model still, and a critic begins with its head.
    reward = {"name": "reward_model", "path": str(folder), "workers": 0}
    how = {"roles": {"critic": {"model": str(folder)}}, "training": {"precision": "float32"}}
    run = small.make(model, tmp_path, algorithm=ppo(group_size=2), reward=reward, steps=2, **how).train()
    assert all(math.isfinite(row["score"]) for row in run.history)


def run_ids(run, row, side):
    return run.load().first.executor.roles.encode.scored(row, row[side])


def test_sft_then_a_reward_model_then_ppo_from_one_file(model, tmp_path):
    """Each stage begins with the weights of the one before, from one configuration file."""
    from rlcore.config import load

    rows = tmp_path / "rows.jsonl"
    made = [{**pair, "completion": pair["chosen"], "target": pair["chosen"]} for pair in PAIRS]
    rows.write_text("".join(json.dumps(row) + "\n" for row in made))
    file = tmp_path / "all.yaml"
    file.write_text(
        f"model: {model}\ndata: {{name: file, path: {rows}, split: all}}\nprompts: 3\nsteps: 2\nmax_new_tokens: 4\n"
        f"learning_rate: 1.0e-3\ntracker: jsonl\nsave: {{every: 1}}\ndevice: cpu\nrun: {{folder: {tmp_path}/runs}}\n"
    )

    def train(*words):
        return Run.of(load(list(words), file), quiet=True).train().folder

    first = train("algorithm=sft", "run.name=sft")
    second = train("algorithm=bradley_terry", "run.name=rm", f"start_from={first}")
    reward = ("reward=reward_model", f"reward.path={second}/model", "reward.workers=0")
    third = train("algorithm=ppo", "algorithm.group_size=2", "run.name=ppo", f"start_from={first}", *reward)
    for stage in (first, second, third):
        resumed = Run.of(load([f"resume={stage}", "steps=3"]), quiet=True).train()
        assert resumed.step == 3


STRANGER = '''
"""Pairs made by a rule, and a preference loss of one's own: the margin of mean log-probabilities, squared to 1."""
from rlcore import OfflineAlgorithm, hookimpl
from rlcore.math import masked, masked_mean, pair_difference
from rlcore.offline import pairs
from rlcore_algorithms.reductions import sequence_mean_token_mean


def squared(logprob, mask, pair, chosen, *, margin: float = 1.0):
    """Return the squared distance of a pair's margin to the one asked for [B]."""
    difference, whole = pair_difference(masked_mean(logprob, mask, dim=1), mask, pair, chosen)
    return masked((difference - margin).square(), whole)


def sums(*, count: int = 8):
    """Sums with a right and a wrong answer."""
    return [{"prompt": f"{n}+1=", "chosen": str(n + 1), "rejected": str(n)} for n in range(count)]


def squared_preferences():
    """Preferences by a squared margin."""
    return OfflineAlgorithm(name="squared_preferences", rows=pairs, loss=squared, reduction=sequence_mean_token_mean)


@hookimpl
def register(add):
    add.loss("squared", squared)
    add.dataset("sums", sums)
    add.algorithm("squared_preferences", squared_preferences)
'''


def test_a_strangers_package_brings_a_preference_loss_and_pairs_in_under_forty_lines(model, tmp_path):
    assert len(STRANGER.strip().splitlines()) < 40
    package = small.empty(tmp_path / "stranger")
    (package / "squares.py").write_text(STRANGER)
    (package / "pyproject.toml").write_text(
        textwrap.dedent("""
        [project]
        name = "squares"
        version = "1.0"
        [project.entry-points.rlcore]
        squares = "squares"
        """)
    )
    with installed(package):
        from rlcore.config import load

        words = [f"model={model}", "data=sums", "algorithm=squared_preferences", "prompts=4", "steps=12"]
        where = [f"run.folder={tmp_path}", "tracker=jsonl", "learning_rate=1e-2", "device=cpu"]
        run = Run.of(load([*words, *where, "loss.margin=0.5"]), quiet=True).train()
        assert run.history[-1]["update/loss"] < run.history[0]["update/loss"]
        # Another's loss in a shipped algorithm, and the other way round.
        Run.of(load([*words, *where, "algorithm=dpo", "loss=squared"]), quiet=True).check()


# -- bad input


@pytest.mark.parametrize(
    ("algorithm", "row", "says"),
    [
        (dpo(), {"prompt": "1", "chosen": "2"}, r"training row 1 of 2 \(from 0\): the row has no rejected"),
        (dpo(), {"prompt": "1", "chosen": "2", "rejected": 7}, r"training row 1 .*an answer is a text.*found 7"),
        (bradley_terry(), {"prompt": "1", "rejected": "2"}, "has no chosen"),
        (kto(), {"prompt": "1", "completion": "2", "label": "yes"}, "label='yes': expected true"),
        (sft(), {"prompt": "1"}, "needs a completion or messages"),
    ],
)
def test_a_row_that_lacks_what_is_learned_is_named_before_anything_loads(tmp_path, algorithm, row, says):
    good = {"prompt": "1", "chosen": "2", "rejected": "3", "completion": "4", "label": True}
    run = make(tmp_path / "no model is here", tmp_path, algorithm, [good, row], prompts=2)
    with pytest.raises(DataError, match=says):
        run.check()


def test_a_row_that_the_model_cannot_take_is_named_before_the_first_step(model, tmp_path):
    long = {"prompt": "1", "completion": "2" * 600}
    with pytest.raises(DataError, match=r"training row 1 of 2 \(from 0\): a row has 603 tokens; the model takes \d+"):
        make(model, tmp_path, sft(), [ROWS[0], long], prompts=2).check()


def test_kto_needs_two_rows_a_step(model, tmp_path):
    rows = [{**row, "label": True} for row in ROWS]
    with pytest.raises(DataError, match="set prompts to 2 or more"):
        make(model, tmp_path, kto(), rows, prompts=1).check()


def no_rows(row, encode):
    return "ids"


def unmarked(row, encode):
    return TokenRow([5, 6], [True, True], 0)


def undeclared(row, encode):
    return encode.completion(row)._replace(columns={"chosen": True})


def silent(row, encode):
    return encode.completion(row)


silent.columns = ("chosen",)


def broken(row, encode):
    raise KeyError("of its own")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (no_rows, "no_rows: found 'i'; expected a rlcore.data.TokenRow"),
        (unmarked, "first token is marked as learned"),
        (undeclared, "has chosen, which undeclared.columns does not declare"),
        (silent, "lacks chosen, which silent.columns declares"),
        (broken, "broken failed at .*KeyError"),
    ],
)
def test_what_a_component_makes_of_rows_is_checked_at_the_door(model, tmp_path, rows, says):
    algorithm = OfflineAlgorithm(name="own", rows=rows, loss=nll, reduction=token_mean)
    with pytest.raises(ComponentError, match=says):
        make(model, tmp_path, algorithm, ROWS, prompts=2).check()


def test_a_reward_is_missed_only_where_something_is_graded(model, tmp_path):
    with pytest.raises(ConfigError, match="reward= is missing"):
        small.make(model, tmp_path, algorithm=grpo(group_size=2), reward=None)


def test_a_reward_is_for_evaluations_where_nothing_is_graded(model, tmp_path):
    rows = [{**row, "target": row["completion"]} for row in ROWS]
    run = make(model, tmp_path, sft(), rows, prompts=2, steps=1, reward=small.digits)
    values = run.evaluate(rows[:3])
    assert {"loss", "success", "score"} <= values.keys()
    run.load().close()


def test_a_graph_without_a_goal_is_refused():
    graph = sft().graph()
    with pytest.raises(GraphError, match="has no goal"):
        Graph(graph.nodes, goals=()).resolve()


def test_reads_that_are_given_take_the_place_of_the_kinds():
    assert [r.name for r in Node(nll, name="own", kind="advantage", reads=("score",)).reads] == ["score"]
    # A rollout is always drawn for prompts, and rows are made of data.
    assert {"group", "data.prompt"} < {
        r.name for r in Node(name="r", kind="rollout", role="s", reads=("weights.s",)).reads
    }
    assert [r.name for r in Node(completions, name="rows", kind="rows", reads=()).reads] == ["group", "data.*"]


@pytest.mark.parametrize("number", [0, 1.5, True])
def test_numbers_of_an_offline_algorithm_are_checked(number):
    with pytest.raises(ConfigError, match="minibatches must be a whole number"):
        sft(minibatches=number)


def test_every_shipped_one_is_registered():
    for name in ("sft", "dpo", "ipo", "simpo", "kto", "bradley_terry"):
        assert get("algorithm", name)().name == name


@pytest.mark.parametrize(
    "word", ["sampling.temperature=0.5", "sampler=embedded", "environment=single_turn", "max_new_tokens=9",
             "eval.samples=4", "save.rollouts=true", "max_weight_age=1", "group_size=4", "algorithm.group_size=4"]
)  # fmt: skip
def test_what_concerns_drawing_has_no_effect_where_nothing_is_drawn(model, word):
    from rlcore.config import load

    words = [f"model={model}", "data=countdown", "algorithm=sft"]
    with pytest.raises(ConfigError, match=r"has no effect: sft learns from rows|group_size"):
        load([*words, word])
    if word.partition("=")[0] in ("sampling.temperature", "sampler", "max_new_tokens", "eval.samples"):
        load([*words, word, "reward=expression_answer"])


def test_commands_that_look_at_runs_say_what_one_on_data_has(model, tmp_path, capsys):
    from rlcore.cli import main

    run = make(model, tmp_path, sft(), ROWS, prompts=2, steps=1, name="seen").train()
    assert main(["rollouts", str(run.folder)]) != 0
    assert "rollouts" in capsys.readouterr().err
    for name in ("sft", "dpo", "kto", "bradley_terry", "distill"):
        assert main(["info", name, "--kind", "algorithm"]) == 0
        assert "loss =" in capsys.readouterr().out
    assert main(["graph", f"model={model}", "data=countdown", "algorithm=dpo"]) == 0
    assert "ref_logprob" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_a_killed_process_goes_on_bit_for_bit(model, tmp_path, name):
    """SIGKILL of the whole process in the middle of a step or a save, three times; the command line resumes it."""
    rows = tmp_path / "rows.jsonl"
    made = [{**pair, "completion": pair["chosen"]} for pair in PAIRS]
    rows.write_text("".join(json.dumps(row) + "\n" for row in made))
    steps, draw = 40, random.Random(name)
    words = [f"model={model}", f"algorithm={name}", "data=file", f"data.path={rows}", "data.split=all", "prompts=2"]
    words += [f"steps={steps}", "save.every=1", "learning_rate=1e-3", "tracker=jsonl", "device=cpu"]
    words += [f"run.folder={tmp_path}", "threads=1"]

    def begin(*more):
        command = [sys.executable, "-m", "rlcore.cli", "train", "--quiet", *more]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    whole = begin(*words, "run.name=whole")
    assert whole.wait() == 0, whole.stderr.read()
    folder, reached = tmp_path / "cut", 0
    for kill in range(3):
        process = begin(*([f"resume={folder}"] if kill else [*words, "run.name=cut"]))
        after = reached + draw.randint(1, 8)
        while process.poll() is None and not (folder / "checkpoints" / f"step_{after}").exists():
            time.sleep(0.002)
        time.sleep(draw.random() * 0.02)
        process.kill()
        process.wait()
        reached = max(after, checkpoint_step(newest(folder / "checkpoints")))
        assert reached < steps
    last = begin(f"resume={folder}")
    assert last.wait() == 0, last.stderr.read()
    small.same(small.unmeasured(small.last_state(tmp_path / "whole")), small.unmeasured(small.last_state(folder)))
    assert small.metrics(tmp_path / "whole") == small.metrics(folder)
