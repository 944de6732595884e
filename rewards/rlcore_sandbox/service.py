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
from typing import Any

from rlcore.errors import ConfigError
from rlcore_rewards.retry import backoff, is_transient, retry_after
from rlcore_sandbox import inside
from rlcore_sandbox.protocol import ProgramResult, Runner, SandboxError, SandboxLimits, SuiteResult, UnusableTestsError

LARGEST = 1 << 27  # bytes of an answer
STATUSES = {"Finished": "finished", "Error": "failed", "TimeLimitExceeded": "time"}
BESIDE = 2.0  # seconds that judging may take beside the solution's own

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


class SandboxService(Runner):
    """Runs Python solutions on a service.

    How a solution is walled in there is the service's affair. What it is kept from here as well: its tests and their
    verdict are in another process than it, which exchanges plain data with it.

    Args:
        url: where the service is, as in "http://localhost:8080"; `/run_code` is asked for.
        attempts: how often to ask before giving up, where the service is out of reach, busy or fails. Waits double,
            and are as long as `Retry-After` says.
        timeout: seconds to wait for an answer beyond the run's own limit.
    """

    def __init__(self, url: str, *, attempts: int = 4, timeout: float = 30.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"url={url!r}; expected http://HOST or https://HOST of a service")
        if attempts < 1:
            raise ConfigError(f"attempts={attempts}; allowed: 1 or more")
        self.url = url.rstrip("/").removesuffix("/run_code") + "/run_code"
        self.attempts = attempts
        self.timeout = timeout
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
        mark = secrets.token_hex(16)
        program = PROGRAM.format(
            sources=sources(), code=code, seconds=limits.seconds, cpu_seconds=limits.cpu_seconds, largest=1 << 22
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
        failure = ""
        for attempt in range(1, self.attempts + 1):
            wait = None
            try:
                answer = self._post(request, seconds)
                if answer.get("status") != "SandboxError":
                    return self._read(answer)
                failure = f"SandboxError: {answer.get('message')!r:.300}"
            except urllib.error.HTTPError as error:
                failure = f"status {error.code}: {error.read(300).decode('utf-8', 'replace')}"
                if not is_transient(error.code):
                    raise SandboxError(f"{self.url} refused a run: {failure}") from error
                wait = retry_after({name.lower(): value for name, value in error.headers.items()})
            except (OSError, http.client.HTTPException) as error:
                failure = f"{type(error).__name__}: {error}"
            if attempt < self.attempts:
                time.sleep(backoff(attempt) if wait is None else wait)
        raise SandboxError(f"{self.url} did not run a program in {self.attempts} attempts; the last: {failure}")

    def _post(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """Return the answer, a table. Raises OSError where there is none, SandboxError for anything else."""
        data = json.dumps(request).encode()
        sent = urllib.request.Request(self.url, data, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(sent, timeout=seconds + self.timeout) as response:
            body = response.read(LARGEST + 1)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise SandboxError(f"{self.url} answered what is no JSON: {body[:200]!r}") from error
        if not isinstance(answer, dict):
            raise SandboxError(f"{self.url} answered {answer!r:.200}; expected a table with `status` and `run_result`")
        return answer

    def _read(self, answer: Mapping[str, Any]) -> ProgramResult:
        """Return an answer as how the run ended. Raises SandboxError for one that says no such thing."""
        result = answer.get("run_result")
        if answer.get("status") not in ("Success", "Failed") or not isinstance(result, dict):
            raise SandboxError(
                f"{self.url} answered {answer!r:.300}; expected `status` Success or Failed, and `run_result`"
            )
        status, code = STATUSES.get(str(result.get("status"))), result.get("return_code")
        if status is None or not isinstance(code, int | None) or (code is None and status != "time"):
            raise SandboxError(
                f"{self.url} answered the run_result {result!r:.300}; expected `status` and `return_code`"
            )
        if status == "finished" and code:
            status = "killed" if code < 0 else "failed"
        texts = [result.get(name) or "" for name in ("stdout", "stderr")]
        if not all(isinstance(text, str) for text in texts):
            raise SandboxError(f"{self.url} answered the run_result {result!r:.300}; expected text as output")
        used = result.get("execution_time")
        return ProgramResult(
            status, code or 0, texts[0], texts[1][-4000:], float(used) if isinstance(used, int | float) else 0.0
        )


def sources() -> dict[str, str]:
    """Return the text of the modules that a program on a service needs, each after those that it imports."""
    folder = Path(inside.__file__).parent
    names = ("channel", "plain", "solution", "values", "run_tests")
    return {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in names}
