import json
import subprocess
import sys

import pytest

from rlcore.inspect.adversarial import ADVERSARIAL_KINDS, TARGET_ITSELF, adversarial_completions, wrong_answer
from rlcore.protocols import Sample

ROWS = [
    {"prompt": "2+2?", "completion": "It is 4.\n#### 4", "target": "4"},
    {"prompt": "2+3?", "completion": "It is 6", "target": "5"},
    {"prompt": [{"role": "user", "content": "2+4?"}], "completion": "", "target": "6"},
]
FAILING = '''
def failing(completion, target):
    """Raises, applies, or does not."""
    if completion == "raise":
        raise KeyError("no such\\nthing")
    return None if completion == "none" else {"score": 0.5, "length": len(completion), "extracted": completion}


def gullible(completion):
    """Pays whatever mentions the grader."""
    return float("grader" in completion)


def loud(completions):
    """Sees the whole batch, and prints."""
    print("a line of its own")
    return [float(len(completions))] * len(completions)


def says(completion, prompt, messages, level):
    """Whether everything is there."""
    return float(prompt == "2+4?" and messages[0]["role"] == "user" and level == 3)
'''


@pytest.fixture
def file(tmp_path):
    """Writes rows as jsonl."""

    def write(rows, name="samples.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def own(tmp_path):
    """The path of a file of rewards."""
    path = tmp_path / "mine.py"
    path.write_text(FAILING)
    return path


@pytest.fixture
def tried(rlcore):
    """Runs the command with the reward called in this process: starting workers would be most of each test."""

    def run(*words):
        return rlcore("reward", *words, "reward_manager.isolate=false")

    return run


def objects(out):
    return [json.loads(line) for line in out.splitlines()]


def test_json_is_one_object_a_row_in_order_and_a_summary(rlcore, file):
    rows = [{"completion": row["completion"], "target": row["target"]} for row in ROWS]
    status, out, _ = rlcore("reward", "numeric_answer", file(rows), "--json")
    found = objects(out)
    assert status == 0
    assert [row["score"] for row in found[:3]] == [1.0, 0.0, 0.0]
    assert [row["row"] for row in found[:3]] == [0, 1, 2]
    assert all({"score", "components", "extracted", "seconds"} == set(row) - {"row"} for row in found[:3])
    assert len(found) == 4
    assert (found[3]["rows"], found[3]["scored"], found[3]["unscored"], found[3]["failed"]) == (3, 3, 0, 0)
    assert found[3]["score"] == pytest.approx(1 / 3)


def test_rows_that_cannot_be_scored_are_null_and_say_why(tried, file, own):
    rows = [{"completion": text, "target": "x"} for text in ("raise", "none", "raise", "ok", *["raise"] * 8)]
    status, out, _ = tried(f"{own}:failing", file(rows), "--json")
    found = objects(out)
    assert status == 0
    assert [row["score"] for row in found[:4]] == [None, None, None, 0.5]
    assert "KeyError" in found[0]["error"]
    assert "error" not in found[1]
    assert found[3]["components"] == {"length": 2.0}
    assert found[3]["extracted"] == "ok"
    assert (found[-1]["unscored"], found[-1]["failed"]) == (11, 10)


def test_a_function_of_a_file_is_called_as_a_run_calls_it(rlcore, file, own):
    rows = [{"completion": text, "target": "x"} for text in ("ok", "raise")]
    status, out, _ = rlcore("reward", f"{own}:failing", file(rows), "--json")
    assert (status, [row["score"] for row in objects(out)]) == (0, [0.5, None, 0.5])


def test_nothing_but_failures_is_still_one_object_a_row(tried, file, own):
    rows = [{"completion": "raise", "target": "x"}] * 12
    status, out, _ = tried(f"{own}:failing", file(rows), "--json")
    found = objects(out)
    assert (status, len(found)) == (0, 13)
    assert all(row["score"] is None and row["error"].count("KeyError") == 1 for row in found[:12])
    assert found[12]["score"] is None


def test_the_table_shows_what_was_read_what_was_slow_and_what_failed(tried, file, own):
    rows = [{"completion": text, "target": "x"} for text in ("raise", "an answer", "\x1b[31mred")]
    status, out, _ = tried(f"{own}:failing", file(rows))
    assert status == 0
    assert "length=9" in out
    assert "an answer" in out
    assert "slowest: row" in out
    assert "failed: row 0: reward 'failing': KeyError" in out
    assert "2 of 3 rows scored, 1 unscored, 1 of them failed" in out
    assert "\x1b" not in out


def test_a_reward_is_given_prompt_messages_and_any_column(tried, file, own):
    row = {**ROWS[2], "level": 3}
    assert objects(tried(f"{own}:says", file([row]), "--json")[1])[0]["score"] == 1.0
    status, _, err = tried(f"{own}:says", file([ROWS[2]]), "--json")
    assert status == 1
    assert "'level'" in err


def test_what_a_reward_prints_is_not_among_the_results(tried, file, own):
    status, out, _ = tried(f"{own}:loud", file(ROWS[:2]), "--json")
    assert status == 0
    assert [row["score"] for row in objects(out)] == [2.0, 2.0, 2.0]
    assert "a line of its own" not in out


def test_samples_may_be_graded_at_once(tried, file, own):
    rows = [{"completion": "raise" if i % 2 else str(i), "target": "x"} for i in range(40)]
    status, out, _ = tried(f"{own}:failing", file(rows), "--json", "--workers", "4")
    found = objects(out)[:-1]
    assert status == 0
    assert [row["extracted"] for row in found] == [None if i % 2 else str(i) for i in range(40)]
    assert ["error" in row for row in found] == [bool(i % 2) for i in range(40)]


def test_options_are_set_as_in_a_run(tried, file):
    table = {"completion": '{"rows": [{"amount": 1}, {"amount": 2.5}]}', "target": {"total": 3.5}}
    words = ("json_fields", file([table]), "reward.sums.total=rows.amount")
    found = objects(tried(*words, "--json")[1])
    assert found[0]["score"] == 1.0
    assert found[0]["components"] == {"found": 1.0, "sum.total": 1.0}
    assert found[0]["extracted"] == table["completion"]
    status, _, err = tried(*words, "reward.tolerence=0.1")
    assert (status, "Did you mean 'tolerance'" in err) == (1, True)
    assert tried(*words, "reward_manager.workers=1", "--json")[0] == 0
    assert objects(tried(*words, "tolerance=0.1", "--json")[1])[0]["score"] == 1.0
    assert "Did you mean 'reward.tolerance'" in tried(*words, "tolerence=0.1")[2]
    for wrong_word in ("steps=3", "reward=exact_match", "rewards.tolerance=1"):
        assert tried(*words, wrong_word)[0] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist"),
        ("", "is empty"),
        ("\n", "is empty"),
        ('{"target": "4"}\n', "row 0: there is no completion; name it with --completion-key"),
        ('{"completion": "4"}\n', "reads 'target', which the data does not have"),
        ('{"completion": "4", "result": "4"}\n', "name it with --answer-key"),
        ('{"completion": [{"role": "user", "content": "4"}]}\n', "a list without a message of the assistant"),
        ('{"question": "2+2?", "answer": "4", "Body": 1, "Question": "?", "Answer": 4, "completion": "4"}\n', "row 0"),
        ('{"completion": "4", "target": "4"}\n{"completions": "4", "target": "4"}\n', "Did you mean 'completions'"),
        ('{"completion": "4"}\n{"completion": 4}\n', "row 1: completion is a number; expected text"),
        ('["4"]\n', "expected an object"),
        ('{"completion": "4"\n', "line 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(tried, tmp_path, text, said):
    path = tmp_path / "samples.jsonl"
    if text is not None:
        path.write_text(text)
    status, out, err = tried("numeric_answer", path, "--json")
    assert (status, out) == (1, "")
    assert said in err


def test_targets_may_be_of_several_kinds_and_one_that_nothing_equals_leaves_its_row_unscored(tried, file):
    targets = ["7", 7, 7.0, ["7", "7.0"], None, "x+"]
    path = file([{"completion": "#### 7", "target": target} for target in targets])
    status, out, _ = tried("numeric_answer", path, "--json")
    *rows, summary = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [row["score"] for row in rows] == [1, 1, 1, 1, None, None]
    assert "None is no number" in rows[4]["error"]
    assert (summary["scored"], summary["failed"]) == (4, 2)


@pytest.mark.parametrize(
    "row",
    [
        {"question": "2+2?", "answer": "so it is\n#### 1,004"},
        {"Body": "There are 2.", "Question": "How many?", "Answer": 1004.0},
        {"prompt": [{"role": "user", "content": "2+2?"}], "reward_model": {"style": "rule", "ground_truth": "1004"}},
        {"prompt": "2+2?", "reward_model": '{"ground_truth": "1004"}'},
        {"question": "2+2?", "answer": "1004", "info": {}, "task": "sums"},
        {"problem": "2+2?", "solution": "boxed", "expected_answer": 1004},
    ],
)
def test_rows_of_a_known_layout_are_read_as_data_reads_them(tried, file, row):
    rows = [{**row, "completion": "#### 1004"}, {**row, "completion": [{"role": "assistant", "content": "#### 7"}]}]
    status, out, err = tried("numeric_answer", file(rows), "--json")
    assert (status, [one["score"] for one in objects(out)[:2]]) == (0, [1.0, 0.0]), err


def test_answer_and_completion_may_have_any_name(tried, file):
    row = {"ground_truth": "9", "extra": '{"gold": 9}', "metadata": '{"gold": "4"}', "said": {"text": "#### 4"}}
    words = ("numeric_answer", file([row]), "--answer-key", "metadata.gold", "--completion-key", "said.text", "--json")
    assert objects(tried(*words)[1])[0]["score"] == 1.0
    gsm8k = {"question": "2+2?", "answer": "so\n#### 4"}
    assert objects(tried("gsm8k", file([gsm8k]), "--completion-key", "answer", "--json")[1])[0]["score"] == 1.0
    status, _, err = tried("gsm8k", file([gsm8k]), "--completion-key", "anser")
    assert (status, "row 0: no completion under 'anser'" in err, "Did you mean 'answer'" in err) == (1, True, True)


def test_a_row_that_has_a_target_is_not_read_by_its_layout(tried, file):
    row = {"question": "2+2?", "answer": "#### 5", "target": 4, "completion": "#### 4"}
    assert [one["score"] for one in objects(tried("numeric_answer", file([row]), "--json")[1])] == [1.0, 1.0]


def test_a_reward_may_be_written_as_in_a_run(tried, file):
    rows = [{"completion": "<think>a</think><answer>4</answer>", "target": "4"}]
    name = "{name: weighted, components: {right: numeric_answer, form: think_answer}}"
    found = objects(tried(name, file(rows), "weights.form=0.5", "--json")[1])[0]
    assert (found["score"], found["components"]["right"], found["components"]["form"]) == (1.5, 1.0, 1.0)


def test_a_file_without_a_function_says_which_it_has(tried, file, own):
    status, _, err = tried(own, file(ROWS))
    assert (status, f"{own}:FUNCTION; it has: failing, gullible, loud, says" in err) == (1, True)
    assert "no such file" in tried(f"{own.parent}/other.py", file(ROWS))[2]


def test_failures_of_one_kind_are_told_once_with_how_many_rows_had_them(tried, file, own, caplog):
    rows = [{"completion": text, "target": "x"} for text in [*["raise"] * 12, "ok"]]
    assert tried(f"{own}:failing", file(rows))[0] == 0
    [said] = [record.message for record in caplog.records]
    assert said.startswith("a reward failed; unscored: 12 rows. reward 'failing': KeyError")
    assert said.count("Traceback") == 1


def test_every_failed_row_of_a_batch_has_one_line(tried, file, tmp_path):
    (tmp_path / "batch.py").write_text("def batch(completions):\n    raise ValueError('one\\ntwo')\n")
    _, out, _ = tried(f"{tmp_path}/batch.py:batch", file([{"completion": "x"}] * 6))
    failed = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert failed == [f"failed: row {row}: reward 'batch': ValueError: one two" for row in range(6)]


def test_an_unknown_reward_is_named_with_the_nearest_one(tried, file):
    status, _, err = tried("numeric_answr", file(ROWS[:2]))
    assert (status, "Did you mean 'numeric_answer'" in err) == (1, True)


def test_an_audit_says_which_adversarial_completions_are_accepted(tried, file, own):
    path = file(ROWS[:2])
    status, out, _ = tried(f"{own}:gullible", path, "--audit", "--json")
    found = objects(out)
    accepted = {row["kind"] for row in found[:-1] if row["accepted"]}
    assert (status, accepted) == (0, {"demands acceptance"})
    assert found[-1]["kinds"]["demands acceptance"] == {"given": 10, "accepted": 8}
    assert found[-1]["wrongly_accepted"] == 8
    status, out, _ = tried(f"{own}:gullible", path, "--audit")
    assert status == 0
    assert "wrongly accepted: row 0, demands acceptance, score 1.000" in out
    assert "the target itself is accepted in 0 of 8 forms: a reward that accepts nothing" in out
    assert "emptied" not in out
    _, out, _ = tried(f"{own}:gullible", file([{"completion": "x"}]), "--audit")
    assert "the target itself" not in out
    assert "wrong answer" not in out


def test_an_audit_shows_that_right_answers_are_accepted_too(tried, file):
    status, out, _ = tried("numeric_answer", file(ROWS[:2]), "--audit", "--json")
    assert status == 0
    assert objects(out)[-1]["target_itself"] == {"given": 8, "accepted": 8}


def test_an_audit_of_a_sum_empties_the_table(tried, file):
    table = {"completion": '{"rows": [{"amount": 1}, {"amount": 2.5}]}', "target": {"total": 3.5}}
    words = ("json_fields", file([table]), "reward.sums.total=rows.amount", "--audit", "--json")
    found = objects(tried(*words)[1])[-1]
    assert found["wrongly_accepted"] == 0
    assert (found["kinds"]["emptied"]["given"], found["kinds"]["other numbers"]["given"]) == (1, 1)


def test_a_score_below_the_bound_is_not_accepted(tried, file):
    rows = [{"completion": "x", "target": "red green blue"}]
    accepted = [
        objects(tried("token_f1", file(rows), "--audit", "--json", "--accepted", bound)[1])[-1]
        for bound in ("0.5", "1.01")
    ]
    assert accepted[0]["wrongly_accepted"] > accepted[1]["wrongly_accepted"] == 0


def test_every_kind_of_adversarial_completion_is_made_for_a_row_with_prompt_and_target():
    made = adversarial_completions(0, Sample("2+2?", 'So {"sums": [2, 3]}', None, {"target": "4"}))
    texts = {each.kind: each.sample.completion for each in made}
    assert set(texts) == {*ADVERSARIAL_KINDS, TARGET_ITSELF}
    assert texts["other numbers"] == 'So {"sums": [6, 7]}'
    assert texts["emptied"] == 'So {"sums": []}'


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("It is 0.", 4),  # it could be right by chance
        ("In 1889: Paris", "Paris"),  # neither a word nor a program is wrong for its numbers
        ("```python\ndef f(x1):\n    return x1\n```", ["f(2) == 2"]),
    ],
)
def test_numbers_are_not_changed_where_that_need_not_be_wrong(text, target):
    made = adversarial_completions(0, Sample("", text, None, {"target": target}))
    assert "other numbers" not in {each.kind for each in made}


def test_without_a_target_there_are_only_completions_that_need_none():
    kinds = {each.kind for each in adversarial_completions(0, Sample("", "", None, {}))}
    assert "empty" in kinds
    assert not {TARGET_ITSELF, "wrong answer", "copied prompt"} & kinds


@pytest.mark.parametrize(
    ("target", "other"),
    [
        ("18", "19"),
        ("19", "10"),
        (18, "19"),
        (0.5, "0.6"),
        ("\\frac{1}{2}", "\\frac{1}{3}"),
        ("(1, 2)", "(1, 3)"),
        ("C", "D"),
        ("Z", "A"),
        ("Yes", "no"),
        (True, "false"),
        ("Paris", "not Paris"),
        (["1", "2"], "3"),
        ({"a": 1, "b": [True, "x"]}, '{"a": 2, "b": [false, "y"]}'),
        ('{"a": null}', '{"a": true}'),
    ],
)
def test_a_wrong_answer_has_the_targets_form(target, other):
    assert wrong_answer(target) == other


def test_nothing_but_results_reaches_standard_output_whatever_a_reward_writes(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os, sys\n"
        "print('at import')\n"
        "def loud(completion):\n"
        "    print('a'); sys.__stdout__.write('b\\n'); os.write(1, b'c\\n'); os.system('echo d')\n"
        "    return 1.0\n"
        "loud.bounded = True\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"completion": "x"}\n{"completion": "y"}\n')
    command = [sys.executable, "-m", "rlcore.cli", "reward", "mine.py:loud", "rows.jsonl", "--json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [json.loads(line).get("score") for line in ended.stdout.splitlines()] == [1.0, 1.0, 1.0]
    assert {"at import", "a", "b", "c", "d"} <= set(ended.stderr.splitlines())


def test_a_reward_file_that_ends_itself_is_named(rlcore, tmp_path):
    (tmp_path / "mine.py").write_text("import sys\ndef fine(completion): return 1.0\nsys.exit(3)\n")
    (tmp_path / "rows.jsonl").write_text('{"completion": "x"}\n')
    status, said, why = rlcore("reward", f"{tmp_path}/mine.py:fine", tmp_path / "rows.jsonl", "--json")
    assert (status, said) == (1, "")
    assert "mine.py cannot be imported: SystemExit: 3" in why


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_stream_that_is_closed_is_no_error(tmp_path, closed):
    (tmp_path / "rows.jsonl").write_text('{"completion": "x", "target": "x"}\n')
    command = f"{sys.executable} -m rlcore.cli reward exact_answer rows.jsonl --json {closed}"
    ended = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) == (0 if "1>&-" in closed else 2)
