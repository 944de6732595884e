import asyncio
import math

import pytest
import torch

from rlcore.batch import Batch
from rlcore.component import bind, options
from rlcore.errors import ConfigError, DataError, RewardError, RLCoreError
from rlcore.execute.grader import Grader
from rlcore.protocols import Sample
from rlcore.testing import check
from rlcore_rewards.calling import checks_rows
from rlcore_rewards.combinations import Gated, PerSource, Weighted
from rlcore_rewards.form import think_answer
from rlcore_rewards.managers import DefaultManager
from rlcore_rewards.text import exact_answer


def sample(completion, **data):
    return Sample("2+2=", completion, None, data)


def graded(reward, *samples, **options):
    """(score or None, parts) of each sample."""
    manager = DefaultManager(reward, **options)
    try:
        grades = manager.score(samples)
    finally:
        manager.close()
    return [(None if math.isnan(one.score) else one.score, dict(one.components)) for one in grades]


def number(completion):
    return float(completion)


def shouting(completion):
    return {"score": float(completion.isupper()), "letters": len(completion), "extracted": completion.lower()}


async def later(completion):
    await asyncio.sleep(0)
    return 0.5


def never(completion):
    return None


for plain in (number, shouting, never):
    plain.bounded = True  # no worker process for each of these tests


def test_a_weighted_sum_reports_every_part_by_its_name():
    reward = bind(
        Weighted, components={"n": number, "later": later, "seen": number}, weights={"later": 3.0, "seen": 0.0}
    )
    assert graded(reward, sample("0.25"), sample("-1")) == [
        (1.75, {"n": 0.25, "later": 0.5, "seen": 0.25}),
        (0.5, {"n": -1.0, "later": 0.5, "seen": -1.0}),
    ]
    [(score, parts)] = graded(bind(Weighted, components={"loud": shouting}, weights={"loud": 0.5}), sample("AB"))
    assert (score, parts) == (0.5, {"loud": 1.0, "loud.letters": 2.0})


def test_b65_a_part_that_does_not_apply_is_left_out_and_one_that_fails_unscores_the_row():
    both = bind(Weighted, components={"n": number, "never": never})
    assert graded(both, sample("2"), sample("x"), max_failed_share=1.0) == [(2.0, {"n": 2.0}), (None, {})]
    assert graded(bind(Weighted, components={"never": never}), sample("2")) == [(None, {})]


def test_a_reward_behind_a_gate_is_asked_where_it_passes_and_nowhere_else(tmp_path):
    def costly(completion):
        with (tmp_path / "asked").open("a") as file:
            file.write(completion)
        return 7.0

    reward = bind(Gated, gate=number, reward=costly, threshold=0.5, otherwise=-1.0)
    assert graded(reward, sample("0.4"), sample("0.5"), sample("3"), sample("x")) == [
        (-1.0, {"gate": 0.4}),
        (7.0, {"gate": 0.5, "reward": 7.0}),
        (7.0, {"gate": 3.0, "reward": 7.0}),
        (None, {}),
    ]
    assert sorted((tmp_path / "asked").read_text()) == sorted("0.53")
    assert graded(bind(Gated, gate=never, reward=later), sample("1")) == [(0.5, {"reward": 0.5})]
    assert graded(bind(Gated, gate=later, reward=never, threshold=0.0), sample("1")) == [(None, {"gate": 0.5})]


def test_each_source_has_its_own_reward():
    reward = bind(PerSource, sources={"openai/gsm8k": number, "b": later}, default=shouting)
    rows = [sample("2", data_source="b"), sample("3", data_source="openai/gsm8k"), sample("A", data_source="c")]
    assert graded(reward, *rows) == [
        (0.5, {"b": 0.5}),
        (3.0, {"openai/gsm8k": 3.0}),
        (1.0, {"default": 1.0, "default.letters": 1.0}),
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"data_source": "my/gsm8k-copy"},
            r"'my/gsm8k-copy' has no reward; known: 'gsm8k', 'math'.*{'my/gsm8k-copy': NAME}",
        ),
        ({"data_source": ""}, "'' has no reward; known: 'gsm8k', 'math'. Map it with reward.default=NAME"),
        ({"data_source": None}, "data_source is missing; known"),
        ({}, "data_source is missing; known"),
    ],
)
def test_b68_an_unknown_source_is_an_error_that_lists_the_known_and_says_how_to_map_it(data, said):
    reward = bind(PerSource, sources={"gsm8k": number, "math": number})
    manager = DefaultManager(reward)
    assert manager.checks_rows
    with pytest.raises(DataError, match=said):
        manager.check_row(data)
    manager.check_row({"data_source": "math"})
    DefaultManager(bind(reward, default=number)).check_row(data)
    assert graded(reward, sample("1", data_source="math"), sample("1", **data | {"data_source": ""})) == [
        (1.0, {"math": 1.0}),
        (None, {}),
    ]
    with pytest.raises(RewardError, match="'per_source' reads 'data_source', which the data does not have"):
        manager.check({"target"})


def test_rows_are_checked_by_the_parts_that_would_be_asked():
    def odd(data):
        raise ValueError("odd")

    @checks_rows(odd)
    def picky(completion):
        return 1.0

    inner = bind(Gated, gate=number, reward=picky)
    for reward in (
        {"a": number, "b": picky},
        bind(Weighted, components={"a": inner}),
        bind(PerSource, sources={"s": inner}),
    ):
        manager = DefaultManager(reward)
        with pytest.raises(DataError, match="could grade no completion: odd"):
            manager.check_row({"data_source": "s"})
    DefaultManager(bind(PerSource, sources={"s": inner, "t": number})).check_row({"data_source": "t"})


def test_combinations_nest_and_their_names_are_known_before_anything_is_graded():
    inner = bind(Gated, gate=later, reward=bind(Weighted, components={"x": number, "y": later}), threshold=0.5)
    manager = DefaultManager(bind(Weighted, components={"in": inner, "form": think_answer}))
    assert manager.component_names == ("in", "in.gate", "in.reward", "in.reward.x", "in.reward.y", "form")
    [one] = manager.score([sample("2")])
    assert (one.score, set(one.components)) == (2.5, set(manager.component_names))
    manager.close()


def test_parts_are_written_by_name_with_their_options():
    written = {"answer": "exact_answer", "form": {"name": "think_answer", "end_tokens": ["</s>"]}}
    made = Weighted(components=written, weights={"form": 2})
    assert made.components["answer"] is exact_answer
    assert options(made.components["form"])["end_tokens"].default == ("</s>",)
    text = "<think>a</think><answer>b</answer></s>c"
    assert made(text, target="x") == {"score": 2.0, "answer": 0.0, "form": 1.0, "extracted": None}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Weighted(), "no reward to grade with; give rewards by name: reward.components="),
        (
            lambda: Weighted(components={"a": "exact_anwser"}),
            "reward.components.a=exact_anwser.*Did you mean 'exact_answer'",
        ),
        (
            lambda: Weighted(components={"a": {"name": "think_answer", "end": 1}}),
            "reward.components.a.end: .*no option 'end'",
        ),
        (lambda: Weighted(components={"a": 3}), "reward.components.a=3: expected the name of a reward"),
        (lambda: Weighted(components={"form": later}, weights={"from": 1}), "reward.weights.from.*Did you mean 'form'"),
        (lambda: Weighted(components={"form": later}, weights={"form": math.nan}), "expected a finite number"),
        (lambda: Gated(gate=later), "reward.reward must be set"),
        (lambda: PerSource(), "no sources; give rewards by source"),
        (lambda: PerSource(sources={"default": later}, default=later), "set one"),
    ],
)
def test_what_cannot_be_combined_is_refused_with_the_key(make, said):
    with pytest.raises(RLCoreError, match=said) as caught:
        make()
    assert isinstance(caught.value, ConfigError | LookupError)


def test_a_combination_called_alone_calls_its_parts_and_raises_what_they_raise():
    made = Weighted(components={"n": number, "l": later, "in": bind(Gated, gate=shouting, reward=later)})
    with pytest.raises(ValueError, match="could not convert"):
        made("x")
    assert Gated(gate=shouting, reward=later)("AB", target=1) == {
        "score": 0.5,
        "gate": 1.0,
        "gate.letters": 2.0,
        "reward": 0.5,
        "extracted": "ab",
    }
    assert Gated(gate=never, reward=never)("A")["score"] is None
    with pytest.raises(RewardError, match="'t' has no reward; known: 's'"):
        PerSource(sources={"s": later})("A", data_source="t")


@pytest.mark.parametrize(
    "reward",
    [
        bind(Weighted, components={"answer": exact_answer, "form": think_answer}, weights={"form": 0.5}),
        bind(Gated, gate=think_answer, reward=exact_answer),
        bind(PerSource, sources={"conformity": exact_answer}),
    ],
    ids=["weighted", "gated", "per_source"],
)
def test_combinations_are_rewards_like_any_other(reward):
    assert [checked for checked in check("reward", reward) if not checked.ok] == []


def test_the_names_of_the_parts_are_the_same_in_every_batch():
    # The first batch holds no row that passes the gate: its reward has a column all the same.
    manager = DefaultManager(bind(Gated, gate=number, reward=later))
    grader = Grader(manager, decode=lambda ids: str(ids[0]), show=str)
    ones = torch.ones(2, dtype=torch.int64)
    columns = {"length": ones, "sampled": ones.bool(), "mask": ones.bool(), "session": torch.arange(2)}
    first, second = (
        grader.score(Batch({**columns, "tokens": torch.tensor(ids), "data.prompt": ["p", "p"]}))
        for ids in ([0, 0], [1, 0])
    )
    manager.close()
    assert grader.components == ("gate", "reward")
    assert first["score_components"][:, 0].tolist() == [0.0, 0.0]
    assert first["score_components"][:, 1].isnan().all()
    assert second["score_components"][0].tolist() == [1.0, 0.5]
    assert second["score"].tolist() == [0.5, 0.0]
