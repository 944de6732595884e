"""A role in a process of its own: asked, answered, interrupted, killed, hung."""

import asyncio
import os
import re
import signal
import socket
import struct
import threading
import time
from functools import partial

import pytest

from rlcore.errors import ConfigError, RunError
from rlcore.event_loop import wait_for
from rlcore.execute.process import ProcessHandle, RoleError, RoleSpec


class Service:
    """What a test asks of a role; it lives in the other process."""

    def __init__(self, factor=2):
        self.factor, self.calls, self.under_way, self.cancelled = factor, 0, 0, 0

    def times(self, value):
        self.calls += 1
        return self.factor * value

    def fail(self):
        raise KeyError("nothing of that name")

    def fail_oddly(self):
        class Odd(Exception):
            pass

        raise Odd("cannot be pickled by name")

    def hang(self):
        time.sleep(600)

    def pid(self):
        return os.getpid()

    async def wait(self, seconds):
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def cancel_itself(self):
        raise asyncio.CancelledError("of its own")

    def no_pickle(self):
        return threading.Lock()

    def only_there(self):
        return NotThere()

    async def meet(self, count):
        self.under_way += 1
        while self.under_way < count:
            await asyncio.sleep(0.01)


def broken():
    raise ConfigError("this role cannot start")


@pytest.fixture(scope="module")
def handle():
    opened = ProcessHandle(RoleSpec("helper", "trainer", partial(Service, 3), deadline=60), ("calls", "cancelled"))
    yield opened
    opened.close()


def test_it_answers_from_another_process(handle):
    assert handle.ask("times", 4) == 12
    assert handle.ask("pid") == handle.process.pid != os.getpid()
    assert handle.attributes["calls"] == 1


def test_what_it_raises_is_raised_here_and_shows_where(handle):
    with pytest.raises(KeyError, match="nothing of that name") as caught:
        handle.ask("fail")
    assert "in fail" in "".join(caught.value.__notes__)
    with pytest.raises(RuntimeError, match="Odd: cannot be pickled by name"):
        handle.ask("fail_oddly")


def test_coroutines_run_beside_one_another(handle):
    async def together():
        await asyncio.gather(*(handle.ask_async("meet", 64) for _ in range(64)))

    wait_for(together())


def test_a_cancelled_caller_cancels_the_call(handle):
    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle.ask_async("wait", 600), 0.2)
        await asyncio.sleep(0.1)

    wait_for(give_up())
    handle.ask("times", 1)
    assert handle.attributes["cancelled"] == 1


def test_a_start_that_fails_says_why_and_leaves_no_process():
    with pytest.raises(ConfigError, match="this role cannot start"):
        ProcessHandle(RoleSpec("helper", "trainer", broken))


def test_a_spec_that_cannot_be_pickled_names_the_field():
    with pytest.raises(ConfigError, match=r"'helper' .* its 'factor' cannot be pickled .*roles.helper.execution=local"):
        ProcessHandle(RoleSpec("helper", "trainer", partial(Service, factor=threading.Lock())))


def test_a_role_that_dies_is_named_with_what_it_was_doing():
    handle = ProcessHandle(RoleSpec("helper", "trainer", Service))
    pending = handle.call("hang")
    os.kill(handle.process.pid, signal.SIGKILL)
    with pytest.raises(RoleError, match=r"role 'helper' \(process \d+\) died of SIGKILL while it did: hang since"):
        pending.result(30)
    with pytest.raises(RoleError, match="died of SIGKILL"):
        handle.ask("times", 1)
    handle.close()


def test_a_role_that_hangs_past_its_deadline_is_named():
    handle = ProcessHandle(RoleSpec("helper", "trainer", Service, deadline=30))
    object.__setattr__(handle.spec, "deadline", 0.3)
    with pytest.raises(RoleError, match=r"'helper' .* has not answered 'hang' within execution.deadline=0.3 seconds"):
        handle.ask("hang")
    handle.close()
    assert handle.process.returncode is not None


def test_a_dropped_handle_leaves_no_process():
    handle = ProcessHandle(RoleSpec("helper", "trainer", Service))
    process = handle.process
    del handle
    process.wait(30)
    assert process.returncode is not None


def test_what_is_asked_in_one_turn_travels_in_one_message(handle):
    """However many rows there are: one message there, and as many back as the answers' times make."""

    async def all_at_once(count):
        await asyncio.gather(*(handle.ask_async("wait", 0.05) for _ in range(count)))

    before = handle.sent_messages
    wait_for(all_at_once(8))
    after_8 = handle.sent_messages
    wait_for(all_at_once(800))
    assert handle.sent_messages - after_8 == after_8 - before == 1
    assert not handle._pending


def test_a_request_that_cannot_be_pickled_fails_alone(handle):
    async def both():
        return await asyncio.gather(
            handle.ask_async("times", 3), handle.ask_async("times", threading.Lock()), return_exceptions=True
        )

    right, wrong = wait_for(both())
    assert right == 9
    assert isinstance(wrong, TypeError)


def test_asking_a_role_that_has_died_before_is_told_at_once():
    dead = ProcessHandle(RoleSpec("helper", "trainer", partial(Service, 3), deadline=60))
    dead.process.kill()
    dead.process.wait()
    for _ in range(2):
        with pytest.raises(RoleError, match="died of SIGKILL"):
            wait_for(dead.ask_async("wait", 0.0))
    dead.close()


class NotThere:
    """Cannot be made again where it arrives."""

    def __reduce__(self):
        return (os.listdir, ("/no/such/folder",))


def test_what_cannot_be_read_there_is_told_to_whoever_asked(handle):
    async def both():
        return await asyncio.gather(
            handle.ask_async("times", 3), handle.ask_async("times", NotThere()), return_exceptions=True
        )

    assert all(isinstance(each, FileNotFoundError) for each in wait_for(both()))
    assert handle.ask("times", 2) == 6


@pytest.mark.parametrize(
    ("method", "error", "says"),
    [
        ("cancel_itself", RunError, "cancel_itself cancelled itself .*of its own"),
        ("no_such_method", AttributeError, "no_such_method"),
        ("no_pickle", RunError, "answered with a lock, which cannot be pickled"),
        ("only_there", FileNotFoundError, "no/such/folder"),
    ],
)
def test_whatever_goes_wrong_there_is_told_at_once_and_to_whoever_asked(handle, method, error, says):
    """Nothing that a service does leaves its caller, or a neighbour's call, waiting for the deadline."""

    async def beside_a_good_one():
        gathered = asyncio.gather(handle.ask_async(method), handle.ask_async("times", 3), return_exceptions=True)
        return await asyncio.wait_for(gathered, 20)

    wrong, _ = wait_for(beside_a_good_one())
    assert isinstance(wrong, error)
    assert re.search(says, str(wrong))
    assert handle.ask("times", 2) == 6


def test_a_role_that_no_longer_reads_holds_nobody_past_the_deadline():
    handle = ProcessHandle(RoleSpec("helper", "trainer", Service, deadline=60))
    kept = struct.unpack("ll", handle._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16))
    assert kept == (60, 0)
    # The effect, without waiting for a minute.
    handle._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
    os.kill(handle.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(RoleError, match="has not answered 'what was sent to it' within execution.deadline=60"):
            handle.ask("times", b"x" * 50_000_000)
    finally:
        handle.close()
    assert handle.process.returncode is not None


def test_a_signal_to_the_whole_group_ends_no_role(handle):
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(handle.process.pid, number)
    assert handle.ask("times", 2) == 6
