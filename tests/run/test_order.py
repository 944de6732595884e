"""Orders of rows in a run: chosen by name, told what was graded, saved with the checkpoint."""

import pytest

from rlcore.component import bind
from rlcore.config import load
from rlcore.errors import ConfigError, UnknownNameError
from rlcore_algorithms import dapo
from rlcore_envs.orders import BySuccess, Staged
from tests.run import small

ROWS = [{**row, "difficulty": i} for i, row in enumerate(small.ROWS)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.mark.parametrize(
    ("order", "algorithm"),
    [(bind(Staged, stages=3, success=0.1, window=4), None), (bind(BySuccess, rate=0.5), dapo(group_size=2))],
)
def test_an_order_that_goes_by_scores_resumes_bit_for_bit(model, tmp_path, order, algorithm):
    made = {"data": ROWS, "order": order, "algorithm": algorithm}
    whole = small.make(model, tmp_path, name="whole", steps=4, **made).train()
    first = small.make(model, tmp_path, name="cut", steps=2, **made).train()
    small.make(model, tmp_path, name="cut", steps=4, resume=str(first.folder), **made).train()
    small.assert_equal_runs(whole.folder, first.folder)
    assert small.last_state(whole.folder)["policies"][""]["prompts"]["pending"] == []


def test_stages_open_in_a_run_and_held_out_scores_do_not_count(model, tmp_path):
    order = bind(Staged, stages=6, success=0.0, window=4)
    run = small.make(model, tmp_path, data=ROWS, order=order, steps=3, reward=lambda completion, target: 1.0)
    run.train()
    # Four samples a step, each step a full window that is good enough.
    assert small.last_state(run.folder)["policies"][""]["prompts"]["order"]["stage"] == 3
    rows = small.read(run.folder / "rollouts.jsonl")
    difficulty = {row["prompt"]: row["difficulty"] for row in ROWS}
    assert [max(difficulty[r["prompt"]] for r in rows if r["step"] == step) for step in (1, 2, 3)] == [1, 3, 5]
    before = run.load().first.prompts.order.state_dict()
    run.evaluate(ROWS[:4])
    assert run.load().first.prompts.order.state_dict() == before


def test_an_order_is_chosen_by_name_with_its_options(tmp_path):
    words = ["model=none", "data=countdown", "reward=expression_answer"]
    experiment = load([*words, "order=staged", "order.column=target", "order.stages=3"])
    assert experiment.resolved["order"] == {
        "name": "staged", "column": "target", "stages": 3, "success": 0.7, "window": 256,
    }  # fmt: skip
    assert load(words).resolved["order"] == {"name": "shuffled"}
    with pytest.raises(UnknownNameError, match="Did you mean 'staged'"):
        load([*words, "order=stagd"])
    with pytest.raises(ConfigError, match="stages"):
        load([*words, "order=staged", "order.stage=3"])


def test_an_order_of_ones_own_needs_three_methods(model, tmp_path):
    class Backwards:
        def __init__(self, size, *, stride: int = 1):
            self.size, self.stride, self.drawn = size, stride, 0

        def next(self, count):
            self.drawn += count
            return [-(i * self.stride) % self.size for i in range(self.drawn - count, self.drawn)]

        def state_dict(self):
            return {"drawn": self.drawn}

        def load_state_dict(self, state):
            self.drawn = state["drawn"]

    run = small.make(model, tmp_path, data=ROWS, order=bind(Backwards, stride=2), steps=1)
    run.train()
    prompts = {row["prompt"] for row in small.read(run.folder / "rollouts.jsonl")}
    assert prompts == {ROWS[0]["prompt"], ROWS[10]["prompt"]}
    with pytest.raises(ConfigError, match="which is not an Order: it lacks load_state_dict, next and state_dict"):
        small.make(model, tmp_path, name="wrong", data=ROWS, order=lambda size: object()).check()
