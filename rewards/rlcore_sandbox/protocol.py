"""The protocol of a place that runs code, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from rlcore.errors import RewardError
from rlcore_sandbox.inside.plain import NotPlainError, dumps, refuse_held


class SandboxError(RewardError):
    """A failure of the sandbox, never of the code that ran in it: what was to be graded stays unscored."""


@dataclass(frozen=True, kw_only=True)
class SandboxLimits:
    """The limits of one run.

    Args:
        seconds: by the clock, from the start of the run.
        cpu_seconds: of processor time, threads together; counted in whole seconds.
        memory_mib: address space.
        output_mib: standard output, and any single file.
        tmp_mib: /tmp as a whole, the only place to write to.
        tasks: threads; a run has one process.
    """

    seconds: float = 10.0
    cpu_seconds: int = 5
    memory_mib: int = 1024
    output_mib: int = 8
    tmp_mib: int = 16
    tasks: int = 64

    def in_bytes(self) -> dict[str, int]:
        """Return the limits as the kernel takes them."""
        sizes = {"memory": self.memory_mib, "output": self.output_mib, "tmp": self.tmp_mib, "stack": 128}
        counts = {"cpu_seconds": self.cpu_seconds, "tasks": self.tasks, "tmp_files": 1024, "open_files": 64}
        return {f"{name}_bytes": mib << 20 for name, mib in sizes.items()} | counts


@dataclass(frozen=True)
class ProgramResult:
    """The end of a run.

    `status` is "finished" (exit code 0), "failed" (another code), "killed" (by a signal), "time" or "cpu" (limits).
    `code` is the exit code, or minus a signal's number. `stderr` is the end of what was written there.
    """

    status: str
    code: int
    stdout: str = ""
    stderr: str = ""
    cpu_seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Suite:
    """Tests as code.

    Args:
        tests: pieces of code; each passes by running to its end.
        names: what they call of the solution's: functions and classes.
        before: code that they need (imports, a `check` function).
    """

    tests: Sequence[str]
    names: Sequence[str]
    before: str = ""


@dataclass(frozen=True)
class SuiteResult:
    """The failure of each test that was run, "" for one that passed. Tests that could not be run are missing."""

    failures: Sequence[str] = field(default_factory=tuple)
    program: ProgramResult | None = None


class UnusableTestsError(SandboxError):
    """Tests that no solution could pass as they are: they give it what is no plain data, or lack a module."""


@runtime_checkable
class Runner(Protocol):
    """A place that runs Python code that nobody has read. Every method may be called from any thread.

    Each raises SandboxError where the place itself fails. A subclass says what the methods without a body do.
    """

    def start(self) -> None:
        """Make ready, and find out whether it can be used at all; the first run does so too."""
        ...

    def run(self, code: str, stdin: str = "", *, limits: SandboxLimits) -> ProgramResult:
        """Return how a program ends."""
        ...

    def calls(
        self,
        code: str,
        name: str,
        cases: Sequence[tuple[Sequence[Any], Any]],
        *,
        limits: SandboxLimits,
        stop: bool = False,
    ) -> SuiteResult:
        """Call a function, or a method of a class Solution, with arguments and see what comes back.

        A case is a list of arguments and the value of JSON that is expected, as `same_value` of `inside.values` says.
        Raises UnusableTestsError if there is what is no plain data.
        """
        try:
            text = dumps([[[*arguments], expected] for arguments, expected in cases], refuse_held)
        except NotPlainError as error:
            raise UnusableTestsError(f"the tests of {name!r}: {error}") from error
        return self.run_tests(code, {"do": "calls", "name": name, "cases": text, "stop": stop}, limits=limits)

    def check(self, code: str, suite: Suite, *, limits: SandboxLimits, stop: bool = False) -> SuiteResult:
        """Run tests against a solution that sees nothing of them; `stop` ends at the first that failed."""
        work = {"do": "check", "before": suite.before, "tests": [*suite.tests], "names": [*suite.names], "stop": stop}
        return self.run_tests(code, work, limits=limits)

    def run_tests(self, code: str, work: Mapping[str, Any], *, limits: SandboxLimits) -> SuiteResult:
        """Return what is wrong with each test of a solution; `work` is the message that `calls` or `check` makes."""
        ...

    def close(self) -> None:
        """End what it started."""
        ...
