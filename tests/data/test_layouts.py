import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcore.data import load_rows, to_rows
from rlcore.errors import DataError
from rlcore_envs.datasets import format_prompts

VERL = [
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": "3 bags of 4 pens?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "12"},
        "extra_info": {"split": "train", "index": 0},
    },
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": "2 minus 5?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "-3"},
        "extra_info": {"split": "train", "index": 1},
    },
]


def test_gsm8k_answers_lose_their_mark_and_commas():
    rows = to_rows(
        [
            {"question": "Pens?", "answer": "3*4=<<3*4=12>>12 pens.\n#### 12"},
            {"question": "Cups?", "answer": "1150+50=<<1150+50=1200>>1200.\n#### 1,200"},
            {"question": "Now?", "answer": "2-5=<<2-5=-3>>-3.\n#### -3"},
        ]
    )
    assert [(row["prompt"], row["target"]) for row in rows] == [("Pens?", "12"), ("Cups?", "1200"), ("Now?", "-3")]
    assert rows[0]["solution"] == "3*4=<<3*4=12>>12 pens."


def test_svamp_joins_body_and_question_and_writes_whole_numbers_whole():
    rows = to_rows(
        [
            {"Body": "Ann had 3 pens.", "Question": "How many now?", "Equation": "( 3.0 - 1.0 )", "Answer": 2.0},
            {"Body": "If she had 4", "Question": "how many then?", "Equation": "4.0", "Answer": 2.5},
        ]
    )
    assert [row["prompt"] for row in rows] == ["Ann had 3 pens. How many now?", "If she had 4, how many then?"]
    assert [row["target"] for row in rows] == ["2", "2.5"]


def test_the_verl_layout_survives_parquet_and_keeps_every_column(tmp_path):
    pq.write_table(pa.Table.from_pylist(VERL), tmp_path / "a.parquet")
    rows = load_rows(str(tmp_path / "a.parquet"))
    assert [row["target"] for row in rows] == ["12", "-3"]
    assert rows == [{**row, "target": row["reward_model"]["ground_truth"]} for row in VERL]


def test_a_struct_as_ground_truth_stays_one():
    truth = {"target": 22, "numbers": [3, 5, 7]}
    [row] = to_rows([{"prompt": "Make 22.", "data_source": "countdown", "reward_model": {"ground_truth": truth}}])
    assert row["target"] == truth


def test_prompts_alone_may_be_text_or_messages_in_one_file():
    rows = to_rows(
        [
            {"prompt": "Two plus two is", "solution": "4"},
            {"prompt": [{"role": "user", "content": "2+2?"}], "solution": "$4$"},
        ]
    )
    assert [row["target"] for row in rows] == ["4", "$4$"]
    assert "target" not in to_rows([{"prompt": "Say something kind.", "tone": "warm"}])[0]


def test_pairs_and_conversations_know_their_prompt():
    chat = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    [pair] = to_rows([{"prompt": "2+2=", "completion": " 4", "label": False}])
    assert (pair["prompt"], pair["completion"], "target" in pair) == ("2+2=", " 4", False)
    [spoken] = to_rows([{"prompt": chat[:1], "completion": chat[1:]}])
    assert spoken["messages"] == chat
    [whole] = to_rows([{"messages": chat}])
    assert (whole["prompt"], whole["messages"]) == (chat[:1], chat)
    [open_ended] = to_rows([{"messages": chat[:1], "answer": "4"}])
    assert (open_ended["prompt"], open_ended["target"], "messages" in open_ended) == (chat[:1], "4", False)


def test_keys_may_be_named_also_inside_a_struct():
    raw = [{"problem": "1+1?", "info": {"gold": 2}}]
    assert to_rows(raw, prompt_key="problem", answer_key="info.gold")[0]["target"] == 2
    with pytest.raises(
        DataError, match=r"row 0: no prompt under 'problm'; keys found: problem, info\. Did you mean 'problem'"
    ):
        to_rows(raw, prompt_key="problm")
    with pytest.raises(DataError, match=r"no answer under 'info.gild'; keys found: gold. Did you mean 'gold'"):
        to_rows(raw, prompt_key="problem", answer_key="info.gild")


def test_an_unknown_layout_lists_what_was_found_and_what_is_known():
    with pytest.raises(
        DataError, match=r"row 1: unknown layout; keys found: text, gold; known layouts: .*GSM8K \(question, answer\)"
    ):
        to_rows([{"prompt": "a"}, {"text": "a", "gold": 1}])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "is empty"),
        ([{"prompt": ""}], "row 0: a prompt is a non-empty text"),
        ([{"prompt": []}], "row 0: a prompt is a non-empty text"),
        ([{"prompt": [{"content": "x"}]}], "message 0 needs a role"),
        ([{"question": "a", "answer": "#### 5"}, {"question": "b", "answer": "5"}], "row 1: no '####' line"),
        ([{"question": "a", "answer": None}], "row 0: no answer"),
        ([VERL[0], {**VERL[1], "reward_model": {"style": "rule"}}], "row 1: no answer"),
        ([{**VERL[0], "reward_model": "12"}], "row 0: reward_model must hold ground_truth"),
        ([{"prompt": "a", "answer": float("nan")}, {"prompt": "b", "answer": 1.0}], "row 0: no answer"),
        ([{"prompt": "a", "completion": 4}], "row 0: a completion is text"),
        ([{"messages": "hello"}], "row 0: messages must be a list"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(rows, said):
    with pytest.raises(DataError, match=said):
        to_rows(rows)


def test_wording_puts_the_question_in_place_and_braces_stay():
    [row] = format_prompts([{"prompt": "What is {x}?"}], template="Q: {prompt} {end}")
    assert row["prompt"] == "Q: What is {x}? {end}"
    [row] = format_prompts([{"prompt": "2+2?"}], system_prompt="Be brief.")
    assert row["prompt"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    [row] = format_prompts([{"prompt": "2+2?"}], chat=True)
    assert row["prompt"] == [{"role": "user", "content": "2+2?"}]
    with pytest.raises(DataError, match=r"has no \{prompt\}"):
        format_prompts([{"prompt": "a"}], template="Q:")


def test_a_system_prompt_takes_the_place_of_the_rows_own_and_reaches_the_whole_conversation():
    chat = [
        {"role": "system", "content": "old"},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
    ]
    [row] = format_prompts(to_rows([{"messages": chat}]), system_prompt="new", template="<{prompt}>")
    assert row["prompt"] == [{"role": "system", "content": "new"}, {"role": "user", "content": "<2+2?>"}]
    assert row["messages"] == [*row["prompt"], chat[2]]
    assert json.dumps(chat).count("old") == 1
