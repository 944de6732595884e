"""Every layout that people use, through every format, into the same rows and out again."""

import gzip
import json
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore.data import load_rows, read_rows, to_rows, write_rows
from rlcore.data.writers import equal_exactly
from rlcore.errors import DataError


def say(*contents):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]


CALL = {"id": "c1", "type": "function", "function": {"name": "calc", "arguments": '{"e": "3*4"}'}}
TOOL = {
    "type": "function",
    "function": {"name": "calc", "parameters": {"type": "object", "properties": {"e": {"type": "string"}}}},
}
RULE = {"style": "rule", "ground_truth": "12"}
# Of each layout: its rows, and of each row the prompt and the target (None: without one).
LAYOUTS = {
    "GSM8K": (
        [{"question": "Pens?", "answer": "3*4=<<3*4=12>>12.\n#### 12"}, {"question": "Now?", "answer": "#### -3"}],
        [("Pens?", "12"), ("Now?", "-3")],
    ),
    "verl": (
        [
            {
                "data_source": "openai/gsm8k",
                "prompt": say("3*4?"),
                "ability": "math",
                "reward_model": RULE,
                "extra_info": {
                    "split": "train",
                    "index": 0,
                    "tools_kwargs": {"calc": {"create_kwargs": {"truth": "12"}}},
                },
                "agent_name": "tool_agent",
            },
            {
                "data_source": "math_dapo",
                "prompt": [{"role": "system", "content": "Use search."}, *say("2-5?")],
                "ability": "math",
                "reward_model": {"style": "rule-lighteval/MATH_v2", "ground_truth": "-3"},
                "extra_info": {"split": "train", "index": 1, "tools_kwargs": {"search": {"create_kwargs": {"s": "x"}}}},
                "agent_name": "single_turn_agent",
            },
        ],
        [(say("3*4?"), "12"), ([{"role": "system", "content": "Use search."}, *say("2-5?")], "-3")],
    ),
    "SkyRL": (
        [
            {
                "data_source": "a",
                "prompt": say("3*4?"),
                "env_class": "gsm8k",
                "reward_spec": RULE,
                "extra_info": {"n": 0},
            }
        ],
        [(say("3*4?"), "12")],
    ),
    "Countdown as verl": (
        [{"prompt": say("Make 22."), "reward_model": {"ground_truth": {"target": 22, "numbers": [3, 5, 7]}}}],
        [(say("Make 22."), {"target": 22, "numbers": [3, 5, 7]})],
    ),
    "OpenR1": (
        [
            {
                "problem": "x+2=5?",
                "solution": "x=3.",
                "answer": "3",
                "generations": ["<think>5-2</think> 3", "<think>5-2 is"],
                "correctness_math_verify": [True, False],
                "correctness_llama": None,
                "correctness_count": 1,
                "messages": say("x+2=5?", "3"),
            }
        ],
        [(say("x+2=5?"), "3")],
    ),
    "problem": ([{"problem": "x+2=5?", "solution": "x=3.", "answer": "3", "level": 2}], [("x+2=5?", "3")]),
    "prompt-only": ([{"prompt": say("2+2?"), "solution": "$4$", "difficulty": 0.5}], [(say("2+2?"), "$4$")]),
    "prompt-completion": ([{"prompt": "2+2=", "completion": " 5", "label": False}], [("2+2=", None)]),
    "preference": (
        [{"prompt": say("2+2?"), "chosen": say("", "4")[1:], "rejected": say("", "5")[1:]}],
        [(say("2+2?"), None)],
    ),
    "OpenAI chat with tools": (
        [
            {
                "messages": [
                    {"role": "user", "content": "3*4 with the tool"},
                    {"role": "assistant", "content": None, "tool_calls": [CALL]},
                    {"role": "tool", "tool_call_id": "c1", "content": "12"},
                    {"role": "assistant", "content": "12"},
                ],
                "tools": [TOOL],
            }
        ],
        [
            (
                [
                    {"role": "user", "content": "3*4 with the tool"},
                    {"role": "assistant", "content": None, "tool_calls": [CALL]},
                    {"role": "tool", "tool_call_id": "c1", "content": "12"},
                ],
                None,
            )
        ],
    ),
    "OpenAI fine-tuning by reinforcement": ([{"messages": say("2+2?"), "reference_answer": "4"}], [(say("2+2?"), "4")]),
    "slime": (
        [
            {"prompt": say("6*7?"), "label": "42", "metadata": {"rm_type": "math"}, "tools": [TOOL]},
            {"prompt": say("6*8?"), "label": "48", "metadata": {"rm_type": "math"}, "tools": None},
        ],
        [(say("6*7?"), "42"), (say("6*8?"), "48")],
    ),
    "NeMo Gym": (
        [
            {
                "responses_create_params": {"input": say("2+2?"), "temperature": 0.5},
                "expected_answer": "4",
                "agent_ref": {"name": "simple"},
            }
        ],
        [(say("2+2?"), "4")],
    ),
    "verifiers": ([{"question": "2+2?", "answer": "4", "info": {"level": 1}, "task": "arith"}], [("2+2?", "4")]),
    "verifiers with messages": ([{"prompt": say("2-5?"), "answer": "-3"}], [(say("2-5?"), "-3")]),
}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_gzip(path, rows):
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


FORMATS = {
    "a.jsonl": write_jsonl,
    "a.json": lambda path, rows: path.write_text(json.dumps(rows, indent=1)),
    "a.jsonl.gz": write_gzip,
    "a.parquet": lambda path, rows: pd.DataFrame(rows).to_parquet(path),
    "mine.parquet": write_rows,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_gives_the_same_rows_from_every_format(layout, tmp_path):
    raw, expected = LAYOUTS[layout]
    made = to_rows(raw)
    assert [(row["prompt"], row.get("target")) for row in made] == expected
    for row, source in zip(made, raw, strict=True):
        assert not {key for key in source if key in row and key != "target" and row[key] != source[key]}
        assert source.keys() - row.keys() <= {"messages"}  # without an assistant turn it is the prompt
    for name, write in FORMATS.items():
        write(tmp_path / name, raw)
        assert equal_exactly(load_rows(str(tmp_path / name)), made), name
    in_memory = pd.read_parquet(tmp_path / "a.parquet").to_dict("records")
    assert equal_exactly(to_rows(in_memory), made)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_our_own_rows_read_back_exactly(layout, name, tmp_path):
    made = to_rows(LAYOUTS[layout][0])
    assert write_rows(tmp_path / name, made) == len(made)
    assert equal_exactly(load_rows(str(tmp_path / name)), made)


def test_what_one_type_cannot_hold_survives_parquet(tmp_path):
    rows = [
        {"a": 3, "b": {}, "c": {"x": None}, "d": [], "e": 1, "f": None, "only": None, "g": 2**70, "t": [1, 2.5]},
        {"a": "3", "b": {"k": 1}, "c": {"x": 1}, "d": [1], "e": 1.0, "f": None, "g": 1, "t": [1]},
        {"a": {"n": [3, "x"]}, "b": {}, "c": {}, "d": [], "e": True, "f": None, "g": -1, "t": [], "some": 5},
    ]
    for name in ("a.parquet", "a.jsonl"):
        write_rows(tmp_path / name, rows)
        assert equal_exactly(read_rows(tmp_path / name), rows)


CELLS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from("pqrs"), CELLS, min_size=1), min_size=1, max_size=4))
def test_whatever_json_can_say_reads_back_equal_in_every_type(tmp_path, rows):
    for name in ("a.parquet", "a.jsonl"):
        write_rows(tmp_path / name, rows, overwrite=True)
        assert equal_exactly(read_rows(tmp_path / name), rows)


def test_images_are_carried_and_json_says_that_it_cannot(tmp_path):
    rows = [{"prompt": "<image> What is it?", "images": [{"bytes": b"\x89PNG"}], "target": "a dot"}]
    write_rows(tmp_path / "a.parquet", rows)
    assert load_rows(str(tmp_path / "a.parquet")) == rows
    for value, said in ((b"\x89", "a bytes"), (float("nan"), "nan"), (date(2026, 1, 1), "a date")):
        with pytest.raises(DataError, match=rf"row 0, column 'images': {said} cannot be written as JSON"):
            write_rows(tmp_path / "a.jsonl", [{**rows[0], "images": [value]}])
    assert not (tmp_path / "a.jsonl").exists()


def test_a_file_is_never_written_over_and_never_half_there(tmp_path):
    path = tmp_path / "a.jsonl"
    write_rows(path, [{"prompt": "a"}])
    with pytest.raises(DataError, match="is there already; nothing was written"):
        write_rows(path, [{"prompt": "b"}])
    assert read_rows(path) == [{"prompt": "a"}]
    with pytest.raises(DataError, match="row 1, column 'x'"):
        write_rows(tmp_path / "b.jsonl", [{"x": 1}, {"x": b"1"}])
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]
    with pytest.raises(DataError, match=r"unknown ending '.csv' to write"):
        write_rows(tmp_path / "a.csv", [{"x": 1}])


def test_a_tool_that_only_another_row_has_is_none_of_this_row(tmp_path):
    for place in ("tools_kwargs", "extra_info"):
        kwargs = {"a": {"n": 1}, "b": None}
        row = {"prompt": "a", place: kwargs if place == "tools_kwargs" else {"tools_kwargs": kwargs}}
        [made] = to_rows([row])
        held = made[place] if place == "tools_kwargs" else made[place]["tools_kwargs"]
        assert held == {"a": {"n": 1}}


def test_rows_of_a_table_lose_what_only_other_rows_have_and_gaps_are_none():
    rows = pd.DataFrame(
        {
            "prompt": ["a", "b"],
            "reward_model": [
                {"ground_truth": {"numbers": np.array([3, 5])}},
                {"ground_truth": {"numbers": np.array([7])}},
            ],
            "extra_info": [{"x": 1, "y": None}, {"x": None, "y": 2}],
            "note": pd.array([1, pd.NA], dtype="Int64"),
            "when": [pd.NaT, pd.NaT],
        }
    ).to_dict("records")
    made = to_rows(rows)
    assert [row["extra_info"] for row in made] == [{"x": 1}, {"y": 2}]
    assert [row["target"] for row in made] == [{"numbers": [3, 5]}, {"numbers": [7]}]
    assert [(row["note"], row["when"]) for row in made] == [(1, None), (None, None)]
    with pytest.raises(DataError, match="row 1: no answer"):
        to_rows([{"prompt": "a", "target": 1}, {"prompt": "b", "target": pd.NA}])


def test_empty_fields_of_messages_mean_absence_and_a_missing_content_is_none():
    said = {"role": "assistant", "content": None, "tool_calls": [CALL], "name": None}
    [row] = to_rows([{"messages": [{"role": "user", "content": "a", "tool_calls": None}, said, *say("", "b")[1:]]}])
    assert row["prompt"][0] == {"role": "user", "content": "a"}
    assert row["prompt"][1] == {"role": "assistant", "content": None, "tool_calls": [CALL]}


def test_json_text_is_read_where_an_object_is_meant_and_stays_text_in_an_answer():
    [row] = to_rows([{"question": "a", "answer": '{"x": 1}', "info": '{"level": 1}', "tools": json.dumps([TOOL])}])
    assert (row["target"], row["info"], row["tools"]) == ('{"x": 1}', {"level": 1}, [TOOL])
    assert to_rows([{"question": "a", "answer": "4", "info": "easy"}])[0]["info"] == "easy"
    assert to_rows([{"prompt": json.dumps(say("2+2?")), "target": "4"}])[0]["prompt"] == say("2+2?")
    for asked in ('[{"x": 1}] What is x?', '[{"role": 1}, 2]', '[{"role": "user"'):
        assert to_rows([{"prompt": asked, "target": "4"}])[0]["prompt"] == asked
    with pytest.raises(DataError, match="row 0: column info begins like JSON but is not"):
        to_rows([{"question": "a", "answer": "4", "info": '{"level": '}])


@pytest.mark.parametrize(
    ("chosen", "rejected", "prompt", "rests"),
    [
        ("Q: 2+2? A: 4", "Q: 2+2? A: 5", "Q: 2+2? A:", (" 4", " 5")),
        ("2+2=41", "2+2=45", "2+2=", ("41", "45")),
        ("Say Hello", "Say Hi", "Say", (" Hello", " Hi")),
        (say("q", "a"), say("q", "b"), say("q"), (say("q", "a")[1:], say("q", "b")[1:])),
    ],
)
def test_the_prompt_of_a_pair_may_be_what_both_begin_with(chosen, rejected, prompt, rests):
    [row] = to_rows([{"chosen": chosen, "rejected": rejected}])
    assert (row["prompt"], (row["chosen"], row["rejected"])) == (prompt, rests)
    assert to_rows([row]) == [row]


def test_a_pair_of_whole_conversations_beside_its_prompt_is_cut_to_the_answers():
    [row] = to_rows([{"prompt": "q", "chosen": say("q", "a"), "rejected": say("q", "b")}])
    assert (row["prompt"], row["chosen"]) == (say("q"), say("q", "a")[1:])
    with pytest.raises(DataError, match="row 0: nothing is left of chosen or rejected"):
        to_rows([{"chosen": "same", "rejected": "same"}])
    with pytest.raises(DataError, match="found str and list"):
        to_rows([{"chosen": "a", "rejected": say("a")}])


def test_a_responses_request_becomes_a_conversation():
    request = {
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "3*4?"}]},
            {"type": "function_call", "call_id": "c1", "name": "calc", "arguments": '{"e": "3*4"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "12"},
        ],
        "tools": [{"type": "function", "name": "calc", "parameters": {"type": "object"}}],
    }
    [row] = to_rows([{"responses_create_params": request, "expected_answer": "12"}])
    assert row["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "3*4?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
    ]
    assert row["tools"] == [{"type": "function", "function": {"name": "calc", "parameters": {"type": "object"}}}]
    with pytest.raises(DataError, match="item 0: type 'reasoning' has no place"):
        to_rows([{"responses_create_params": {"input": [{"type": "reasoning"}]}}])


def test_countdown_without_a_prompt_gets_one_and_keeps_its_numbers():
    [row] = to_rows([{"target": 22, "nums": [3, 5, 7]}])
    assert row["prompt"].startswith("Make 22 from the numbers 3, 5, 7")
    assert (row["target"], row["numbers"], row["nums"]) == (22, [3, 5, 7], [3, 5, 7])


def test_conversations_to_learn_from_need_no_answer_beside_rows_that_have_one():
    assert len(to_rows([{"messages": say("a", "b")}, {"messages": say("a"), "reference_answer": "4"}])) == 2
    judged = {"prompt": "a", "completion": "b", "label": True}
    assert "target" not in to_rows([judged, {"prompt": "c", "answer": "d"}])[0]
    gap = [{"messages": say("a", "b"), "answer": None}, {"messages": say("a", "b"), "answer": "4"}]
    assert len(to_rows(gap)) == 2
    with pytest.raises(DataError, match="row 0: no answer under 'answer'"):
        to_rows(gap, answer_key="answer")


@pytest.mark.parametrize(
    "message",
    [{"role": "user"}, {"role": "user", "content": 5}, {"role": "assistant", "content": None, "tool_calls": []}, "a"],
)
def test_a_message_without_content_or_calls_is_named(message):
    with pytest.raises(DataError, match="row 0: message 1"):
        to_rows([{"prompt": [*say("a"), message]}])
    with pytest.raises(DataError, match="row 0, messages: message 1"):
        to_rows([{"messages": [*say("a"), message, {"role": "assistant", "content": "b"}], "prompt": "a"}])
