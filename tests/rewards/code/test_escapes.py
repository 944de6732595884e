import os
import resource
import socket
import sys
import time
from pathlib import Path

import pytest

from rlcore_sandbox.inside import supervisor, walls
from rlcore_sandbox.protocol import SandboxLimits
from tests.rewards.code.attempts import FORGED, RIGHT, ROW
from tests.rewards.code.kernel_attempts import RARE, REACHES
from tests.rewards.code.system_attempts import LEAVES, MARK, PORT, SLOW
from tests.rewards.code.value_attempts import MESSAGES, USES, VALUES

# The same task in every layout whose tests call a function.
ROWS = (
    ROW,
    {"test_list": ["assert double(21) == 42", "assert double('ab') == 'abab'"]},
    {"fn_name": "double", "inputs": [[21], ["ab"]], "outputs": [42, "abab"]},
)

# A second of processor time and more each; others like them take less.
COSTLY = {
    *("a regular expression without end", "answers with what takes its reader forever", "looks for the tests in files"),
    *("ten million items", "as much as is allowed", "an exception without end", "takes all memory bit by bit"),
    *("memory mapped, shared", "a power without end", "exceptions that never end", "threads that stay busy"),
}


def named(*tables):
    """The names of attempts, those that are costly or rare marked as slow."""
    names = [name for table in tables for name in table]
    return [pytest.param(name, marks=pytest.mark.slow) if name in COSTLY | RARE else name for name in names]


# Every process sees its own /tmp; these are the trainer's.
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/", str(Path(os.__file__).parent), str(Path.cwd()))


def descendants(process):
    """Every process below one, by its id."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - looked at hundreds of times
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # noqa: PTH123
                parents[int(name)] = int(file.read().rpartition(b")")[2].split(None, 2)[1])
        except OSError:
            continue
    found = {process}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {process}
        found |= more


def leaves_nothing(sandbox):
    """Whether only the warm interpreter is there, no marked file, and nobody at the port."""
    deadline = time.monotonic() + 10
    while len(descendants(sandbox._process.pid)) > 1:
        assert time.monotonic() < deadline, "a process is still there"
        time.sleep(0.02)
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", PORT)) != 0
    return not [one for folder in FOLDERS for one in Path(folder).glob(f"{MARK}*")]


@pytest.mark.parametrize("name", named(FORGED, LEAVES))
def test_an_attempt_scores_nothing_stays_nowhere_and_leaves_the_next_sample_right(grade, sandbox, name):
    assert grade(cpu_seconds=2, seconds=8.0)({**FORGED, **LEAVES}[name], **ROW)["score"] == 0.0
    assert grade()(RIGHT, **ROW)["score"] == 1.0
    assert leaves_nothing(sandbox)


@pytest.mark.parametrize("name", named(SLOW))
def test_an_attempt_that_ends_at_its_time_does_so_too(grade, sandbox, name):
    assert grade(cpu_seconds=1, seconds=2.0)(SLOW[name], **ROW)["score"] == 0.0
    assert grade()(RIGHT, **ROW)["score"] == 1.0
    assert leaves_nothing(sandbox)


@pytest.mark.parametrize("name", named(REACHES))
def test_what_it_reaches_for_it_does_not_get(grade, sandbox, name):
    assert grade(cpu_seconds=2, seconds=8.0)(REACHES[name], **ROW)["score"] == 0.0
    assert leaves_nothing(sandbox)
    assert grade()(RIGHT, **ROW)["score"] == 1.0


@pytest.mark.parametrize("name", named(VALUES, MESSAGES))
def test_what_is_no_right_value_is_none_in_any_layout(grade, sandbox, name):
    code = {**VALUES, **MESSAGES}[name]
    assert [grade(cpu_seconds=1, seconds=3.0)(code, **row)["score"] for row in ROWS] == [0.0] * 3
    assert grade()(RIGHT, **ROWS[-1])["score"] == 1.0
    assert leaves_nothing(sandbox)


@pytest.mark.parametrize("name", named(USES))
def test_what_a_solution_uses_up_is_its_own(grade, sandbox, name):
    held, memory = len(list(Path("/proc/self/fd").iterdir())), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert grade(cpu_seconds=1, seconds=2.0)(USES[name], **ROW)["score"] == 0.0
    assert grade()(RIGHT, **ROW)["score"] == 1.0
    assert leaves_nothing(sandbox)
    assert len(list(Path("/proc/self/fd").iterdir())) == held
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200 << 10


def test_a_module_that_tests_use_is_never_the_solutions(grade):
    code = "class math:\n    isclose = floor = staticmethod(lambda *a, **k: True)\ndef f(x): return None\n"
    row = {"test_list": ["assert math.isclose(f(2), 4)"], "test_setup_code": ""}
    assert grade()(code, **row)["score"] == 0.0
    assert grade()("def f(x): return 2 * x", **row)["score"] == 1.0


def test_the_packages_of_every_python_in_the_same_folder_are_hidden(tmp_path, monkeypatch):
    folders = [tmp_path / f"python3.{minor}" / "site-packages" for minor in (9, 12)]
    for folder in folders:
        folder.mkdir(parents=True)
    monkeypatch.setattr(os, "__file__", str(tmp_path / "python3.12" / "os.py"))
    assert set(map(str, folders)) <= set(walls.hidden_folders([]))
    assert str(folders[1]) not in walls.hidden_folders([str(folders[1])])


def test_the_folder_of_a_run_goes_however_deep_it_is(tmp_path):
    folder, before = tmp_path / "run", Path.cwd()
    folder.mkdir()
    try:
        os.chdir(folder)
        for _ in range(sys.getrecursionlimit() + 100):
            Path("d").mkdir()
            Path("file").touch()
            os.chdir("d")
    finally:
        os.chdir(before)
    (folder / "d" / "d").chmod(0)
    supervisor.remove(str(folder))
    assert not folder.exists()


def test_an_exception_that_ends_loops_does_not_end_those_of_a_test(grade):
    row = {"test_list": ["assert all(map(f, [1, 2]))"]}
    assert grade()("def f(x): raise StopIteration", **row)["score"] == 0.0
    assert grade()("def f(x): return x", **row)["score"] == 1.0


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import sys\nprint(42)\nsys.exit(1)",
        "print(42)\nraise ValueError",
        "import os, signal\nprint(42, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
        "import sys\nprint(42, file=sys.stderr)",
        pytest.param("while True: print(42)", marks=pytest.mark.slow),
        "import json\nprint(json.dumps({'stdout': '42', 'code': 0}))",
        "print(open('/proc/self/fd/1').read() or 42)",
        "print(input())",
        "print(*range(100))",
        "for n in range(100): print(n)",
        "import os\nos.write(0, b'42')\nos.dup2(0, 1)",
        "import os\nos.lseek(1, 1 << 22, 0)\nos.write(1, b'42')",
        "import os\nos.ftruncate(1, 1 << 30)\nprint(42)",
        "import os\nos.close(1)\nprint(42)",
        pytest.param("import os\nprint(42, flush=True)\nos.kill(os.getpid(), 19)", marks=pytest.mark.slow),
        "import atexit, os\nprint(42, flush=True)\natexit.register(lambda: os._exit(1))",
        pytest.param(
            "import signal\nsignal.signal(signal.SIGXCPU, lambda *a: None)\nwhile True: pass", marks=pytest.mark.slow
        ),
        "import sys\nwhile True: sys.stdout.write('x' * 65536), sys.stderr.write('x' * 65536)",
    ],
)
def test_a_program_is_judged_by_its_output_and_its_end(grade, sandbox, code):
    row = {"inputs": ["21"], "outputs": ["42"]}
    assert grade(cpu_seconds=1, seconds=4.0)(code, **row)["score"] == 0.0
    assert grade()("print(2 * int(input()))", **row)["score"] == 1.0
    assert leaves_nothing(sandbox)


def test_a_run_sees_a_tmp_of_its_own(sandbox):
    before, name = set(Path("/tmp").iterdir()), socket.gethostname()
    code = f"import os, socket\nopen('/tmp/{MARK}', 'w').close()\nprint(os.listdir('/tmp'), socket.gethostname())"
    ran = sandbox.run(code, limits=SandboxLimits())
    assert ran.stdout.startswith(f"['{MARK}']")
    assert sandbox.run("import os\nprint(os.listdir('/tmp'))", limits=SandboxLimits()).stdout == "[]\n"
    assert socket.gethostname() == name
    assert not {one for one in set(Path("/tmp").iterdir()) - before if one.name.startswith((MARK, "rlcore-solution-"))}
