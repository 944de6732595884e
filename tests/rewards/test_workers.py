import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlcore.errors import ConfigError, RewardError
from rlcore_workers import Stopped, Workers

FACTOR = 3


@pytest.fixture(scope="module")
def workers():
    made = Workers(processes=2, seconds=1, memory_bytes=200 << 20)
    yield made
    made.close()


def tripled(number):
    return FACTOR * number


def halved(number):
    return tripled(number) / 6


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=5.0):
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def stopped_by(workers, function, *args):
    with pytest.raises(Stopped) as caught:
        workers.call(function, *args)
    return caught.value.limit


def test_a_call_gives_what_the_function_returns_in_another_process(workers):
    assert workers.call(os.getpid) not in (os.getpid(), workers._dispatcher.server.process.pid)
    assert workers.call(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}

    async def later(number):
        await asyncio.sleep(0)
        return number

    assert workers.call(later, 5) == 5


def test_functions_of_a_file_that_no_path_leads_to_travel_with_what_they_call(workers):
    assert workers.map(halved, range(20)) == [number / 2 for number in range(20)]


def test_an_exception_comes_back_with_the_line_that_raised_it(workers):
    def fragile(number):
        return 1 / number

    assert workers.call(fragile, 2) == 0.5
    with pytest.raises(ZeroDivisionError) as caught:
        workers.call(fragile, 0)
    assert "return 1 / number" in str(caught.value.__cause__)
    assert "fork_server.py" not in str(caught.value.__cause__)
    results = workers.map(fragile, [1, 0, 4])
    assert (results[0], type(results[1]), results[2]) == (1.0, ZeroDivisionError, 0.25)


def test_what_cannot_come_back_says_so(workers):
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one}{two}")

    def odd():
        raise Odd("a", "b")

    with pytest.raises(RewardError, match="Odd: ab"):
        workers.call(odd)
    with pytest.raises(TypeError, match="generator"):
        workers.call(lambda: (number for number in range(3)))
    with pytest.raises(RewardError, match="SystemExit: 3"):
        workers.call(sys.exit, 3)
    with pytest.raises(TypeError, match="lock"):
        workers.call(tripled, threading.Lock())
    assert workers.call(tripled, 1) == 3


def spin():
    while True:
        pass


def backtrack():
    return re.match(r"(a+)+b", "a" * 60)


def fill():
    return len(bytearray(1 << 30))


@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (lambda: time.sleep(60), "time"),
        (lambda: signal.sigwait({signal.SIGUSR1}), "time"),
        (backtrack, "time"),
        (fill, "memory"),
        (lambda: os._exit(0), "died"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "died"),
    ],
)
def test_what_goes_past_a_limit_is_stopped_and_the_next_call_works(workers, function, limit):
    before = time.monotonic()
    assert stopped_by(workers, function) == limit
    assert time.monotonic() - before < 5
    assert workers.call(tripled, 2) == 6


def test_cpu_time_has_a_limit_of_its_own():
    workers = Workers(seconds=60, cpu_seconds=0.2)
    assert stopped_by(workers, spin) == "cpu"
    assert workers.map(lambda _: sum(range(300_000)), range(60)) == [44999850000] * 60  # each call has its own
    workers.call(time.sleep, 0.3)  # and waiting costs none
    workers.close()


def test_limits_hold_for_each_of_many_calls_and_results_keep_their_order(workers):
    def mixed(number):
        if number == 3:
            time.sleep(60)
        if number == 5:
            os.abort()
        if number == 6:
            raise KeyError(number)
        time.sleep(0.05)  # all of them take longer than the limit of one
        return number

    results = workers.map(mixed, range(48))
    assert [n for n, one in enumerate(results) if one == n] == [n for n in range(48) if n not in (3, 5, 6)]
    assert (results[3].limit, results[5].limit, type(results[6])) == ("time", "died", KeyError)


def test_a_stopped_call_takes_what_it_started_with_it(workers, tmp_path):
    def starting(file):
        child = subprocess.Popen(["sleep", "60"])
        Path(file).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(60)

    assert stopped_by(workers, starting, str(tmp_path / "pids")) == "time"
    assert gone(map(int, (tmp_path / "pids").read_text().split()))


def test_memory_counts_from_what_the_function_needs_for_itself_and_no_history_decides():
    ballast = "x" * 500_000

    def leaking(number, kept=[]):  # noqa: B006
        kept.append(bytearray(30 << 20))
        return number + len(ballast)

    workers = Workers(processes=1, seconds=10, memory_bytes=100 << 20)
    assert workers.map(leaking, range(12)) == [number + 500_000 for number in range(12)]
    workers.close()


def test_an_alarm_that_a_function_forgot_does_not_hit_the_next(workers):
    def forgetful():
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    assert workers.map(lambda _: forgetful() or time.sleep(0.01), range(4)) == [None] * 4
    time.sleep(0.15)
    assert workers.call(tripled, 1) == 3


def test_what_a_function_prints_goes_to_standard_error(capfd):
    workers = Workers(seconds=10)
    assert workers.call(lambda: print("said") or sys.stdin.read()) == ""
    workers.close()
    out, err = capfd.readouterr()
    assert (out, "said" in err) == ("", True)


def test_close_leaves_no_process_and_what_was_under_way_fails():
    workers = Workers(processes=2, seconds=None)
    pids = {*workers.map(lambda _: time.sleep(0.05) or os.getpid(), range(4)), workers._dispatcher.server.process.pid}
    assert len(pids) == 3
    running = workers.submit(time.sleep, 60)
    time.sleep(0.05)
    workers.close()
    with pytest.raises(Stopped, match="not finished when its workers were closed"):
        running.result(timeout=1)
    assert gone(pids, 0.5)
    assert workers.call(tripled, 2) == 6  # it can be used again
    server = workers._dispatcher.server.process
    del workers
    assert server.poll() is not None


def test_a_worker_or_fork_server_that_somebody_kills_is_replaced():
    workers = Workers(processes=1, seconds=10)
    for victim in (lambda: workers.call(os.getpid), lambda: workers._dispatcher.server.process.pid):
        before = workers.call(os.getpid)
        os.kill(victim(), signal.SIGKILL)
        assert gone([before])
        time.sleep(0.05)
        assert workers.call(os.getpid) != before
    workers.close()


def test_nothing_is_left_of_an_owner_that_is_killed():
    code = """
import os, subprocess, time
from rlcore_workers import Workers
workers = Workers(processes=2, seconds=None)
def busy(which):
    child = subprocess.Popen(["sleep", "60"])
    apart = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print(os.getpid(), os.getppid(), child.pid, apart.pid, flush=True)
    time.sleep(60)
workers.map(busy, range(2))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    pids = {int(pid) for _ in range(2) for pid in process.stderr.readline().split()}
    assert len(pids) == 7
    process.kill()
    process.wait()
    assert gone(pids)
    process.stderr.close()


def test_any_thread_and_any_loop_may_call(workers):
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: workers.call(tripled, number), range(40))) == list(range(0, 120, 3))

    async def notebook():
        futures = [asyncio.wrap_future(workers.submit(tripled, number)) for number in range(8)]
        return await asyncio.gather(*futures, asyncio.to_thread(workers.call, tripled, 8))

    assert asyncio.run(notebook()) == list(range(0, 27, 3))


def test_a_fork_of_the_owner_has_workers_of_its_own(workers):
    before = workers.call(os.getppid)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(workers.call(os.getppid)).encode())
        workers.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert int(os.read(read, 100)) != before
    assert workers.call(os.getppid) == before


def test_a_function_that_cannot_travel_is_named_with_what_holds_it_back(workers):
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"guarded cannot be sent to a worker process: TypeError.*it holds 'lock'"):

        def guarded(number):
            with lock:
                return number

        workers.call(guarded, 1)

    class Unloadable:
        def __reduce__(self):
            return int, ("no number",)

        def __call__(self):
            return 1

    class Deadly(Unloadable):
        def __reduce__(self):
            return os._exit, (3,)

    with pytest.raises(ConfigError, match=r"Deadly cannot be loaded .*ends the process \(exit status 3\)"):
        workers.call(Deadly())
    with pytest.raises(ConfigError, match="Unloadable cannot be loaded in a worker process: ValueError"):
        workers.call(Unloadable())
    assert [type(one) for one in workers.map(Unloadable(), [1, 2])] == [ConfigError] * 2
    with pytest.raises(ConfigError, match="cannot be loaded"):
        workers.prepare(Unloadable())
    workers.prepare(tripled)


def test_modules_are_loaded_once_before_the_first_fork():
    workers = Workers(seconds=10, preload=("colorsys",))
    assert workers.call(lambda: "colorsys" in sys.modules)
    assert not workers.call(lambda: "torch" in sys.modules or "rlcore" in sys.modules)
    workers.close()
    missing = Workers(seconds=10, preload=("no_such_module",))
    with pytest.raises(
        ConfigError, match="worker processes cannot start: ModuleNotFoundError: No module named 'no_such_module'"
    ):
        missing.call(tripled, 1)


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": 1, "processes": 0}, {"seconds": float("inf")}])
def test_limits_that_are_none_are_refused(options):
    with pytest.raises(ConfigError, match="allowed"):
        Workers(**options)


def test_many_functions_do_not_fill_a_worker():
    workers = Workers(processes=1, seconds=10)
    pids = {workers.call(lambda number=number: (os.getpid(), number)[0]) for number in range(70)}
    assert len(pids) == 70
    assert len(workers._functions) == 64
    workers.close()


def test_a_round_trip_costs_little():
    workers = Workers(processes=2, seconds=10)
    workers.map(tripled, range(50))
    before = time.process_time()
    workers.map(tripled, range(200))
    assert time.process_time() - before < 5 * 200 * 0.0002
    workers.close()
