import time

import pytest

from rlcore_sandbox.extraction import complete_prompt, defines, extract_code
from rlcore_sandbox.inside.values import same_output, same_value


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("```python\na\n```", "a\n"),
        ("one\n```python\na\n```\ntwo\n```python\nb\n```\nthree", "b\n"),
        ("```py\na\n```\nrun it:\n```bash\nls\n```\nit prints\n```\n5\n```", "a\n"),
        ("```\na\n```", "a\n"),
        ("```json\n{}\n```", None),
        ("```python\na = '''\n``` \n'''", "a = '''\n"),
        ("````python\na\n```\nb\n````", "a\n```\nb\n"),
        ("```Python3 title=x\na\n```", "a\n"),
        ("~~~python\na\n~~~", "a\n"),
        ("1. so:\n   ```python\n   if a:\n       b\n\n   ```\n2. done", "if a:\n    b\n\n"),
        ("```python\n    return 1\n```", "    return 1\n"),
        ("```python\r\na\n```", "a\n"),
        ("```python\na", "a"),
        ("```python\n```\n```python\n\n```", None),
        ("    return 1\n", "    return 1\n"),
        ("<think>```python\nold\n```</think>\n```python\nnew\n```", "new\n"),
        ("<think>```python\nold\n```</think>    return 1", "    return 1"),
        ("<think>```python\nold\n```", None),
        ("", None),
        (" \n", None),
    ],
)
def test_the_code_of_a_completion(completion, code):
    assert extract_code(completion) == code


def test_a_block_that_defines_what_is_asked_for_comes_before_its_use():
    text = "```python\ndef f(x): return x\n```\nUse it:\n```python\nprint(f(1))\n```"
    assert extract_code(text) == "print(f(1))\n"
    assert extract_code(text, names=["f"]) == "def f(x): return x\n"
    assert extract_code(text, names=["g"]) == "print(f(1))\n"
    method = "```python\nclass Solution:\n    def f(self): pass\n```\n```python\nSolution().f()\n```"
    assert extract_code(method, names=["f"]).startswith("class Solution")


def test_a_bare_text_counts_only_if_asked_for():
    assert extract_code("x = 1", bare=False) is None


def test_a_whole_function_replaces_the_prompts_and_a_body_goes_on():
    prompt = 'import math\n\ndef f(x):\n    """Doc."""\n'
    assert complete_prompt(prompt, "    return x\n", "f") == prompt + "    return x\n"
    assert complete_prompt(prompt, "def f(x): return 1", "f").endswith("pass\n\n\ndef f(x): return 1")
    assert complete_prompt(prompt, "def g(x): return 1", "f").startswith(prompt + "def g")
    assert defines("f = lambda x: x", "f")
    assert defines("async def f(): pass", "f")
    assert not defines("    def f(x): pass", "f")
    assert not defines("f == 1", "f")
    assert not defines("def ff(x): pass", "f")


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("1  2 \n\n3", "1 2\n3\n\n", True),
        ("1\r\n2", "1\n2", True),
        ("1 2 3", "1 2\n3", False),
        ("YES", "Yes", False),
        ("0.3333333", "0.33333333333", True),
        ("0.3334", "0.33333333333", False),
        ("1000000.5", "1000000.4", True),
        ("1.0", "1", True),
        ("1e3", "1000.0", True),
        ("10000001", "10000000", False),
        ("007", "7", False),
        ("nan", "nan", True),
        ("inf", "1.5", False),
        ("", "", True),
        ("1", "", False),
        ("9" * 5000, "9" * 4999 + "8", False),
        ("0." + "1" * 5000, "0.1", False),
        (" " * 100 + "5", "5", True),
        (" " * (1 << 20) + "5", "5", False),
    ],
)
def test_outputs_agree_by_line_word_and_number(actual, expected, same):
    assert same_output(actual, expected) is same


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ((1, 2), [1, 2], True),
        ({1: "a"}, {"1": "a"}, True),
        ({True: 1}, {"true": 1}, True),
        (5, [5], True),
        ([5], [5], True),
        ([5], 5, False),
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (10**400, 1.0, False),
        (1, "1", False),
        (True, 1, True),
        (None, None, True),
        ({1, 2}, [1, 2], False),
        (2**64, 2**64 + 1, False),
        (float("nan"), 1.0, False),
        ({"a": [1.0, (2,)]}, {"a": [1, [2]]}, True),
        ({10**9999: 1}, {"1": 1}, False),
    ],
)
def test_values_agree_as_json(actual, expected, same):
    assert same_value(actual, expected) is same


@pytest.mark.parametrize("line", ["~" * 200_000, "```" + "a" * 200_000, "```" + " " * 200_000, "~~~" + " a" * 100_000])
def test_a_long_line_of_fence_takes_no_longer_than_its_length(line):
    began = time.process_time()
    extract_code(line, names=["f"])
    assert time.process_time() - began < 2.0  # in the square of its length it would be minutes
