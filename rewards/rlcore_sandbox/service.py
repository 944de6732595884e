"""Runs on a service that speaks SandboxFusion's protocol: `POST /run_code` with code, and what came of it as JSON."""

from __future__ import annotations

import http.client
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, StrictInt, ValidationError

from rlcore.errors import ConfigError
from rlcore_rewards.retry import backoff, is_transient, retry_after
from rlcore_sandbox import inside
from rlcore_sandbox.protocol import ProgramResult, Runner, SandboxError, SandboxLimits, SuiteResult, UnusableTestsError

ATTEMPTS = 4  # where the service is out of reach, busy or fails
TIMEOUT = 30.0  # seconds to wait for an answer beyond the run's own limit
LARGEST = 1 << 27  # bytes of an answer
STATUSES = {"Finished": "finished", "Error": "failed", "TimeLimitExceeded": "time"}
BESIDE = 2.0  # seconds that judging may take beside the solution's own
SOURCES = ("channel", "plain", "solution", "values", "run_tests")
"""The modules of `inside` that a program on a service needs, each after those that it imports."""

# The solution runs in a child, which has nothing of the tests: they come over standard input, after the fork. Their
# verdict is marked with a word that comes with them. A process that cannot be dumped cannot be looked into either.
PROGRAM = """
import ctypes, json, os, resource, signal, socket, sys, time, types
sys.modules["inside"] = package = types.ModuleType("inside")
package.__path__ = []
for name, source in {sources!r}.items():
    sys.modules["inside." + name] = module = types.ModuleType("inside." + name)
    module.__package__ = "inside"
    setattr(package, name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
from inside import channel, run_tests, solution
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
here, there = socket.socketpair()
child = os.fork()
if child == 0:
    here.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    resource.setrlimit(resource.RLIMIT_CPU, ({cpu_seconds}, {cpu_seconds} + 1))
    try:
        solution.SolutionServer(there, {largest}).serve({code!r})
    finally:
        os._exit(0)
there.close()
work = json.loads(sys.stdin.read())
tested = run_tests.Solution(channel.Channel(here, {largest}, time.monotonic() + {seconds}), 16 * {largest})
verdict = run_tests.run_suite(tested, work)
os.kill(child, signal.SIGKILL)
print(work["mark"] + json.dumps(verdict), flush=True)
"""


class RunResult(BaseModel):
    """How a program ended on the service."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    return_code: StrictInt | None = None
    stdout: str | None = None
    stderr: str | None = None
    execution_time: float | None = None


class RunAnswer(BaseModel):
    """What the service answers; "SandboxError" is a fault of its own."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str | None = None
    run_result: RunResult | None = None


class SandboxService(Runner):
    """Runs Python solutions on a service.

    How a solution is walled in there is the service's affair. What it is kept from here as well: its tests and their
    verdict are in another process than it, which exchanges plain data with it. Where the service is out of reach, busy
    or fails it is asked four times; waits double, and are as long as `Retry-After` says.

    Args:
        url: where the service is, as in "http://localhost:8080"; `/run_code` is asked for.
    """

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"url={url!r}; expected http://HOST or https://HOST of a service")
        self.url = url.rstrip("/").removesuffix("/run_code") + "/run_code"
        self.reached = False

    def start(self) -> None:
        """Ask once for a program that does nothing. Raises SandboxError if the service does not run it."""
        if not self.reached:
            result = self.run("", limits=SandboxLimits())
            if result.status != "finished":
                raise SandboxError(f"{self.url} does not run an empty program: {result}")
            self.reached = True

    def run(self, code: str, stdin: str = "", *, limits: SandboxLimits) -> ProgramResult:
        """Return how a program ends."""
        return self._run_program(code, stdin, limits.seconds, limits)

    def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def run_tests(self, code: str, work: Mapping[str, Any], *, limits: SandboxLimits) -> SuiteResult:
        """Return what is wrong with each test; one failure if the solution ended the program that tests it."""
        mark, folder = secrets.token_hex(16), Path(inside.__file__).parent
        sources = {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in SOURCES}
        program = PROGRAM.format(
            sources=sources, code=code, seconds=limits.seconds, cpu_seconds=limits.cpu_seconds, largest=1 << 22
        )
        result = self._run_program(program, json.dumps({**work, "mark": mark}), limits.seconds + BESIDE, limits)
        _, marked, text = result.stdout.rpartition(mark)
        if not marked:
            if result.status == "finished":
                raise SandboxError(f"{self.url} ran a program to its end and lost its output")
            return SuiteResult((f"no verdict: the run {result.status}",), result)
        try:
            verdict = json.loads(text)
        except ValueError as error:
            raise SandboxError(f"{self.url} cut a program's output: {error}") from error
        if "fault" in verdict:
            raise UnusableTestsError(verdict["fault"])
        return SuiteResult(tuple(verdict["failures"]), result)

    def _run_program(self, code: str, stdin: str, seconds: float, limits: SandboxLimits) -> ProgramResult:
        request = {
            "code": code,
            "language": "python",
            "stdin": stdin,
            "run_timeout": seconds,
            "memory_limit_MB": limits.memory_mib,
        }
        sent = urllib.request.Request(self.url, json.dumps(request).encode(), {"Content-Type": "application/json"})
        for attempt in range(1, ATTEMPTS + 1):
            wait = None
            try:
                with urllib.request.urlopen(sent, timeout=seconds + TIMEOUT) as response:
                    answer = RunAnswer.model_validate_json(response.read(LARGEST + 1))
                if answer.status != "SandboxError":
                    return self._read(answer)
                failure = f"SandboxError: {answer.message!r:.300}"
            except ValidationError as error:
                wrong = error.errors()[0]
                where = ".".join(map(str, wrong["loc"])) or "the whole"
                raise SandboxError(f"{self.url} answered what makes no sense; {where}: {wrong['msg']}") from error
            except urllib.error.HTTPError as error:
                failure = f"status {error.code}: {error.read(300).decode('utf-8', 'replace')}"
                if not is_transient(error.code):
                    raise SandboxError(f"{self.url} refused a run: {failure}") from error
                wait = retry_after({name.lower(): value for name, value in error.headers.items()})
            except (OSError, http.client.HTTPException) as error:
                failure = f"{type(error).__name__}: {error}"
            if attempt < ATTEMPTS:
                time.sleep(backoff(attempt) if wait is None else wait)
        raise SandboxError(f"{self.url} did not run a program in {ATTEMPTS} attempts; the last: {failure}")

    def _read(self, answer: RunAnswer) -> ProgramResult:
        """Return an answer as how the run ended. Raises SandboxError for one that does not say it."""
        result = answer.run_result
        if result is None or (result.return_code is None and result.status != "TimeLimitExceeded"):
            raise SandboxError(f"{self.url} answered {answer!r:.300}; expected a `run_result` with a `return_code`")
        status, code = STATUSES[result.status], result.return_code or 0
        if status == "finished" and code:
            status = "killed" if code < 0 else "failed"
        return ProgramResult(
            status, code, result.stdout or "", (result.stderr or "")[-4000:], result.execution_time or 0.0
        )
