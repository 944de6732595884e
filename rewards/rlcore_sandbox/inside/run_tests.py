"""The judge's process: it runs tests, in which proxies stand for the solution's functions."""

from __future__ import annotations

import builtins
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .channel import Channel, ChannelError
from .plain import NotPlainError, TooDeepError, dumps, loads, refuse_held, unpack_checked
from .solution import BINARY
from .values import same_value


class EndedError(BaseException):
    """The solution is gone, out of time, or has sent what is no answer. No `except Exception` of a test holds it."""


class UnusableSuiteError(BaseException):
    """The tests cannot be used, whatever the solution does: they give it what is no plain data, or lack a module."""


class RaisedError(Exception):
    """The solution raised an exception of its own kind."""


class Solution:
    """The solution as seen from here. Calls go out as plain data, and only plain data comes back."""

    def __init__(self, channel: Channel, total: int) -> None:
        self.channel = channel
        self.left = total  # bytes that all answers together may have
        self.known: dict[int, Remote] = {}
        self.requests = 0  # how often

    def started(self) -> None:
        """Wait until its code has run. Raises what the code raised, or EndedError."""
        self.value(self.receive())

    def name(self, name: str) -> Remote:
        """Return what the solution has under a name. Raises NameError where it has nothing."""
        found = self.request_value({"do": "name", "name": name})
        if not isinstance(found, Remote):
            raise NameError(f"name {name!r} is not defined")  # noqa: TRY004 - what a test would meet
        return found

    def do(self, operation: str, *arguments: Any) -> Any:
        """Return what an operation of the solution's process gives."""
        return self.request_value({"do": operation, "arguments": self.text(list(arguments))})

    def call(self, function: Remote, positional: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Return what a function returns; lists, dicts and sets among its arguments are changed as it changed them."""
        answer = self.exchange({"do": "call", "arguments": self.text([function, list(positional), dict(options)])})
        try:
            value = self.value(answer)
        except StopIteration as error:  # it would end a test's own loop, and the rest of its asserts with it
            raise RaisedError(f"StopIteration: {error}") from None
        changed = answer.get("changed")
        for argument, text in zip(positional, changed if isinstance(changed, list) else [], strict=False):
            if isinstance(text, str):
                change(argument, self.plain(loads, text))
        return value

    def request_value(self, request: Mapping[str, Any]) -> Any:
        """Return the value that a request gives. Raises what it raised there, or EndedError."""
        return self.value(self.exchange(request))

    def exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        self.requests += 1
        try:
            self.channel.send(json.dumps(request).encode())
        except ChannelError as error:
            raise EndedError(str(error)) from None
        return self.receive()

    def receive(self) -> dict[str, Any]:
        """Return the next answer, of which the outermost table is read."""
        try:
            data = self.channel.receive()
            self.left -= len(data)
            if self.left < 0:
                raise EndedError("the solution's answers are too large")
            answer = json.loads(data)
        except (ChannelError, ValueError, RecursionError) as error:
            raise EndedError(str(error)) from None
        if not isinstance(answer, dict):
            raise EndedError("no answer, but other data")
        return answer

    def value(self, answer: Mapping[str, Any]) -> Any:
        """Return the value of an answer; what was raised there is raised here, as the builtin exception that it is."""
        if "raised" in answer:
            raise read_exception(answer)
        if "value" not in answer:
            raise EndedError("an answer without a value")
        return self.plain(unpack_checked, answer["value"])

    def plain(self, read: Callable[..., Any], data: Any) -> Any:
        """Return plain data, with proxies for what is none. Raises EndedError where there is other data."""
        try:
            return read(data, self.remote)
        except NotPlainError as error:
            raise EndedError(str(error)) from None

    def remote(self, number: int) -> Remote:
        """Return the proxy of an object, the same one each time."""
        return self.known.setdefault(number, Remote(self, number))

    @staticmethod
    def text(value: Any) -> str:
        """Return plain data as text; proxies go as their numbers. Raises UnusableSuiteError for anything else."""
        try:
            return dumps(value, proxy_number)
        except TooDeepError as error:  # what it made itself, and gets back
            raise EndedError(str(error)) from None
        except NotPlainError as error:
            raise UnusableSuiteError(str(error)) from None


class Remote:
    """Something of the solution's that is no plain data: a function, an object. It equals what it says it does among
    its like, and nothing else.

    What a test asks of it is answered over there, without knowing what the test expects; `in` looks at its items.
    """

    def __init__(self, solution: Solution, number: int) -> None:
        self.__dict__.update(_solution=solution, _number=number)

    def __call__(self, *positional: Any, **options: Any) -> Any:
        """Return what it returns there."""
        return self._solution.call(self, positional, options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and others ask for what they may do with it
            raise AttributeError(name)
        return self._solution.do("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._solution.do("setattr", self, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._solution.do("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._solution.do("setitem", self, key, value)

    def __len__(self) -> int:
        length = self._solution.do("len", self)
        if type(length) is not int:
            raise TypeError("a length is a whole number")
        return length

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        iterator = self._solution.do("iter", self)
        while True:
            try:
                value = self._solution.do("next", iterator)
            except StopIteration:
                return
            yield value

    def __next__(self) -> Any:
        return self._solution.do("next", self)

    def __instancecheck__(self, instance: Any) -> bool:
        return type(instance) is Remote and self._solution.do("isinstance", instance, self) is True

    def __str__(self) -> str:
        return require_text(self._solution.do("str", self))

    def __repr__(self) -> str:
        return require_text(self._solution.do("repr", self))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Remote:
            return False
        return bool(other._number == self._number or self._solution.do("eq", self, other) is True)

    def __hash__(self) -> int:
        return hash(self._number)


def proxy_operator(name: str) -> Callable[[Remote, Any], Any]:
    """Return an operator for two proxies; another operand would show the solution what a test expects."""

    def method(self: Remote, other: Any) -> Any:
        return self._solution.do(name, self, other) if type(other) is Remote else NotImplemented

    return method


for operator in BINARY:
    setattr(Remote, f"__{operator}__", proxy_operator(operator))


def require_text(text: Any) -> str:
    """Return a text that came as one."""
    if type(text) is not str:
        raise TypeError("a text was asked for")
    return text


def proxy_number(value: Any) -> int:
    """Return the number of a proxy."""
    if type(value) is not Remote:
        raise NotPlainError(f"the tests give the solution a {type(value).__name__}, which is no plain data")
    number: int = value.__dict__["_number"]
    return number


def read_exception(answer: Mapping[str, Any]) -> BaseException:
    """Return what the solution raised: the builtin exception, or EndedError for what ends a program."""
    kinds = answer["raised"]
    name = kinds[0] if isinstance(kinds, list) and kinds and isinstance(kinds[0], str) else "Exception"
    kind = getattr(builtins, name, None)
    message = f"{answer.get('message', '')}"
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        return RaisedError(message)
    if not issubclass(kind, Exception):
        return EndedError(f"the solution ended with {name}: {message}")
    try:
        return kind(message)
    except TypeError:  # a UnicodeError wants more than a text
        return RaisedError(f"{name}: {message}")


def change(argument: Any, new: Any) -> None:
    """Give a list, dict, set, deque or bytearray the contents that it has in the solution."""
    if type(argument) is not type(new):
        return
    if isinstance(argument, list | bytearray):
        argument[:] = new
    elif isinstance(argument, deque):
        argument.clear()
        argument.extend(new)
    elif isinstance(argument, dict | set):
        argument.clear()
        argument.update(new)


def run_suite(solution: Solution, work: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is wrong with each test of a solution as `failures`, or why the tests cannot be used as `fault`."""
    try:
        return {"failures": run_calls(solution, work) if work["do"] == "calls" else run_checks(solution, work)}
    except UnusableSuiteError as error:
        return {"fault": str(error), "unusable": True}


def run_calls(solution: Solution, work: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with each call, as `run_checks` does; a case is a list of arguments and a result."""
    failures: list[str] = []
    cases = loads(work["cases"], refuse_held)
    try:
        solution.started()
        function = solution.name(work["name"])
        for arguments, expected in cases:
            failures.append(call_failure(function, arguments, expected))
            if work["stop"] and failures[-1]:
                break
    except (EndedError, Exception) as error:  # noqa: BLE001 - the solution may raise anything
        failures.append(describe_failure(error))
    return failures


def call_failure(function: Remote, arguments: list[Any], expected: Any) -> str:
    """Return what is wrong with what a function returns, "" for nothing. Raises EndedError."""
    try:
        return "" if same_value(function(*arguments), expected) else "another value was returned"
    except Exception as error:  # noqa: BLE001 - the solution may raise anything
        return describe_failure(error)


def run_checks(solution: Solution, work: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with each test, "" for one that passed; the list ends early with what ended the solution.

    `before` is code that the tests need; `names` are those that stand for the solution's, there and in the tests. A
    test is a piece of code that passes by running to its end.
    """
    try:
        solution.started()
        named = {name: solution.name(name) for name in work["names"]}
    except (EndedError, Exception) as error:  # noqa: BLE001 - the solution may raise anything
        return [describe_failure(error)]
    solution.requests = 0
    space: dict[str, Any] = {"__name__": "tests", **named}
    failures: list[str] = []
    for number, code in enumerate([work["before"], *work["tests"]]):
        try:
            exec(compile(code, "test.py" if number else "before.py", "exec"), space)  # noqa: S102 - the tests' own code
            failures.append("")
        except (EndedError, SystemExit, Exception) as error:  # noqa: BLE001 - a test that failed
            blame_tests(solution, error)
            failures.append(describe_failure(error))
            if isinstance(error, EndedError) or work["stop"] or not number:
                break
        if not number:
            space.update(named)  # a prompt defines the very function that is asked for, without its body
    return failures if failures[0] else failures[1:]


def blame_tests(solution: Solution, error: BaseException) -> None:
    """Raise UnusableSuiteError for an error that the solution has no part in.

    It lacks a module (an error that comes from the solution names none), or nothing was asked of the solution before.
    """
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        text = f"the tests need the module {error.name!r}; with site_packages they see what is installed"
        raise UnusableSuiteError(text) from None
    if not solution.requests and not isinstance(error, EndedError):
        raise UnusableSuiteError(
            f"the tests fail by themselves, whatever the solution: {describe_failure(error)}"
        ) from None


def describe_failure(error: BaseException) -> str:
    """Return a failure in one line."""
    kind = type(error).__name__
    try:
        message = str(error)[:500]
    except BaseException as again:  # noqa: BLE001 - it speaks of something of the solution's, which may be gone
        message = f"(no message: {type(again).__name__})"
    return f"{kind}: {message}"
