"""The share of a row's tests that a completion's Python code passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rlcore.errors import ConfigError
from rlcore_rewards.calling import check_positive
from rlcore_sandbox.extraction import complete_prompt, defines_anywhere, extract_code
from rlcore_sandbox.inside.values import same_output
from rlcore_sandbox.layouts import Calls, Problem, Programs, read_problem
from rlcore_sandbox.local import Sandbox
from rlcore_sandbox.protocol import Runner, SandboxLimits
from rlcore_sandbox.service import SandboxService

# What sites that ask for a class Solution have imported before it, and their solutions rely on.
CONTEST_IMPORTS = """
import bisect, collections, functools, heapq, itertools, math, random, re, string
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import ceil, comb, floor, gcd, inf, log2, sqrt
from typing import *
"""


class PythonCode:
    """The score of a completion's Python code on the row's tests: with "all" 1.0 if it passes every one, else 0.0.

    The code is the last fenced block (`extract_code`), or the whole text if there is none; a completion without code
    scores 0. It runs in a sandbox, on this machine unless `url` names a service, and never in one process with its
    tests: those call its functions from outside, and plain data is all that comes back. What the code does (raise,
    hang, exit, allocate) is a 0; what the sandbox cannot do is an error, and the row is unscored.

    Tests are read in the layouts of HumanEval, MBPP, APPS, TACO and CodeContests (`read_problem`). A HumanEval row is
    one test. Components: `passed` and `total`, tests. After the first test that reaches a time limit the others count
    as failed; with "all", `passed` counts those before the first that failed.

    Args:
        mode: "all", or "fraction" for the share of tests that passed.
        seconds: for a test of a program, or for all tests that are calls, by the clock.
        cpu_seconds: likewise, of processor time.
        memory_mib: address space of a run.
        max_tests: only the first so many tests of a row.
        concurrency: runs at a time on this machine; as many as it has processors without a number.
        accept_missing: layers of the sandbox that may be missing here; see `rlcore_sandbox.local.Sandbox`.
        site_packages: whether the code may import what is installed beside this Python.
        preload: modules that the sandbox imports once for all runs.
        url: of a service that speaks SandboxFusion's `POST /run_code`, instead of this machine.
    """

    bounded = True

    def __init__(
        self,
        *,
        mode: Literal["all", "fraction"] = "all",
        seconds: float = 10.0,
        cpu_seconds: int = 5,
        memory_mib: int = 1024,
        max_tests: int | None = None,
        concurrency: int | None = None,
        accept_missing: Sequence[str] = (),
        site_packages: bool = False,
        preload: Sequence[str] = (),
        url: str | None = None,
    ) -> None:
        if mode not in ("all", "fraction"):
            raise ConfigError(f"mode={mode!r}; allowed: 'all', 'fraction'")
        check_positive(seconds=seconds, cpu_seconds=cpu_seconds, memory_mib=memory_mib, max_tests=max_tests)
        self.mode = mode
        self.max_tests = max_tests
        self.limits = SandboxLimits(seconds=seconds, cpu_seconds=cpu_seconds, memory_mib=memory_mib)
        self.runner: Runner = (
            Sandbox(
                accept_missing=accept_missing, concurrency=concurrency, site_packages=site_packages, preload=preload
            )
            if url is None
            else SandboxService(url)
        )

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise DataError if the row has no tests that can be read, SandboxError if there is no sandbox for them."""
        read_problem(data)
        self.runner.start()

    def __call__(self, completion: str, **row: Any) -> dict[str, Any]:
        """Return the score of one completion, with `passed`, `total` and the code as `extracted`.

        Raises:
            DataError: as `check_row` does.
            SandboxError: the sandbox failed, or the tests give a solution what is no plain data.
        """
        problem = read_problem(row)
        problem = replace(problem, tests=problem.tests[: self.max_tests])  # type: ignore[arg-type]  # its own kind
        total = len(problem.tests)
        code = extract_code(completion, names=problem.names)
        passed = 0 if code is None else self.passed(code, problem)
        share = passed / total if self.mode == "fraction" else float(passed == total)
        return {"score": share, "passed": passed, "total": total, "extracted": code}

    def passed(self, code: str, problem: Problem) -> int:
        """Return how many of a problem's tests a solution passes."""
        stop = self.mode == "all"
        if isinstance(problem, Programs):
            return self._programs(code, problem)
        if isinstance(problem, Calls):
            if defines_anywhere(code, "Solution") and "__future__" not in code:
                code = CONTEST_IMPORTS + code
            result = self.runner.calls(code, problem.names[0], problem.tests, limits=self.limits, stop=stop)
        else:
            if problem.prompt:
                code = complete_prompt(problem.prompt, code, problem.names[0])
            result = self.runner.check(code, problem, limits=self.limits, stop=stop)
        return sum(not failure for failure in result.failures)

    def _programs(self, code: str, problem: Programs) -> int:
        passed = 0
        for stdin, expected in problem.tests:
            result = self.runner.run(code, stdin, limits=self.limits)
            right = result.status == "finished" and same_output(result.stdout, expected)
            passed += right
            if result.status in ("time", "cpu") or (self.mode == "all" and not right):
                break
        return passed

    def close(self) -> None:
        """End the sandbox."""
        self.runner.close()
