"""`rlcore diff`: what two algorithms share, where they differ, and what each makes of the same rollouts."""

import json
import re
import shutil
from pathlib import Path

import pytest

from rlcore.cli import main
from rlcore.cli.diff import print_table

TASK = Path(__file__).parents[1] / "bench/sums.py"
SUMS = (f"data={TASK}:sums", "data.split=all")
SIZES = ("steps=2", "prompts=4", "algorithm.group_size=4", "max_new_tokens=3", "tracker=[jsonl]", "seed=3")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of a run of a tiny random model that kept its rollouts, and the weights of every step."""
    from tiny import save_tiny

    folder = tmp_path_factory.mktemp("diff")
    (folder / "mine.py").write_text(
        'def digit(completion):\n    """Share of digits."""\n    return sum(c.isdigit() for c in completion) / 3\n'
    )
    model = save_tiny(folder / "tiny")
    words = (*SUMS, f"reward={folder}/mine.py:digit", *SIZES, "save.rollouts=true", "save.every=1", "save.keep=9")
    where = (f"model={model}", f"run.folder={folder}", "run.name=kept", "learning_rate=1e-2", "--quiet")
    assert main(["train", *words, *where]) == 0
    return folder / "kept"


def rows(out):
    """The cells of each line that has three; what is wrapped in the last cell belongs to it."""
    found, key = {}, ""
    for line in out.splitlines():
        cells = re.split(r"\s{3,}", line.strip())
        if len(cells) == 3:
            key = cells[0]
            found[key] = tuple(cells[1:])
        elif key and len(cells) == 1 and line.startswith(" " * 50):
            found[key] = (found[key][0], f"{found[key][1]} {cells[0]}")
    return found


def test_parts_options_numbers_defaults_and_formulas_stand_side_by_side(rlcore):
    status, out, err = rlcore("diff", "grpo", "dapo")
    assert (status, err) == (0, "")
    found = rows(out)
    assert found["loss.clip_high"] == ("0.2", "0.28")
    assert found["reduction"] == ("sequence_mean_token_mean", "token_mean")
    assert found["filter"] == ("-", "score group -> rows"), "the graph stands last"
    assert found["group_size"] == ("8", "16")
    assert "advantage.epsilon" not in found, "what is alike is left out"
    assert "max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high))" in out
    assert "reduction sequence_mean_token_mean\n    L = mean_i mean_t loss_it\n" in out
    assert "reduction token_mean\n    L = sum_i sum_t loss_it / tokens\n" in out


def test_a_part_without_a_formula_says_what_it_gives(rlcore):
    _, out, _ = rlcore("diff", "grpo", "verl-0.9/gpg")
    assert "loss policy_gradient\n    Return the loss [B, T] per token: -A logprob; 0 off the mask.\n" in out


def test_long_names_stay_whole(capsys):
    name = "test_a_law_of_a_name_that_is_longer_than-a-cell-of-the-table"
    print_table((" ", "one", "other"), [(name, "short words that are many enough to be wrapped over two lines", "-")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert name in lines[1]


def test_everything_is_shown_to_whoever_asks(rlcore):
    assert rows(rlcore("diff", "grpo", "dapo", "--all")[1])["advantage.epsilon"] == ("1e-06", "1e-06")


def test_models_that_load_and_nodes_that_live(rlcore):
    found = rows(rlcore("diff", "grpo", "ppo")[1])
    assert found["loads"] == ("sampler, trainer", "critic, sampler, trainer")
    assert found["value_loss.clip"] == ("-", "0.2")
    assert found["placing"] == (
        "score sampled session segment -> reward",
        "score sampled session segment -> token_reward",
    )


def test_an_algorithm_does_not_differ_from_itself(rlcore):
    _, out, _ = rlcore("diff", "grpo", "grpo")
    assert out.count("no difference") == 4


def test_a_preset_differs_from_our_own_in_what_its_peer_does(rlcore):
    found = rows(rlcore("diff", "grpo", "verl-0.9/grpo")[1])
    assert found["loss.dual_clip"] == ("null", "3.0")
    assert found["advantage.keep_single"] == ("false", "true")


def test_laws_that_a_package_declares_broken_are_shown(rlcore):
    _, out, _ = rlcore("diff", "grpo", "verl-0.9/grpo")
    assert "laws declared broken:\n" in out
    assert "laws declared broken: no difference" in rlcore("diff", "grpo", "dapo")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grpo", "daapo"], "Did you mean 'dapo'"),
        (["grpo", "dapo", "--step", "1"], "no effect without --on"),
        (["grpo", "dapo", "--on", "nowhere"], "is no run"),
        (["grpo", f"{TASK}:sums"], "only algorithms made of components"),
    ],
)
def test_a_mistake_is_named(rlcore, words, said):
    status, _, err = rlcore("diff", *words)
    assert status == 1
    assert said in err


def gradients(out):
    found = rows(out)
    cosine = float(re.search(r"cosine (\S+)", out).group(1))
    return tuple(map(float, found["norm"])), cosine


def test_gradients_on_the_same_rollouts(rlcore, kept):
    status, out, err = rlcore("diff", "grpo", "grpo", "--on", kept)
    assert (status, err) == (0, "")
    (one, other), cosine = gradients(out)
    assert one == other > 0
    assert cosine == pytest.approx(1)
    assert rows(out)["rows trained on"] == ("16", "16")
    # Without the deviation in the denominator the direction is another one, but of the same half-space.
    (one, other), cosine = gradients(rlcore("diff", "grpo", "rloo", "--on", kept)[1])
    assert one != other
    assert 0 < cosine < 1


def test_gradients_of_a_later_step_are_of_the_weights_that_drew_it(rlcore, kept):
    first = gradients(rlcore("diff", "grpo", "ppo", "--on", kept)[1])
    second = gradients(rlcore("diff", "grpo", "ppo", "--on", kept, "--step", "1")[1])
    assert first != second


def test_the_gradient_is_what_the_run_itself_reported(rlcore, kept):
    reported = [json.loads(line) for line in (kept / "metrics.jsonl").read_text().splitlines()]
    for step in (0, 1):
        (norm, _), _ = gradients(rlcore("diff", "grpo", "dapo", "--on", kept, "--step", str(step))[1])
        assert norm == pytest.approx(reported[step]["update/gradient_norm"], rel=1e-4)


def test_what_a_run_has_not_kept_is_named(rlcore, kept, tmp_path):
    status, _, err = rlcore("diff", "grpo", "dapo", "--on", kept, "--step", "7")
    assert status == 1
    assert re.search("kept no rollouts of step 7 .*there are: step_0, step_1", err)
    shutil.copytree(kept, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step_1")
    _, _, err = rlcore("diff", "grpo", "dapo", "--on", tmp_path / "run", "--step", "1")
    assert re.search("kept no weights of step 1 .*there are: step_0, step_2", err)
    (tmp_path / "run" / "config.yaml").write_text("data: 12 rows given in Python\n")
    assert "grpo cannot be tried on" in rlcore("diff", "grpo", "dapo", "--on", tmp_path / "run")[2]
