"""The warm interpreter: it seals itself, tells what it lacks, and then forks a supervisor for each run.

It never reads a job: a connection is passed through to the supervisor, so nothing of one run is in the memory that the
next is forked from.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import resource
import select
import signal
import site
import socket
import sys

from . import LAYERS, kernel, seccomp, walls
from .channel import Channel
from .supervisor import supervise

PRELOAD = """
abc array bisect calendar cmath collections collections.abc copy datetime decimal enum fractions functools hashlib
heapq inspect io itertools json math operator queue random re statistics string struct textwrap threading time
typing unicodedata dataclasses
""".split()  # noqa: SIM905 - a list of one name a line would be a page


def main(number: int, settings: str) -> None:
    """Serve runs over the socket `number` until its other end is closed."""
    options = json.loads(settings)
    os.environ.pop("LD_LIBRARY_PATH", None)  # it was for starting alone
    control = socket.socket(fileno=number)
    os.umask(0o022)
    visible = [*walls.default_visible(), *options["visible"]]
    sys.path[1:] = [*sys.path[1:], *options["paths"]]
    del sys.path[0]  # where this package lies
    for module in (*PRELOAD, *options["preload"]):
        importlib.import_module(module)
    site.setquit()  # `exit()` is a builtin of every program, and what adds it was left out when this one started
    site.setcopyright()
    site.sethelper()
    missing = walls.missing_layers(visible)
    control.send(json.dumps(missing).encode())
    if not control.recv(1):  # the other side does not accept what is missing
        return
    layers = set(LAYERS) - set(missing)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), min(1024, hard)))
    walls.enter(layers & set(walls.NAMESPACES), visible)
    child = os.fork()
    if child:  # the first process of the new pid namespace is the child; this one only waits for it
        control.close()
        os.waitpid(child, 0)
        return
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if "seccomp" in layers:
        seccomp.program(platform.machine())
    gc.collect()
    gc.freeze()  # what is here now stays shared with every run
    control.send(b"ready")
    SupervisorServer(control, layers).serve()


class SupervisorServer:
    """Forks supervisors, and ends those that their caller is tired of."""

    def __init__(self, control: socket.socket, layers: set[str]) -> None:
        self.control = control
        self.layers = layers
        self.running: dict[str, int] = {}
        self.own_pids = -1
        self.wake, write_end = os.pipe()
        os.set_blocking(write_end, False)
        os.set_blocking(self.wake, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Take jobs until the other side is gone. What still runs then ends with this process."""
        while True:
            readable, _, _ = select.select([self.control.fileno(), self.wake], [], [])
            if self.wake in readable:
                os.read(self.wake, 4096)
                self.reap()
            if self.control.fileno() not in readable:
                continue
            message, descriptors, _, _ = socket.recv_fds(self.control, 4096, 2)
            if not message:
                return
            name = message[1:].decode()
            if message[:1] == b"r":
                self.start(name, socket.socket(fileno=descriptors[0]))
            elif name in self.running:
                os.kill(self.running[name], signal.SIGKILL)

    def start(self, name: str, connection: socket.socket) -> None:
        """Fork a supervisor that serves a connection."""
        try:
            if "pid" in self.layers:
                self.new_pids()
            process = os.fork()
        except OSError as error:
            fault = {"fault": f"no process for the run: {error}"}
            Channel(connection, 0).send(json.dumps(fault).encode())
            return
        if process == 0:
            try:
                # The first process of a pid namespace gets no signal from inside but those that it handles.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.set_wakeup_fd(-1)
                self.control.close()
                supervise(connection, self.layers)
            finally:
                os._exit(0)
        connection.close()
        self.running[name] = process

    def new_pids(self) -> None:
        """Let the next child begin a pid namespace: only from its own one may a process ask for another."""
        if self.own_pids < 0:
            self.own_pids = os.pidfd_open(os.getpid())
        else:
            kernel.call_libc("setns", self.own_pids, kernel.NEWPID)
        kernel.unshare(kernel.NEWPID)

    def reap(self) -> None:
        """Take note of the supervisors that have ended."""
        ended = set()
        while True:
            try:
                process, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if process == 0:
                break
            ended.add(process)
        self.running = {name: process for name, process in self.running.items() if process not in ended}
