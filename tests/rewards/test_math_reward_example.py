import math
from pathlib import Path

import pytest

from rlcore.protocols import Sample
from rlcore.registry import load_file
from rlcore_rewards.managers import DefaultManager

FILE = Path(__file__).parents[2] / "docs" / "examples" / "math_reward.py"


@pytest.mark.parametrize(
    ("text", "target", "score"),
    [
        ("<think>6*7</think><answer>42</answer>", "42", 1.0),
        ("<think>6*7</think>\n<answer> $42.00 </answer>\n", "42", 1.0),
        ("<think>6*7</think><answer>41</answer>", "42", 0.1),
        ("<think></think><answer>42</answer>", "42", 0.9),
        ("it is 42", "42", 0.9),
        ("it is 41", "42", 0.0),
        ("<answer>42</answer> or <answer>41</answer>", "42", 0.0),
        ("<think>a</think><answer>blue</answer>", "blue", 1.0),
        ("", "42", 0.0),
        ("<answer></answer>", "", 0.0),
    ],
)
def test_the_users_own_reward_runs_unchanged_from_its_file(text, target, score):
    reward = load_file(f"{FILE}:compute_math_reward")
    [graded] = DefaultManager(reward).score([Sample("6*7?", text, None, {"ground_truth": target})])
    assert math.isclose(graded.score, score)
    [graded] = DefaultManager(reward).score([Sample("6*7?", text, None, {"target": target})])
    assert math.isclose(graded.score, score)
