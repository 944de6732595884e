"""Runs over rows that stay in their file: the same prompts, the same resume, columns and lengths judged as drawn."""

import pytest

from rlcore.errors import DataError
from tests.run import small


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def begin(model, tmp_path):
    file = small.save_data(tmp_path / "sums.jsonl")

    def made(lazy=True, **settings):
        data = {"name": "file", "path": str(file), "lazy": lazy}
        return small.make(model, tmp_path / "runs", data=data, **settings)

    return made


def test_a_lazy_run_equals_the_one_in_memory_and_resumes_bit_for_bit(begin):
    whole = begin(lazy=False, name="memory", steps=3).train()
    lazy = begin(name="lazy", steps=3).train()
    assert small.metrics(whole.folder) == small.metrics(lazy.folder)
    assert small.read(whole.folder / "rollouts.jsonl") == small.read(lazy.folder / "rollouts.jsonl")
    first = begin(name="cut", steps=2).train()
    begin(name="cut", steps=3, resume=str(first.folder)).train()
    small.assert_equal_runs(lazy.folder, first.folder)


def test_prompts_over_the_limit_are_passed_over_as_they_are_drawn(begin, tmp_path, caplog):
    long = {"prompt": "1" * 30, "target": "1"}
    with (tmp_path / "sums.jsonl").open("a") as file:
        file.writelines(small.json.dumps(long) + "\n" for _ in range(4))
    run = begin(steps=6, max_prompt_tokens=20)
    run.train()
    assert {len(row["prompt"]) for row in small.read(run.folder / "rollouts.jsonl")} == {4}
    assert 0 < run.load().first.prompts.fit.left_out <= 4
    assert "a prompt of 31 tokens was drawn, more than max_prompt_tokens=20" in caplog.text


def test_a_file_of_which_no_prompt_fits_says_lengths_and_limit(begin):
    with pytest.raises(
        DataError, match=r"12 rows in a row have more than max_prompt_tokens=2 tokens \(the shortest 5\)"
    ):
        begin(max_prompt_tokens=2).train()
