import json

import pytest

from rlcore.component import bind, options
from rlcore.errors import ConfigError, DataError
from rlcore.protocols import Environment
from rlcore_envs.datasets import file, gsm8k, svamp
from rlcore_envs.datasets.svamp import clean_equation
from rlcore_envs.single_turn import SingleTurn


@pytest.fixture
def svamp_file(tmp_path):
    rows = [
        {
            "ID": f"chal-{i}",
            "Body": f"Ann had {i + 5} pens.",
            "Question": "She lost 2. How many now?",
            "Equation": f"( {i + 5}.0 - 2.0 )",
            "Answer": i + 3.0,
            "Type": "Subtraction",
        }
        for i in range(20)
    ]
    (tmp_path / "svamp.json").write_text(json.dumps(rows, indent=1))
    return str(tmp_path / "svamp.json")


@pytest.fixture
def gsm8k_file(tmp_path):
    rows = [
        {
            "question": f"Day {i}: 1000 and {i}?",
            "answer": f"1000+{i}=<<1000+{i}={1000 + i}>>{1000 + i}.\n#### {1000 + i:,}",
        }
        for i in range(20)
    ]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(tmp_path / "gsm8k.jsonl")


def test_svamp_splits_are_disjoint_and_carry_their_equation_for_a_warm_start(svamp_file):
    parts = {name: svamp(path=svamp_file, split=name, completion="solution") for name in ("warm", "train", "heldout")}
    assert [len(part) for part in parts.values()] == [8, 10, 2]
    assert len({row["prompt"] for part in parts.values() for row in part}) == 20
    first = parts["warm"][0]
    assert (first["prompt"], first["target"], first["completion"], first["data_source"]) == (
        "Ann had 5 pens. She lost 2. How many now?",
        "3",
        "5 - 2 = 3",
        "svamp",
    )
    assert "completion" not in svamp(path=svamp_file)[0]
    assert svamp(path=svamp_file, completion="answer", split="heldout")[0]["completion"] == "12"


def test_gsm8k_gives_its_solution_without_calculator_marks(gsm8k_file):
    row = gsm8k(path=gsm8k_file, split="all", completion="solution")[3]
    assert (row["target"], row["completion"]) == ("1003", "1000+3=1003.\n#### 1003")
    assert gsm8k(path=gsm8k_file, completion="answer", split="warm")[3]["completion"] == "#### 1003"
    assert row["data_source"] == "openai/gsm8k"


def test_the_wording_does_not_change_the_split(gsm8k_file):
    plain = gsm8k(path=gsm8k_file, split="heldout")
    spoken = gsm8k(path=gsm8k_file, split="heldout", system_prompt="End with ####.", template="Q: {prompt}")
    assert [row["question"] for row in plain] == [row["question"] for row in spoken]
    assert spoken[0]["prompt"] == [
        {"role": "system", "content": "End with ####."},
        {"role": "user", "content": "Q: Day 9: 1000 and 9?"},
    ]


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("( 76.0 - 25.0 )", "76 - 25"),
        ("( 6.0 - ( 3.0 + 2.0 ) )", "6 - (3 + 2)"),
        ("( ( 692.0 + 692.0 ) - 458.0 )", "(692 + 692) - 458"),
        ("8.0", "8"),
        ("( 2.5 * 10.05 )", "2.5 * 10.05"),
        ("( 1.0 + 2.0 ) * ( 3.0 + 4.0 )", "(1 + 2) * (3 + 4)"),
    ],
)
def test_equations_are_written_as_people_write_them(written, clean):
    assert clean_equation(written) == clean


def test_a_file_of_another_data_set_is_refused(svamp_file, gsm8k_file, tmp_path):
    with pytest.raises(DataError, match="row 0: not a row of gsm8k, which has question, answer; keys found: ID, Body"):
        gsm8k(path=svamp_file)
    with pytest.raises(DataError, match="not a row of svamp"):
        svamp(path=gsm8k_file)
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"question": "2+2?", "answer": "4"}')
    with pytest.raises(DataError, match="row 0: not a row of gsm8k, which has a last line '#### N' in its answer"):
        gsm8k(path=str(plain), completion="solution")
    for dataset in (file, gsm8k, svamp):
        with pytest.raises(DataError, match=r"needs data\.path"):
            dataset()


def test_any_file_takes_its_keys_and_wording(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"problem": "1+1?", "gold": 2}\n')
    [row] = file(path=str(tmp_path / "a.jsonl"), prompt_key="problem", answer_key="gold", chat=True)
    assert (row["prompt"], row["target"]) == ([{"role": "user", "content": "1+1?"}], 2)


def test_b68_an_empty_source_is_named_with_the_way_to_set_it(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "a", "data_source": "s"}\n{"prompt": "b", "data_source": ""}\n')
    with pytest.raises(DataError, match=r"row 1: data_source is ''; sources found: s\. Set data\.data_source=NAME"):
        file(path=str(path))
    assert [row["data_source"] for row in file(path=str(path), data_source="mine")] == ["mine", "mine"]
    path.write_text('{"prompt": "a"}\n')
    assert "data_source" not in file(path=str(path))[0]


def test_options_are_bound_and_checked_like_any_components(svamp_file):
    assert {"path", "split", "completion", "system_prompt", "template", "chat"} == set(options(svamp))
    assert len(bind(svamp, path=svamp_file, split="heldout")()) == 2
    with pytest.raises(ConfigError, match="split"):
        bind(svamp, split="test")


def test_a_single_turn_never_answers():
    environment = SingleTurn()
    assert isinstance(environment, Environment)
    assert environment.begin({"prompt": "2+2="}) == "2+2="
    assert environment.reply({"prompt": "2+2="}, ["4"]) is None
