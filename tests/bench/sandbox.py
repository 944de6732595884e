"""Runs a second of the code sandbox: `python -m tests.bench.sandbox [RUNS]`.

Beside it a fresh interpreter for each run, without walls or tests: `python -I`, its output read. Processor time is that
of the whole tree, with what forks and judges; runs a processor second are what a busy machine can be compared by.
"""

import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from rlcore_sandbox.local import Sandbox
from rlcore_sandbox.protocol import SandboxLimits, Suite

LIMITS = SandboxLimits()
PROGRAM = "print(sum(map(int, input().split())))"
FUNCTION = "def add(a, b):\n    return a + b\n"
SUITE = Suite(["check(add)"], ["add"], "def check(f):\n    for n in range(7):\n        assert f(n, 1) == n + 1\n")


def processor_seconds():
    """What this process has used, and those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def program(sandbox):
    assert sandbox.run(PROGRAM, "1 2\n", limits=LIMITS).stdout == "3\n"


def tests(sandbox):
    assert sandbox.check(FUNCTION, SUITE, limits=LIMITS).failures == ("",)


def fresh(_):
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM], input=b"1 2\n", stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"3\n"


def measured(call, runs):
    """Runs a second, and runs a processor second."""
    processors = len(os.sched_getaffinity(0))
    before = processor_seconds()
    sandbox = Sandbox()
    if call is not fresh:
        sandbox.start()
    began = time.perf_counter()
    with ThreadPoolExecutor(processors + 1) as threads:
        for _ in threads.map(call, [sandbox] * runs):
            pass
    took = time.perf_counter() - began
    sandbox.close()  # only now does its processor time count as ours
    return runs / took, runs / (processor_seconds() - before)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}, {count} runs each")
    for name, call in (("a program", program), ("tests, 7 calls", tests), ("a fresh interpreter", fresh)):
        a_second, a_processor_second = measured(call, count if call is not fresh else max(1, count // 4))
        print(f"{name:22} {a_second:6.0f} runs/s  {a_processor_second:6.0f} runs per processor second")
