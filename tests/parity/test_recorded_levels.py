"""TRL's CISPO and SAPO with `importance_sampling_level` "sequence": numbers recorded from TRL's own loss."""

from pathlib import Path

from rlcore_algorithms.parity import judge_cases, read_cases

CASES, FAMILIES = read_cases(Path(__file__).with_name("recorded_trl_sequence.json"))


def test_losses_with_one_ratio_a_row_have_the_recorded_values_and_gradients():
    assert {(case["loss_type"], case["importance_sampling_level"]) for case in CASES} == {
        ("cispo", "sequence"),
        ("sapo", "sequence"),
    }
    assert [(v.state, v.detail) for v in judge_cases(CASES, FAMILIES)] == [("matched", "")] * len(CASES)


def test_the_level_matters():
    as_tokens = [{**case, "importance_sampling_level": "token"} for case in CASES]
    assert any(v.state == "failed" for v in judge_cases(as_tokens, FAMILIES))
