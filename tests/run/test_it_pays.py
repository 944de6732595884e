"""What training on data brings on a real task: held-out problems that are solved after it, and not before."""

import json
from collections import defaultdict

import pytest

from rlcore import Run
from rlcore.config import load

pytestmark = pytest.mark.slow


def train(where, name, *words):
    return Run.of(
        load([*words, f"run.folder={where}", f"run.name={name}", "tracker=jsonl", "eval.limit=512"]), quiet=True
    ).train()


def test_preferences_among_own_answers_raise_held_out_success(tmp_path):
    """DPO on pairs of a right and a wrong answer to one problem, drawn by the model itself."""
    drawn = train(tmp_path, "drawn", "steps=3", "learning_rate=0", "prompts=128")
    groups = defaultdict(list)
    for row in map(json.loads, (drawn.folder / "rollouts.jsonl").read_text().splitlines()):
        groups[row["group"]].append(row)
    pairs = tmp_path / "pairs.jsonl"
    with pairs.open("w") as file:
        for rows in groups.values():
            right, wrong = ([r["completion"] for r in rows if r["score"] == score] for score in (1, 0))
            for chosen, rejected in zip(right, wrong, strict=False):
                file.write(json.dumps({"prompt": rows[0]["prompt"], "chosen": chosen, "rejected": rejected}) + "\n")
    data = ("data=file", f"data.path={pairs}", "data.split=all")
    own = ("model=tiny_countdown", "algorithm=dpo", "learning_rate=1e-4", "prompts=32", "epochs=2", "threads=1")
    preferred = train(tmp_path, "preferred", *own, *data)
    assert preferred.history[0]["update/loss"] == pytest.approx(0.693, abs=1e-3)
    again = load([f"model={preferred.folder}/model", f"run.folder={tmp_path}"], drawn.folder / "config.yaml")
    after = Run.of(again, quiet=True).evaluate()["success"]
    assert after > drawn.summary["success_before"] + 0.08


def test_a_trained_teacher_brings_a_student_further_in_as_many_steps_as_grpo(tmp_path):
    teacher = train(tmp_path, "teacher", "steps=60")
    own = ("algorithm=distill", "algorithm.group_size=8", f"roles.teacher.model={teacher.folder}/model")
    student = train(tmp_path, "student", "steps=10", *own)
    alone = train(tmp_path, "alone", "steps=10")
    assert student.summary["success_after"] > student.summary["success_before"] + 0.1
    assert student.summary["success_after"] > alone.summary["success_after"]
