"""Answers that would take forever or fill the memory: refused by their estimated size, or stopped."""

import os
import resource
import signal
import time

import pytest

from rlcore_answers.comparison import compare
from rlcore_answers.grading import CPU_SECONDS, MEMORY_BYTES, Math, sympy_workers
from rlcore_answers.peers import MathVerify
from rlcore_answers.sympy_calls import equal_by_sympy
from rlcore_workers import Stopped

B62 = [r"9^{9^{9^{9}}}", r"5^{5^{5^{5^5}}}-4", r"100000!!", r"10^{10^{10}}"]
HOSTILE = {
    "a tower of factorials": "9!!!!!!!!!!",
    "a factorial of a power": r"(10^{100})!",
    "a binomial": r"\binom{10^{50}}{10^{49}}",
    "nested radicals": r"\sqrt{" * 400 + "2" + "}" * 400,
    "radicals without braces": r"\sqrt" * 300 + "2",
    "a radical of a huge index": r"\sqrt[10^{30}]{2}",
    "nested brackets": "(" * 900 + "1" + ")" * 900,
    "nested fractions": r"\frac{1}{" * 180 + "2" + "}" * 180,
    "many factors": "x" * 1999,
    "many functions": r"\sin " * 400 + "x",
    "many terms": "+".join(["x^{99}"] * 280),
    "many roots": "+".join([r"\sqrt{x}"] * 200),
    "a long list": ",".join(["\\pi"] * 499),
    "a long list of terms": ",".join(f"x+{k}" for k in range(300)),
    "many signs": "-" * 1998 + "1",
    "many powers": "2" + "^2" * 900,
    "raised quotients": r"(1/3)^{10^9}",
    "exponentials": r"e^{e^{e^{e^{9}}}}",
    "hyperbolic functions": r"\sinh(10^{40})",
    "a sine far out": r"\sin(10^{4000})",
    "a power of ten in letters": "1e999999999",
    "a long number": "7" * 5000,
    "powers of a variable": r"x^{10^{9}}",
    "plus and minus": r"\pm 1" * 300,
    "absolute values": "|" * 1000 + "x" + "|" * 1000,
    "a megabyte of braces": "{" * 10**6,
    "a megabyte of boxes": r"\boxed{" * (10**6 // 7),
    "a megabyte of digits": "9" * 10**6,
    "ligatures": "\ufdfa" * 2000,
}


def grown(before):
    """By how many MiB the largest size of this process has grown."""
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


@pytest.mark.parametrize("answer", B62)
def test_b62_huge_powers_are_refused_by_their_estimated_size(answer):
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    reward = Math()
    assert reward(rf"\boxed{{{answer}}}", "5") == {"score": 0.0, "stopped": 0.0, "extracted": answer}
    assert reward(r"\boxed{5}", "5")["score"] == 1.0
    assert compare(answer, answer) is True
    assert time.process_time() - start < CPU_SECONDS
    assert grown(before) < MEMORY_BYTES / 2**20


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_take_no_more_than_one_comparison_may(name):
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for gold in ("5", "x", r"\pi,\pi"):
        assert compare(HOSTILE[name], gold) is False
        assert compare(gold, HOSTILE[name]) is False
    assert compare(HOSTILE[name], HOSTILE[name]) in (True, False)
    assert time.process_time() - start < 7 * CPU_SECONDS
    assert grown(before) < MEMORY_BYTES / 2**20


def test_two_long_lists_in_another_order_take_no_longer():
    start = time.process_time()
    terms = [f"x+{k}" for k in range(300)]
    assert compare(",".join(terms), ",".join(reversed(terms))) in (True, False)
    assert time.process_time() - start < 5 * CPU_SECONDS


@pytest.mark.slow
def test_b62_sympy_is_stopped_at_its_limits_and_its_worker_is_used_again():
    workers = sympy_workers(1)
    for answer in (*B62, r"\sum_{k=1}^{10^9} k^k", r"\prod_{k=1}^{10^{8}} \sqrt{k}"):
        with pytest.raises(Stopped) as stopped:
            workers.call(equal_by_sympy, answer, "5")
        assert stopped.value.limit in ("cpu", "memory", "time")
    assert workers.call(equal_by_sympy, r"\int_0^1 x dx", r"\frac12") is True
    workers.close()


@pytest.mark.slow
def test_what_sympy_cannot_end_scores_nothing_and_is_counted():
    reward = Math()
    assert reward(r"\boxed{\sum_{k=1}^{10^9} k^k}", "3")["stopped"] == 1.0
    assert reward(r"\boxed{\int_0^1 x\,dx}", r"\frac12") == {
        "score": 1.0,
        "stopped": 0.0,
        "extracted": r"\int_0^1 x\,dx",
    }
    reward.close()


@pytest.mark.slow
def test_b62_the_policy_of_math_verify_is_stopped_too():
    reward = MathVerify()
    for answer in B62[:2]:
        assert reward(rf"\boxed{{{answer}}}", "5") == {"score": 0.0, "stopped": 1.0, "extracted": None}
    assert reward(r"so \boxed{5}", "5")["score"] == 1.0
    reward.close()


def test_a_worker_that_is_killed_from_outside_costs_no_answer():
    reward = Math()
    graded = [r"\boxed{\sum_{k=1}^{10} k}", "55"]
    assert reward(*graded)["score"] == 1.0
    os.kill(reward.workers.call(os.getpid), signal.SIGKILL)
    assert reward(*graded) == {"score": 1.0, "stopped": 0.0, "extracted": r"\sum_{k=1}^{10} k"}
    reward.close()
