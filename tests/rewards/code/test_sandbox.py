import contextlib
import ctypes
import json
import os
import pickle
import platform
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlcore.errors import ConfigError
from rlcore_sandbox.inside import LAYERS, kernel, seccomp, walls
from rlcore_sandbox.local import Sandbox
from rlcore_sandbox.protocol import SandboxError, SandboxLimits, Suite, UnusableTestsError
from tests.rewards.code.test_escapes import descendants

LIMITS = SandboxLimits(seconds=8.0, cpu_seconds=2)


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "stdout"),
    [
        ("print(input()[::-1])", "finished", 0, "olleh\n"),
        ("import sys\nprint(sys.stdin.read(), end='')\nsys.exit(3)", "failed", 3, "hello\nthere\n"),
        ("import sys\nprint(len(sys.stdin.buffer.readlines()))", "finished", 0, "2\n"),
        ("if __name__ == '__main__': print(__name__)", "finished", 0, "__main__\n"),
        ("print(1)\nexit()\nprint(2)", "finished", 0, "1\n"),
        ("print(1)\nquit(3)", "failed", 3, "1\n"),
        ("print(__file__)\nexit('no')", "failed", 1, "solution.py\n"),
        ("def f(:", "failed", 1, ""),
        ("print(1)\0", "failed", 1, ""),
        ("print('\ud800')", "failed", 1, ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", "killed", -15, ""),
        ("import time\nprint(1, flush=True)\ntime.sleep(100)", "time", -9, "1\n"),
        ("import threading\nthreading.Thread(target=lambda: print(5)).start()", "finished", 0, "5\n"),
        ("import atexit\natexit.register(print, 6)", "finished", 0, "6\n"),
        ("import asyncio\nasync def f(): return 7\nprint(asyncio.run(f()))", "finished", 0, "7\n"),
    ],
)
def test_a_program_runs_as_python_runs_one(sandbox, code, status, exit_code, stdout):
    limits = SandboxLimits(seconds=2.0) if status == "time" else LIMITS
    ran = sandbox.run(code, "hello\nthere\n", limits=limits)
    assert (ran.status, ran.code, ran.stdout) == (status, exit_code, stdout)


def test_every_limit_holds(sandbox):
    code = "import threading\nfor _ in range(100): threading.Thread(target=threading.Event().wait, daemon=True).start()"
    ran = sandbox.run(code, limits=SandboxLimits(tasks=20, seconds=8.0))
    assert ran.status != "finished"
    assert "can't start new thread" in ran.stderr
    waiting = code.replace("100", "50") + "\nprint(threading.active_count())"
    assert sandbox.run(waiting, limits=LIMITS).stdout == "51\n"
    ran = sandbox.run("x = bytes(200 << 20)", limits=SandboxLimits(memory_mib=100))
    assert (ran.status, "MemoryError" in ran.stderr) == ("failed", True)
    ran = sandbox.run("print('a' * (3 << 20))", limits=SandboxLimits(output_mib=1))
    assert (ran.status, len(ran.stdout)) == ("failed", 1 << 20)
    ran = sandbox.run("open('/tmp/a', 'wb').write(bytes(3 << 20))", limits=SandboxLimits(tmp_mib=2))
    assert "No space left" in ran.stderr
    ran = sandbox.run("f = [open('/dev/null') for _ in range(100)]", limits=LIMITS)
    assert "Too many open files" in ran.stderr
    ran = sandbox.run("while True: pass", limits=SandboxLimits(cpu_seconds=1))
    assert ran.status == "cpu"
    assert 0.5 < ran.cpu_seconds < 5


def test_what_a_run_tells_of_itself(sandbox):
    ran = sandbox.run("x = bytearray(b'1' * (50 << 20))\nraise ValueError('said')", limits=LIMITS)
    assert 50 << 20 < ran.memory_bytes < 300 << 20
    assert ran.stderr.endswith("ValueError: said\n")


def test_tests_see_functions_classes_and_objects_of_the_solution(sandbox):
    code = """
import datetime
from collections import deque
from enum import Enum
class Node:
    def __init__(self, value): self.value, self.next = value, None
    def __str__(self): return f"<{self.value}>"
def chain(node): return [node.value] + (chain(node.next) if node.next else [])
def grow(items): items.append(len(items)); items.sort(reverse=True)
def count(n): yield from range(n)
def fail(): raise KeyError("x")
def mine():
    class Mine(ValueError): pass
    raise Mine("m")
class Colour(Enum): RED = 1
def pick(): return Colour.RED
class Sum(Node):
    def __add__(self, other): return Sum(self.value + getattr(other, "value", other))
    def __eq__(self, other): return self.value == getattr(other, "value", other)
    def __lt__(self, other): return self.value < other.value
def late(day): return day + datetime.timedelta(days=1)
def turn(items): return deque(reversed(items))
"""
    tests = [
        "first = Node(1); first.next = Node(2); assert chain(first) == [1, 2] and first.next.value == 2",
        "assert str(Node(3)) == '<3>'",
        "x = [5, 7]; grow(x); assert x == [7, 5, 2]",
        "assert list(count(3)) == [0, 1, 2]",
        "try:\n    fail()\n    assert False\nexcept KeyError: pass",
        "try:\n    mine()\n    assert False\nexcept ValueError: pass",
        "assert Node(1) != Node(1)",
        "items = count(2); assert next(items) == 0 and next(items) == 1 and next(items, None) is None",
        "assert Colour.RED == Colour.RED and pick() is Colour.RED and isinstance(pick(), Colour)",
        "assert (Sum(1) + Sum(2)).value == 3 and Sum(1) == Sum(1) and Sum(1) < Sum(2) and not isinstance(1, Sum)",
        "try:\n    fail()\nexcept KeyError as error: assert error.args == ('x',)",
        "assert late(datetime.date(2024, 2, 28)) == datetime.date(2024, 2, 29)",
        "assert turn(deque([1, 2])) == deque([2, 1]) and Node([1, 2, 3]).value[1:] == [2, 3]",
        "assert Node(1) == 1",
        "assert Sum(1) + 1 == 2",
    ]
    names = ["Node", "chain", "grow", "count", "fail", "mine", "Colour", "pick", "Sum", "late", "turn"]
    before = "import datetime\nfrom collections import deque"
    failures = sandbox.check(code, Suite(tests, names, before), limits=LIMITS).failures
    assert [bool(failure) for failure in failures] == [False] * 13 + [True] * 2


def test_tests_that_pass_a_function_to_the_solution_are_unusable_not_failed(sandbox):
    with pytest.raises(UnusableTestsError, match="function"):
        sandbox.check("def f(g): return g()", Suite(["assert f(lambda: 1) == 1"], ["f"]), limits=LIMITS)


def test_what_a_solution_gets_back_and_cannot_be_sent_counts_against_it(sandbox):
    code = "def f(x):\n    inner = []\n    for _ in range(400): inner = [inner]\n    return inner"
    suite = Suite(["x = f(1)\nfor _ in range(600): x = [x]\nf(x)"], ["f"])
    assert sandbox.check(code, suite, limits=LIMITS).failures != ("",)


def test_tests_that_need_a_package_which_is_not_there_are_unusable_not_failed(sandbox):
    with pytest.raises(UnusableTestsError, match="site_packages"):
        sandbox.check("f = abs", Suite(["assert f(1)"], ["f"], "import numpy"), limits=LIMITS)
    lying = "def f(): raise ModuleNotFoundError('x')"
    assert sandbox.check(lying, Suite(["1"], ["f"], "f()"), limits=LIMITS).failures != ("",)


def test_tests_that_never_end_are_ended(sandbox, monkeypatch):
    monkeypatch.setattr("rlcore_sandbox.local.GRACE", 0.5)
    checked = sandbox.check(
        "def f(): pass", Suite(["import time\ntime.sleep(60)"], ["f"]), limits=SandboxLimits(seconds=0.5)
    )
    assert checked.failures != ("",)


def test_runs_of_many_threads_keep_to_themselves(sandbox):
    def one(number):
        return sandbox.run(f"open('/tmp/x', 'x').write('1')\nprint({number})", limits=LIMITS).stdout

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(32))) == [f"{number}\n" for number in range(32)]


def test_a_sandbox_goes_over_pickle_and_closes_and_starts_again(sandbox):
    made = pickle.loads(pickle.dumps(sandbox))
    assert made.run("print(1)", limits=LIMITS).stdout == "1\n"
    made.close()
    assert made.run("print(2)", limits=LIMITS).stdout == "2\n"
    process = made._process
    kill_below(process)
    process.wait(10)
    assert made.run("print(3)", limits=LIMITS).stdout == "3\n"
    made.close()
    assert made._process is None


def test_a_sandbox_that_dies_under_a_run_is_an_error_and_not_a_zero(sandbox):
    made = pickle.loads(pickle.dumps(sandbox))
    made.start()

    def end():
        while len(descendants(made._process.pid)) < 3:
            time.sleep(0.01)
        kill_below(made._process)

    threading.Thread(target=end).start()
    with pytest.raises(SandboxError):
        made.run("import time\ntime.sleep(30)", limits=SandboxLimits(seconds=30.0))
    made.close()


def kill_below(process):
    for child in descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):  # the first takes the others with it
            os.kill(child, signal.SIGKILL)


def in_child(function):
    """What a function returns in a child of this process."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = function()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writable, json.dumps(told).encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told)


def test_everything_ends_with_a_trainer_that_is_killed(sandbox):
    readable, writable = os.pipe()
    trainer = os.fork()
    if trainer == 0:
        made = Sandbox()
        made.start()
        os.write(writable, str(made._process.pid).encode())
        made.run("import time\ntime.sleep(60)", limits=SandboxLimits(seconds=60.0))
        os._exit(0)
    interpreter = int(os.read(readable, 100))
    os.close(readable)
    os.close(writable)
    deadline = time.monotonic() + 60
    while len(descendants(interpreter)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    below = descendants(interpreter) | {interpreter}
    os.kill(trainer, signal.SIGKILL)
    os.waitpid(trainer, 0)
    assert len(below) >= 4
    while any(alive(one) for one in below):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_trainers_child_gets_an_interpreter_of_its_own(sandbox):
    made = pickle.loads(pickle.dumps(sandbox))
    made.start()

    def run():
        ran = made.run("print('child')", limits=LIMITS)
        made.close()
        return ran.stdout

    assert in_child(run) == "child\n"
    assert made.run("print('parent')", limits=LIMITS).stdout == "parent\n"
    made.close()


def test_installed_packages_are_seen_only_if_asked_for(sandbox):
    code = "import pluggy\nprint(pluggy.__name__)"
    assert "ModuleNotFoundError" in sandbox.run(code, limits=LIMITS).stderr
    made = Sandbox(site_packages=True, preload=["numpy"])
    assert made.run(code, limits=LIMITS).stdout == "pluggy\n"
    suite = Suite(["assert f([1.0, 2.0]) == 1.5", "assert f(np.array([3])) == 3"], ["f"], "import numpy as np")
    with pytest.raises(UnusableTestsError, match="ndarray"):
        made.check("import numpy as np\ndef f(x): return np.mean(x)", suite, limits=LIMITS)
    suite = Suite(suite.tests[:1], suite.names, suite.before)
    assert made.check("import numpy as np\ndef f(x): return np.mean(x)", suite, limits=LIMITS).failures == ("",)
    made.close()


def test_packages_that_are_installed_below_tmp_are_seen_and_stay_as_they_are(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "lying_there.py").write_text("answer = 42")
        paths = {"purelib": folder, "platlib": folder}
        monkeypatch.setattr("sysconfig.get_path", lambda name, *rest: paths[name])
        made = Sandbox(site_packages=True)
        code = "import lying_there, os\nprint(lying_there.answer)\nopen('/tmp/mine', 'w').write('x')\nos.chdir('/tmp')"
        assert made.run(code, limits=LIMITS).stdout == "42\n"
        spoil = f"open({folder!r} + '/lying_there.py', 'w').write('answer = 0')"
        assert "Read-only file system" in made.run(spoil, limits=LIMITS).stderr
        made.close()
        assert Path(folder, "lying_there.py").read_text() == "answer = 42"


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match=r"'netwrk'.*Did you mean 'network'"):
        Sandbox(accept_missing=["netwrk"])
    with pytest.raises(ConfigError, match="concurrency=0"):
        Sandbox(concurrency=0)


def as_user(number, *, namespaces):
    """Become a user of a namespace: with every privilege in it (0), or with none once a program is executed."""
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{number} {user} 1"), ("gid_map", f"{number} {group} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    if not namespaces:
        Path("/proc/sys/user/max_user_namespaces").write_text("0")


@pytest.mark.parametrize("privileged", [True, False])
def test_a_layer_that_is_missing_is_named_with_the_option_that_accepts_it(sandbox, privileged):
    missing = ["user"] if privileged else ["user", "mount", "pid", "network", "ipc", "uts"]
    code = "import os\nopen('x', 'w').close()\nprint(input())\nos.fork()"

    def try_both():
        as_user(0 if privileged else 1000, namespaces=False)
        try:
            Sandbox(accept_missing=missing[1:]).start()
            refused = ""
        except SandboxError as error:
            refused = str(error)
        made = Sandbox(accept_missing=missing)
        ran = made.run(code, "5", limits=SandboxLimits())
        suite = Suite(["assert f(1) == 1", "assert f(1) == 2"], ["f"])
        failures = made.check("def f(x): return x", suite, limits=SandboxLimits()).failures
        return refused, ran.stdout, ran.stderr, sorted(made.missing), failures

    refused, stdout, stderr, lacking, failures = in_child(try_both)
    assert "layer 'user' is missing" in refused
    assert f"accept_missing={tuple(missing[1:] + missing[:1])!r}" in refused
    assert (stdout, lacking, failures) == ("5\n", sorted(missing), ["", "AssertionError: "])
    assert "Operation not permitted" in stderr
    assert not list(Path("/tmp").glob("rlcore-solution-*"))


def test_it_works_without_any_privilege_of_its_own(sandbox):
    def run():
        as_user(1000, namespaces=True)
        made = Sandbox()
        ran = made.run("import os\nprint(os.getuid())", limits=SandboxLimits())
        made.close()
        return ran.stdout, made.missing

    assert in_child(run) == ["65534\n", {}]


def test_the_layers_that_can_be_accepted_are_those_that_are_tried(monkeypatch):
    monkeypatch.setattr(kernel, "failure_in_child", lambda function: "not here")
    assert tuple(walls.missing_layers([])) == LAYERS


def test_the_interpreter_holds_nothing_of_the_trainer(sandbox, monkeypatch):
    monkeypatch.setenv("A_SECRET_TOKEN", "hidden")
    made = Sandbox()
    made.start()
    [interpreter] = descendants(made._process.pid)
    environment = Path(f"/proc/{interpreter}/environ").read_bytes()
    assert b"A_SECRET_TOKEN" not in environment
    descriptors = [str(one.readlink()) for one in Path(f"/proc/{interpreter}/fd").iterdir()]
    assert not [one for one in descriptors if one.startswith("/") and one != "/dev/null" and "(deleted)" not in one]
    assert platform.machine() in seccomp.ARCHITECTURE
    assert ctypes.sizeof(seccomp.Filter) == 16
    made.close()
