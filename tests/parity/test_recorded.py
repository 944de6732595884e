"""The runner of recorded cases: our presets against numbers of verl and TRL, and its own report."""

import ast
import copy
import json
from pathlib import Path

import pytest

from rlcore.errors import DataError
from rlcore.registry import get, names
from rlcore_algorithms.parity import format_report, judge_cases, main, read_cases
from rlcore_algorithms.parity.compare import ALLOWED_SHARE
from rlcore_algorithms.parity.reasons import REASONS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PRESETS = ROOT / "algorithms/rlcore_algorithms/presets"
FILES = {"verl": HERE / "recorded_verl.json", "trl": HERE / "recorded_trl.json"}


@pytest.fixture(scope="module")
def verdicts():
    return {peer: judge_cases(*read_cases(path)) for peer, path in FILES.items()}


@pytest.mark.parametrize("peer", FILES)
def test_recorded_numbers_are_matched_or_differ_for_a_reason(verdicts, peer):
    assert [v for v in verdicts[peer] if v.state == "failed"] == []
    reasoned = [v for v in verdicts[peer] if v.state == "reasoned"]
    assert len(reasoned) <= ALLOWED_SHARE * len(verdicts[peer])
    assert {v.predicate for v in reasoned} <= {"peer_raises", "peer_not_finite"}


def test_every_reason_is_documented_with_both_formulas():
    text = (ROOT / "docs/parity.md").read_text(encoding="utf-8")
    for reason in REASONS:
        assert f"`{reason.name}`" in text


def _changed(case, change):
    changed = copy.deepcopy(case)
    change(changed)
    return changed


def _first(peer, kind):
    cases, _ = read_cases(FILES[peer])
    return next(case for case in cases if case.get("kind", case.get("loss_type")) == kind and not case["raises"])


@pytest.mark.parametrize(
    ("peer", "kind", "change"),
    [
        ("verl", "advantage", lambda c: c["out"]["advantages"][0].__setitem__(0, 9.0)),
        ("verl", "policy_loss", lambda c: c["out"].__setitem__("loss", c["out"]["loss"] + 1e-3)),
        ("verl", "policy_loss", lambda c: c["grad"][0].__setitem__(0, c["grad"][0][0] + 1e-3)),
        ("verl", "policy_loss", lambda c: c["out"].__setitem__("actor/ppo_kl", 9.0)),
        ("verl", "policy_loss", lambda c: c["out"].__setitem__("actor/unheard_of", 0.0)),
        ("verl", "kl", lambda c: c.__setitem__("name", "k9")),
        ("verl", "kl", lambda c: c.__setitem__("kind", "kol")),
        ("verl", "rollout_rs", lambda c: c["out"]["mask"][0].__setitem__(0, 1 - c["out"]["mask"][0][0])),
        ("trl", "grpo", lambda c: c["out"].__setitem__("loss", c["out"]["loss"] * 1.001)),
        ("trl", "grpo", lambda c: c.__setitem__("raises", "ValueError") or c.__setitem__("beta", None)),
    ],
    ids=["advantage", "loss", "gradient", "metric", "unknown metric", "name", "kind", "mask", "trl loss", "trl raises"],
)
def test_a_case_that_is_not_ours_fails(peer, kind, change):
    (verdict,) = judge_cases([_changed(_first(peer, kind), change)])
    if kind == "grpo" and verdict.state != "failed":
        # The peer raises and we answer, or both raise: the two ways in which a raising case is settled.
        assert verdict.state in ("matched", "reasoned")
    else:
        assert verdict.state == "failed"
        assert verdict.detail


def test_a_difference_off_the_mask_does_not_count():
    case = _changed(_first("verl", "advantage"), lambda c: None)
    mask = case["args"]["response_mask"]
    row, column = next((i, j) for i, entries in enumerate(mask) for j, on in enumerate(entries) if not on)
    case["out"]["advantages"][row][column] = 9.0
    assert judge_cases([case])[0].state == "matched"


def test_the_report_says_how_many_and_which():
    good = _first("trl", "dapo")
    bad = _changed(good, lambda c: c["out"].__setitem__("loss", 9.0))
    lines = format_report(judge_cases([good, bad]))
    assert lines[0] == "matched 1, reasoned 0, failed 1"
    assert good["id"] in lines[-1]
    assert "instead of 9" in lines[-1]


def test_a_failed_case_is_an_exit_status(tmp_path, capsys):
    good = _first("trl", "dapo")
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"trl": "1.16.0", "cases": [good]}))
    assert main([str(path)]) == 0
    path.write_text(json.dumps([_changed(good, lambda c: c["out"].__setitem__("loss", 9.0))]))
    assert main([str(path)]) == 1
    assert main([]) == 2
    assert "usage" in capsys.readouterr().out


def test_a_file_in_another_format_is_an_error(tmp_path):
    path = tmp_path / "cases.json"
    path.write_text('{"rows": []}')
    with pytest.raises(DataError, match="list `cases`"):
        read_cases(path)


# -- presets


def test_presets_hold_no_tensor_operation():
    for path in PRESETS.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            name
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not any(name.split(".")[0] in ("torch", "numpy") for name in imported), path.name
        operators = (ast.MatMult,)
        assert not any(isinstance(node, operators) for node in ast.walk(tree)), path.name
        # What a preset calls from the maths are components that it binds, never functions of tensors.
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"k1", "k2", "k3", "absolute", "masked", "single", "whiten"}, path.name


@pytest.mark.parametrize("name", [name for name in names("algorithm") if "/" in name])
def test_a_preset_makes_a_graph(name):
    algorithm = get("algorithm", name)()
    assert algorithm.name == name or name == "verl-0.9/vanilla"
    algorithm.graph().resolve()
