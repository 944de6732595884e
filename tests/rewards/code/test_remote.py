import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rlcore_sandbox.protocol import Runner, SandboxError, SandboxLimits, Suite
from rlcore_sandbox.reward import PythonCode
from rlcore_sandbox.service import SandboxService
from tests.rewards.code.attempts import FORGED, RIGHT, ROW

LIMITS = SandboxLimits(seconds=8.0)
FINE = {"status": "Finished", "return_code": 0, "stdout": "1\n", "stderr": "", "execution_time": 0.1}


def really_run(asked):
    """What the service does: run a file of Python, without any walls."""
    assert asked["language"] == "python"
    try:
        command = [sys.executable, "-I", "-c", asked["code"]]
        done = subprocess.run(
            command, input=asked["stdin"], capture_output=True, text=True, timeout=asked["run_timeout"]
        )
    except subprocess.TimeoutExpired:
        return {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "return_code": None}}
    result = {**FINE, "return_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    return {"status": "Failed" if done.returncode else "Success", "message": "", "run_result": result}


@pytest.fixture
def service():
    """A service that answers with what is listed first (status, headers, body), then by really running."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append((self.path, asked))
            status, headers, body = server.answers.pop(0) if server.answers else (200, {}, really_run(asked))
            if status is None:
                return  # closed without an answer
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_programs_calls_and_tests_run_on_a_service(service):
    runner = SandboxService(service.url)
    assert isinstance(runner, Runner)
    ran = runner.run("print(int(input()) + 1)", "1", limits=LIMITS)
    assert (ran.status, ran.stdout) == ("finished", "2\n")
    assert runner.run("1/0", limits=LIMITS).status == "failed"
    assert runner.run("import time\ntime.sleep(9)", limits=SandboxLimits(seconds=0.5)).status == "time"
    code = "def f(x):\n    print('noise')\n    return {1: (x, x)}"
    cases = [([1], {"1": [1, 1]}), ([[2]], {"1": [[2], [2]]}), ([3], 3)]
    checked = runner.calls(code, "f", cases, limits=LIMITS)
    assert [bool(failure) for failure in checked.failures] == [False, False, True]
    checked = runner.check(code, Suite(["assert f(1) == {1: (1, 1)}", "assert f(1) == 1"], ["f"]), limits=LIMITS)
    assert [bool(failure) for failure in checked.failures] == [False, True]
    assert service.asked[0][0] == "/run_code"


def test_the_solution_never_stands_with_its_tests(service):
    reward = PythonCode(url=service.url)
    assert reward(RIGHT, **ROW)["score"] == 1.0
    [(_, asked)] = service.asked
    assert "candidate(21)" not in asked["code"]
    assert "candidate(21)" in asked["stdin"]


@pytest.mark.parametrize(
    "name",
    [
        "equals everything",
        "sys.exit(0) when it is called",
        "os._exit(0)",
        "prints what a verdict looks like",
        "writes verdicts into every descriptor",
        "replaces modules of the checker",
        "looks for the tests in frames",
        "looks for the tests in its memory",
    ],
)
def test_attempts_score_nothing_there_either(service, name):
    assert PythonCode(url=service.url, cpu_seconds=2)(FORGED[name], **ROW)["score"] == 0.0


def test_a_solution_that_brings_its_judge_down_scores_nothing(service):
    killing = "import os, signal\ndef double(x): os.kill(os.getppid(), signal.SIGKILL)"
    assert PythonCode(url=service.url)(killing, **ROW)["score"] == 0.0


def test_what_may_pass_is_asked_again(service, monkeypatch):
    waits = []
    monkeypatch.setattr("rlcore_sandbox.service.time.sleep", waits.append)
    service.answers = [
        (503, {}, b"busy"),
        (429, {"Retry-After": "7"}, b""),
        (200, {}, {"status": "SandboxError", "message": "no room", "run_result": None}),
    ]
    assert SandboxService(service.url).run("print(5)", limits=LIMITS).stdout == "5\n"
    assert len(service.asked) == 4
    assert waits[1] == 7
    service.answers = [(None, {}, b"")] * 2
    monkeypatch.setattr("rlcore_sandbox.service.ATTEMPTS", 2)
    with pytest.raises(SandboxError, match="in 2 attempts"):
        SandboxService(service.url).run("print(5)", limits=LIMITS)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, {"detail": "no such language"}, "status 400.*no such language"),
        (200, b"<html>", "Invalid JSON"),
        (200, b"", "Invalid JSON"),
        (200, [1], "should be an object"),
        (200, {}, "status: Field required"),
        (200, {"status": "Success"}, "expected a `run_result`"),
        (200, {"status": "Great", "run_result": FINE}, "'Success', 'Failed' or"),
        (200, {"status": "Success", "run_result": {**FINE, "status": "Odd"}}, "'Finished', 'Error' or"),
        (200, {"status": "Success", "run_result": {**FINE, "return_code": None}}, "with a `return_code`"),
        (
            200,
            {"status": "Success", "run_result": {**FINE, "return_code": "0"}},
            "run_result.return_code: .* valid integer",
        ),
        (200, {"status": "Success", "run_result": {**FINE, "stdout": 5}}, "run_result.stdout: .* valid string"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error_at_once(service, status, body, said):
    service.answers = [(status, {}, body)]
    with pytest.raises(SandboxError, match=said):
        SandboxService(service.url).run("print(5)", limits=LIMITS)
    assert len(service.asked) == 1


def test_output_that_a_service_loses_is_an_error_and_not_a_zero(service):
    service.answers = [(200, {}, {"status": "Success", "run_result": FINE})]
    with pytest.raises(SandboxError, match="lost its output"):
        SandboxService(service.url).check("f = abs", Suite(["f(1)"], ["f"]), limits=LIMITS)


def test_a_service_out_of_reach_is_an_error(monkeypatch):
    monkeypatch.setattr("rlcore_sandbox.service.time.sleep", lambda seconds: None)
    with pytest.raises(SandboxError, match="in 4 attempts"):
        SandboxService("http://127.0.0.1:9").run("", limits=LIMITS)
