import json

import numpy as np
import pytest

from rlcore.errors import ConfigError, DataError
from rlcore.protocols import Sample
from rlcore_rewards.managers import DefaultManager
from rlcore_sandbox.layouts import Asserts, Calls, Programs, read_problem
from rlcore_sandbox.protocol import UnusableTestsError
from rlcore_sandbox.reward import PythonCode

ADD = "```python\ndef add(a, b):\n    return a + b\n```"
MBPP = {"test_list": ["assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'", "assert add(0.1, 0.2) != 1"]}
APPS = {"inputs": ["1 2\n", "10\n-4\n"], "outputs": ["3\n", "6"]}
PROGRAM = "import sys\nprint(sum(map(int, sys.stdin.read().split())))"
CALLS = {"fn_name": "add", "inputs": [[1, 2], [[1], [2]], [0.1, 0.2]], "outputs": [3, [[1, 2]], [0.3]]}


@pytest.mark.parametrize(
    ("row", "kind", "completion"),
    [
        (MBPP, Asserts, ADD),
        (
            {**MBPP, "test_setup_code": "x = 1", "test_imports": ["import math"], "challenge_test_list": []},
            Asserts,
            ADD,
        ),
        ({"target": MBPP["test_list"]}, Asserts, ADD),
        ({"target": json.dumps(MBPP["test_list"])}, Asserts, ADD),
        ({"ground_truth": "assert add(1, 2) == 3"}, Asserts, ADD),
        ({"test_list": np.array(MBPP["test_list"])}, Asserts, ADD),
        ({"input_output": json.dumps(APPS)}, Programs, PROGRAM),
        ({"input_output": APPS, "test_list": None}, Programs, PROGRAM),
        ({"target": json.dumps(APPS)}, Programs, PROGRAM),
        ({"extra_info": {"input_output": json.dumps(APPS)}, "target": ""}, Programs, PROGRAM),
        ({"inputs": [["1", "2"]], "outputs": [[3]]}, Programs, PROGRAM),
        (
            {"public_tests": {"input": ["1 1"], "output": ["2"]}, "private_tests": {"input": ["2 2"], "output": ["4"]}},
            Programs,
            PROGRAM,
        ),
        ({"input_output": json.dumps(CALLS)}, Calls, ADD),
        ({"input_output": json.dumps(CALLS)}, Calls, "class Solution:\n    def add(self, a, b):\n        return a + b"),
        (
            {"input_output": {"fn_name": "add", "inputs": [[[1, 2], [3]]], "outputs": [[1, 2, 3]]}},
            Calls,
            "class Solution:\n    def add(self, a: List[int], b: List[int]): return list(chain(a, b))",
        ),
        ({"target": {"fn_name": "add", "inputs": ["1\n2\n", "[1]\n[2]"], "outputs": ["3", "[1, 2]"]}}, Calls, ADD),
    ],
)
def test_every_layout_is_read_and_a_right_solution_passes(grade, row, kind, completion):
    assert isinstance(read_problem(row), kind)
    reward = grade(mode="fraction")
    reward.check_row(row)
    result = reward(completion, **row)
    assert (result["score"], result["passed"]) == (1.0, result["total"])
    assert reward("```python\ndef add(a, b):\n    return None\n```", **row)["passed"] < result["total"]
    nothing = reward("I cannot do it. ```bash\nls\n```", **row)
    assert (nothing["score"], nothing["passed"], nothing["extracted"]) == (0.0, 0, "I cannot do it. ```bash\nls\n```")


def test_a_share_of_the_tests_is_a_score_only_in_fraction_mode(grade):
    half = "def add(a, b):\n    return 3"
    fraction, every = grade(mode="fraction"), grade(mode="all")
    assert fraction(half, **MBPP) == {"score": 2 / 3, "passed": 2, "total": 3, "extracted": half}
    assert every(half, **MBPP) == {"score": 0.0, "passed": 1, "total": 3, "extracted": half}
    assert grade(max_tests=1)(half, **MBPP)["score"] == 1.0
    assert fraction("print(3)", **APPS)["score"] == 0.5
    assert every("print(3)", **APPS)["score"] == 0.0
    assert fraction("def add(a, b): return 3", **CALLS)["score"] == 1 / 3


def test_tests_after_one_that_ran_out_of_time_are_not_waited_for(grade):
    reward = grade(mode="fraction", seconds=2.0)
    row = {"inputs": ["1", "2", "3"], "outputs": ["1", "2", "3"]}
    slow = "x = input()\nif x == '2':\n    import time\n    time.sleep(60)\nprint(x)"
    assert reward(slow, **row)["passed"] == 1


@pytest.mark.parametrize(
    "row",
    [
        {"test": "raise RuntimeError('x')\ndef check(c): assert c(1, 2) == 3", "entry_point": "add"},
        {"test": "from math import none\ndef check(c): assert c(1, 2) == 3", "entry_point": "add"},
        {"test": "import sys\nsys.exit(0)\ndef check(c): assert c(1, 2) == 3", "entry_point": "add"},
        {**MBPP, "test_setup_code": "1 / 0"},
        {"test_list": ["undefined.start()\nassert add(1, 2) == 3"], "test_setup_code": "def undefined(): pass"},
    ],
)
def test_tests_that_fail_by_themselves_leave_a_row_unscored(grade, row):
    with pytest.raises(UnusableTestsError, match="by themselves"):
        grade()(ADD, **row)
    wrong = "```python\ndef add(a, b) return 3\n```"
    assert grade()(wrong, **row)["score"] == 0.0


def test_a_test_of_comments_alone_is_none(grade):
    row = {"test_list": ["assert add(1, 2) == 3", "# and so on"]}
    assert grade(mode="fraction")("def add(a, b): return 0", **row)["score"] == 0.0


def test_a_function_named_as_a_builtin_is_the_solutions_if_every_test_calls_it():
    assert read_problem({"test_list": ["assert sum(10, 15) == 6", "assert sum(1, 2) == 1"]}).names == ["sum"]
    assert read_problem({"test_list": ["assert set(f(1)) == set([1])"]}).names == ["f"]
    row = {"test_list": ["assert depth(root) == 2"], "test_setup_code": "root = Node(1)\nroot.left = Node(2)"}
    assert sorted(read_problem(row).names) == ["Node", "depth"]


def test_the_setup_of_tests_may_make_objects_of_the_solution(grade):
    code = "class Node:\n    def __init__(self, x): self.left = None\n"
    code += "def depth(n): return 1 + depth(n.left) if n else 0\n"
    row = {"test_list": ["assert depth(root) == 2"], "test_setup_code": "root = Node(1)\nroot.left = Node(2)"}
    assert grade()(code, **row)["score"] == 1.0


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "no tests; its columns: none"),
        ({"target": None, "prompt": "x"}, "its columns: target, prompt"),
        ({"target": 5}, "expected a list of code"),
        ({"test_list": ["assert f(1 =="]}, "test 1 is no Python"),
        ({"test_list": ["assert 1 == 1"]}, "call nothing of a solution"),
        ({"target": "the answer is 5"}, "test 1 is no Python"),
        ({"test": "x = 1", "entry_point": "f"}, "no function `check`"),
        ({"test": "def check(c): pass", "entry_point": "f("}, "name of a function"),
        ({"inputs": ["1"], "outputs": []}, "1 and 0; expected as many"),
        ({"inputs": [], "outputs": []}, "0 and 0; expected as many"),
        ({"inputs": [None], "outputs": ["1"]}, "expected text, or a list of lines"),
        ({"input_output": "not json"}, "expected JSON with inputs and outputs"),
        ({"input_output": {"fn_name": "f", "inputs": ["x"], "outputs": ["1"]}}, "nor JSON line by line"),
        ({"test": "def check(c): pass", "entry_point": "class"}, "name of a function"),
        ({"test": "def check(c): pass", "entry_point": "f"}, "test calls nothing"),
        ({"test": "def check(c): return " + "-" * 20_000 + "c()", "entry_point": "f"}, "test is no Python"),
        ({"test_list": ["# assert f(1) == 2"]}, "list of tests is empty"),
        ({"target": "unknown"}, "call nothing of a solution"),
        ({"target": "[" * 100_000}, "nested too deeply"),
        ({"fn_name": "f g", "inputs": [[1]], "outputs": [1]}, "name of a function"),
        ({"inputs": ["\ud800"], "outputs": ["1"]}, "cannot be written as UTF-8"),
        ({"public_tests": ["x"]}, "lists `input` and `output`"),
    ],
)
def test_a_row_that_could_never_be_graded_says_why(row, said):
    with pytest.raises(DataError, match=said):
        PythonCode().check_row(row)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "some"}, "mode='some'"),
        ({"seconds": 0}, "seconds=0"),
        ({"max_tests": 0}, "max_tests=0"),
        ({"url": "ftp://x"}, "url='ftp://x'"),
        ({"accept_missing": ["all"]}, "layers are"),
    ],
)
def test_options_that_cannot_be_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        PythonCode(**options)


def test_the_manager_calls_it_as_any_reward(grade):
    manager = DefaultManager(grade(mode="fraction"))
    right, wrong = (Sample("?", text, None, {**MBPP, "target": None}) for text in (ADD, "no"))
    graded = manager.score([right, wrong])
    assert [one.score for one in graded] == [1.0, 0.0]
    assert graded[0].components == {"passed": 3.0, "total": 3.0}
    assert graded[0].extracted == "def add(a, b):\n    return a + b\n"


def test_what_the_sandbox_cannot_do_unscores_a_row_and_names_it(grade):
    reward = grade()
    sample = Sample("?", ADD, None, {"test_list": ["assert add(lambda: 1, 2) == 3"]})
    fine = Sample("?", ADD, None, MBPP)
    unscored, scored = DefaultManager(reward).score([sample, fine])
    assert scored.score == 1.0
    assert "which is no plain data" in unscored.error
