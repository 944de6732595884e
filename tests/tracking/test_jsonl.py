import json
import math

import pytest

from rlcore.errors import RunError
from rlcore.tracking import SCHEMA, Jsonl, JsonLines


def started(folder):
    tracker = Jsonl()
    tracker.start(run="r", project="p", config={}, folder=folder)
    return tracker


def rows(folder, name="metrics.jsonl"):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return [
        json.loads(line, parse_constant=refuse)
        for line in (folder / name).read_text(encoding="utf-8").split("\n")
        if line
    ]


def test_a_row_is_strict_json_with_schema_step_and_measurements_apart(tmp_path):
    tracker = started(tmp_path / "made")
    tracker.log(1, {"score": 0.5, "update/kl": math.nan, "ratio": math.inf, "seconds/step": 1.25, "speed/tokens": 8})
    tracker.finish()
    assert rows(tmp_path / "made") == [
        {
            "schema": SCHEMA,
            "step": 1,
            "score": 0.5,
            "measured": {"seconds/step": 1.25, "speed/tokens": 8.0},
            "not_finite": ["ratio", "update/kl"],
        }
    ]


def test_a_row_is_in_the_file_when_log_returns(tmp_path):
    tracker = started(tmp_path)
    for step in (1, 2):
        tracker.log(step, {"x": step})
        assert [row["step"] for row in rows(tmp_path)] == list(range(1, step + 1))


def test_line_ends_of_unicode_inside_a_row_cut_no_row_when_a_run_is_resumed(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    strange = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh\r\ni"
    before = JsonLines(path)
    before.append(1, {"completion": strange})
    before.append(2, {"completion": strange})
    JsonLines(path).append(2, {"completion": "again"})
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [row["completion"] for row in found] == [strange, "again"]


def test_a_resumed_run_overwrites_the_rows_that_no_checkpoint_held(tmp_path):
    uninterrupted, killed = tmp_path / "a", tmp_path / "b"
    for folder, last in ((uninterrupted, 5), (killed, 4)):
        tracker = started(folder)
        for step in range(1, last + 1):
            tracker.log(step, {"x": step * 0.1})
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"schema": 1, "step": 5, "x"')  # torn by the kill
    resumed = started(killed)
    for step in range(3, 6):
        resumed.log(step, {"x": step * 0.1})
    assert (killed / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()


def test_a_torn_line_alone_is_dropped(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"schema": 1, "step": 1, "x": 1.0, "measured": {}}\n{"sche')
    started(tmp_path).log(2, {"x": 2.0})
    assert [row["step"] for row in rows(tmp_path)] == [1, 2]


def test_lines_of_any_kind_share_the_rule(tmp_path):
    lines = JsonLines(tmp_path / "rollouts.jsonl")
    lines.append(1, {"text": "é\nline"}, {"text": "two"})
    lines.append(1, {"text": "three"})
    assert [row["text"] for row in rows(tmp_path, "rollouts.jsonl")] == ["é\nline", "two", "three"]
    with pytest.raises(RunError, match="step 2 is not strict JSON"):
        lines.append(2, {"score": math.nan})
    again = JsonLines(tmp_path / "rollouts.jsonl")
    again.append(1, {"text": "anew"})
    assert [row["text"] for row in rows(tmp_path, "rollouts.jsonl")] == ["anew"]
