import os
import socket
import time
from pathlib import Path

import pytest

from rlcore_rewards.code import problem_of
from rlcore_rewards.sandbox import Limits
from tests.rewards.code.attempts import FORGED, FORKING, MARK, PORT, RIGHT, ROW, SLOW

# Every process sees its own /tmp; these are the trainer's.
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/", str(Path(os.__file__).parent), str(Path.cwd()))


def descendants(process):
    """Every process below one, by its id."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
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
        time.sleep(0.01)
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", PORT)) != 0
    return not [one for folder in FOLDERS for one in Path(folder).glob(f"{MARK}*")]


@pytest.mark.parametrize("name", FORGED)
def test_an_attempt_scores_nothing_stays_nowhere_and_leaves_the_next_sample_right(grade, sandbox, name):
    assert grade(cpu_seconds=2, seconds=8.0)(FORGED[name], **ROW)["score"] == 0.0
    assert grade()(RIGHT, **ROW)["score"] == 1.0
    assert leaves_nothing(sandbox)


@pytest.mark.parametrize("name", SLOW)
def test_an_attempt_that_ends_at_its_time_does_so_too(grade, sandbox, name):
    assert grade(cpu_seconds=1, seconds=2.0)(SLOW[name], **ROW)["score"] == 0.0
    assert grade()(RIGHT, **ROW)["score"] == 1.0
    assert leaves_nothing(sandbox)


@pytest.mark.parametrize("name", FORKING)
def test_where_a_run_may_fork_its_children_end_with_it(sandbox, name):
    tests = problem_of(ROW).tests
    limits = Limits(fork=True, tasks=16, cpu_seconds=2, seconds=4.0)
    assert sandbox.check(FORKING[name], tests, limits=limits).failures != ("",)
    assert sandbox.check(RIGHT, tests, limits=Limits(fork=True)).failures == ("",)
    assert leaves_nothing(sandbox)


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import sys\nprint(42)\nsys.exit(1)",
        "print(42)\nraise ValueError",
        "import os, signal\nprint(42, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
        "import sys\nprint(42, file=sys.stderr)",
        "while True: print(42)",
        "import json\nprint(json.dumps({'stdout': '42', 'code': 0}))",
        "print(open('/proc/self/fd/1').read() or 42)",
    ],
)
def test_a_program_is_judged_by_its_output_and_its_end(grade, sandbox, code):
    row = {"inputs": ["21"], "outputs": ["42"]}
    assert grade(cpu_seconds=1)(code, **row)["score"] == 0.0
    assert grade()("print(2 * int(input()))", **row)["score"] == 1.0
    assert leaves_nothing(sandbox)


def test_a_run_sees_a_tmp_of_its_own(sandbox):
    before, name = set(Path("/tmp").iterdir()), socket.gethostname()
    code = f"import os, socket\nopen('/tmp/{MARK}', 'w').close()\nprint(os.listdir('/tmp'), socket.gethostname())"
    ran = sandbox.run(code, limits=Limits())
    assert ran.stdout.startswith(f"['{MARK}']")
    assert sandbox.run("import os\nprint(os.listdir('/tmp'))", limits=Limits()).stdout == "[]\n"
    assert socket.gethostname() == name
    assert not {one for one in set(Path("/tmp").iterdir()) - before if one.name.startswith((MARK, "rlcore-solution-"))}
