"""What runs in a solution's own process, after every wall is up: as a program, or as functions that are called."""

from __future__ import annotations

import atexit
import builtins
import json
import operator
import socket
import sys
import threading
import traceback
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .channel import Channel
from .plain import NotPlainError, dumps, loads

FILE = "solution.py"
BINARY = ("lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow")
OPERATIONS: dict[str, Callable[..., Any]] = {
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "len": len,
    "iter": iter,
    "next": next,
    "str": str,
    "repr": repr,
    "isinstance": isinstance,
    "eq": operator.eq,
    **{name: getattr(operator, name) for name in BINARY},
}


def module(name: str) -> types.ModuleType:
    """Return a new module under which a solution runs, in place of what stood under that name."""
    made = types.ModuleType(name)
    made.__dict__.update(__builtins__=builtins, __file__=FILE)
    sys.modules[name] = made
    return made


def fresh_streams() -> None:
    """Make standard input and output anew: those of the warm interpreter stood for other files."""
    for name, number, mode, errors in (
        ("stdin", 0, "r", "surrogateescape"),
        ("stdout", 1, "w", "surrogateescape"),
        ("stderr", 2, "w", "backslashreplace"),
    ):
        by_line = 1 if number == 2 else -1
        stream = open(number, mode, by_line, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = [FILE]


def run(code: str) -> int:
    """Return the exit code of a program, run as Python runs one: its threads are waited for, its output is flushed."""
    status = 0
    try:
        exec(compile(code, FILE, "exec"), module("__main__").__dict__)  # noqa: S102 - this is the place for it
    except SystemExit as leaving:
        status = exit_status(leaving.code)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what the interpreter does at its end
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - output that cannot be written: the disk is full, or it was closed
        return status or 120
    return status


def exit_status(code: object) -> int:
    """Return what a process ends with after SystemExit(code)."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)  # noqa: T201 - as Python does
    return 1


class SolutionServer:
    """A solution whose functions are called from another process. What it returns goes out as plain data."""

    def __init__(self, connection: socket.socket, limit: int) -> None:
        self.channel = Channel(connection, limit)
        self.names: dict[str, Any] = {}
        self.held: list[Any] = []
        self.numbers: dict[int, int] = {}  # by id: what is held is never let go, so none is used twice

    def serve(self, code: str) -> None:
        """Run the code once, say how that went, then answer calls until the other side is gone."""
        self.names = module("solution").__dict__

        def load() -> str:
            exec(compile(code, FILE, "exec"), self.names)  # noqa: S102 - this is the place for it
            return self.value(None)

        self.answer(load)
        while True:
            request = json.loads(self.channel.receive())
            self.answer(lambda request=request: self.perform(request))  # type: ignore[misc]

    def answer(self, call: Callable[[], str]) -> None:
        """Send the text that a call gives, or what it raises."""
        try:
            text = call()
        except BaseException as error:  # noqa: BLE001 - the other side decides what it means
            kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
            try:
                # The text of a KeyError is that of its key, quoted; what is made of it would quote it again.
                key = isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str)
                message = str(error.args[0] if key else error)[:1000]
            except BaseException:  # noqa: BLE001 - an exception may be of any make
                message = ""
            text = json.dumps({"raised": kinds[:1], "message": message})
        self.channel.send(text.encode())

    def perform(self, request: dict[str, Any]) -> str:
        """Return the answer to one request, as text."""
        if request["do"] == "name":  # handed over by number, whatever it is
            return f'{{"value":{{"held":{self.hold(self.find_name(request["name"]))}}}}}'
        arguments = loads(request["arguments"], self.held.__getitem__)
        if request["do"] != "call":
            return self.value(OPERATIONS[request["do"]](*arguments))
        function, positional, options = arguments
        before = [self.text(one) for one in positional]
        value = function(*positional, **options)
        after = [self.text(one) for one in positional]
        return self.value(value, [new if new != old else None for old, new in zip(before, after, strict=True)])

    def value(self, value: Any, changed: Sequence[str | None] = ()) -> str:
        """Return the answer that gives a value, with those arguments of its call that were changed in place."""
        return f'{{"value":{dumps(value, self.hold)},"changed":{json.dumps(changed)}}}'

    def find_name(self, name: str) -> Any:
        """Return a function or class of the solution, or a method of its class Solution."""
        if name in self.names:
            return self.names[name]
        if "Solution" in self.names:
            return getattr(self.names["Solution"](), name)
        raise NameError(f"name {name!r} is not defined")

    def hold(self, value: Any) -> int:
        """Return the number that stands for a value from now on, one for each object."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.held)
            self.held.append(value)
        return self.numbers[id(value)]

    def text(self, argument: Any) -> str | None:
        """Return an argument that a function may change in place, as it is now."""
        if not isinstance(argument, list | dict | set | bytearray | deque):
            return None
        try:
            return dumps(argument, self.hold)
        except NotPlainError:
            return None
