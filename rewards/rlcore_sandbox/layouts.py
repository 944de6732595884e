"""The tests of a row, in whatever layout its data set has them."""

from __future__ import annotations

import ast
import builtins
import functools
import json
import keyword
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.data import native, target_of
from rlcore.errors import DataError
from rlcore_sandbox.extraction import make_runnable
from rlcore_sandbox.protocol import Suite

LAYOUTS = (
    "`test` and `entry_point` (HumanEval)",
    "`test_list` (MBPP)",
    "`input_output`, or `inputs` and `outputs` (APPS, TACO)",
    "`public_tests`, `private_tests`, `generated_tests` (CodeContests)",
    "a `target` that holds one of these, or a list of asserts",
)
CONTESTS = ("public_tests", "private_tests", "generated_tests")


@dataclass(frozen=True)
class Programs:
    """A program, and tests of it: what it reads from standard input, and what it should write to standard output."""

    tests: Sequence[tuple[str, str]]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Calls:
    """A function, the one of `names`, and tests of it: lists of arguments, and what it should return for each."""

    tests: Sequence[tuple[Sequence[Any], Any]]
    names: Sequence[str]


@dataclass(frozen=True)
class Asserts(Suite):
    """Tests as code. With a `prompt` the solution may go on where that ends, or define the one of `names` whole."""

    prompt: str = ""


Problem = Programs | Calls | Asserts


def read_problem(row: Mapping[str, Any]) -> Problem:
    """Return the tests of a row.

    Looked for in the row's columns, then in `extra_info`, then in `target` or `ground_truth` (also as JSON text).

    Raises:
        DataError: there are none, or they cannot be read, so that no completion could be graded.
    """
    target = target_of(row)
    for place, where in ((row, ""), (row.get("extra_info"), "extra_info."), (target, "target")):
        table = native(from_json(place) if where == "target" else place)
        if isinstance(table, Mapping):
            found = read_table({name: value for name, value in table.items() if value is not None}, row, where)
            if found is not None:
                return found
        elif where == "target" and table:
            return read_asserts(code_list(table, "target"), "")
    raise DataError(
        f"the row has no tests; its columns: {', '.join(map(str, row)) or 'none'}; read are {'; '.join(LAYOUTS)}"
    )


def read_table(table: Mapping[str, Any], row: Mapping[str, Any], where: str) -> Problem | None:
    """Return the tests that a table holds, or None if it holds none."""
    if "test" in table and "entry_point" in table:
        return human_eval(
            str(table["test"]), str(table["entry_point"]), find_prompt(table, row, str(table["entry_point"]))
        )
    if table.get("test_list"):
        before = [*code_list(table.get("test_imports", []), "test_imports"), str(table.get("test_setup_code", ""))]
        return read_asserts(code_list(table["test_list"], f"{where}test_list"), "\n".join(before))
    if table.get("input_output"):
        inner = from_json(table["input_output"])
        if not isinstance(inner, Mapping):
            raise DataError(f"{where}input_output is {inner!r:.80}; expected JSON with inputs and outputs")
        return read_pairs(inner, f"{where}input_output.")
    if "inputs" in table and "outputs" in table:
        return read_pairs(table, where)
    if any(name in table for name in CONTESTS):
        tests = [from_json(table[name]) for name in CONTESTS if table.get(name)]
        return read_pairs(
            {
                "inputs": [one for test in tests for one in test_column(test, "input")],
                "outputs": [one for test in tests for one in test_column(test, "output")],
            },
            where,
        )
    return None


def test_column(test: Any, name: str) -> list[Any]:
    """Return the inputs or outputs of a table of tests. Raises DataError if it has none."""
    found = test.get(name, test.get(f"{name}s")) if isinstance(test, Mapping) else None
    if not isinstance(found, list):
        raise DataError(f"tests are {test!r:.80}; expected a table with lists `input` and `output`")
    return found


def function_name(name: str, where: str) -> str:
    """Return a name that a function can have. Raises DataError for another."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise DataError(f"{where} is {name!r}; expected the name of a function")
    return name


@functools.lru_cache(maxsize=64)  # the samples of a group ask one after another
def human_eval(test: str, name: str, prompt: str) -> Asserts:
    """Return one test: a function `check` that is called with the solution's."""
    function_name(name, "entry_point")
    tree = parse_code(test, "test")
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if not checks:
        raise DataError("test defines no function `check`, which would be called with the solution")
    if not any(isinstance(node, ast.Call) for node in ast.walk(tree)):
        raise DataError(f"test calls nothing, so that every solution would pass; it is {test!r:.80}")
    stub = prompt and make_runnable(prompt)
    return Asserts([f"check({name})"], [name], f"{stub}\n{test}", prompt)


def read_asserts(tests: list[str], before: str) -> Asserts:
    """Return pieces of code, each a test. Raises DataError if one is no Python, or they call nothing of a solution."""
    setup = parse_code(before, "what stands before the tests")
    parts = [(test, parse_code(test, f"test {number}")) for number, test in enumerate(tests, 1)]
    parts = [(test, tree) for test, tree in parts if tree.body]  # comments alone would pass
    if not parts:
        raise DataError("the list of tests is empty")
    tests, trees = [test for test, _ in parts], [tree for _, tree in parts]
    names = tested_names(trees, setup)
    modules = [name for name in names if is_module(name, (*trees, setup))]
    before = "".join(f"import {name}\n" for name in modules) + before
    names = [name for name in names if name not in modules]
    does = any(isinstance(node, ast.Assert | ast.Call) for tree in trees for node in ast.walk(tree))
    if not names or not does:
        raise DataError(f"the tests call nothing of a solution; the first is {tests[0]!r:.80}")
    return Asserts(tests, names, before)


def tested_names(trees: Sequence[ast.Module], setup: ast.Module) -> list[str]:
    """Return the names that tests use and do not define: they are the solution's.

    A builtin that every test calls is one only if there is no other (a task may well ask for a function `sum`).
    """
    every = [ast.walk(tree) for tree in (*trees, setup)]
    nodes = [node for walk in every for node in walk]
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    used = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name))
    free = [name for name in used if name not in bound]
    own = [name for name in free if not hasattr(builtins, name)]
    return own or [name for name in free if all(name in called_names(tree) for tree in trees)]


def is_module(name: str, trees: Sequence[ast.Module]) -> bool:
    """Return whether a name that nothing in the tests gives a value is a module of the standard library, as in
    `math.isclose(f(2), 4)`: some data sets rely on the solution to import it, and whose `math` it is matters.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    of = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return name in sys.stdlib_module_names and all(
        id(node) in of for node in nodes if isinstance(node, ast.Name) and node.id == name
    )


def called_names(tree: ast.AST) -> set[str]:
    """Return the names that are called."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def read_pairs(table: Mapping[str, Any], where: str) -> Programs | Calls:
    """Return inputs and outputs, one of each a test: of a function if there is `fn_name`, else of a program."""
    inputs, outputs = table.get("inputs"), table.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs) or not inputs:
        counts = [len(one) if isinstance(one, list) else type(one).__name__ for one in (inputs, outputs)]
        raise DataError(
            f"{where}inputs and outputs: {counts[0]} and {counts[1]}; expected as many of each, at least one"
        )
    name = table.get("fn_name")
    pairs = zip(inputs, outputs, strict=True)
    if not name:
        return Programs([(as_text(one, f"{where}inputs"), as_text(two, f"{where}outputs")) for one, two in pairs])
    tests = [(call_arguments(one, where), from_json(two)) for one, two in pairs]
    return Calls(tests, [function_name(str(name), f"{where}fn_name")])


def call_arguments(value: Any, where: str) -> list[Any]:
    """Return the arguments of one call: a list, or a text with one value of JSON a line."""
    if isinstance(value, list):
        return value
    try:
        return [json.loads(line) for line in str(value).splitlines() if line.strip()]
    except ValueError as error:
        raise DataError(f"{where}inputs: {value!r:.80} is no list, nor JSON line by line: {error}") from error


def as_text(value: Any, where: str) -> str:
    """Return what a program reads or writes: text, or a list of lines."""
    if isinstance(value, list):
        return "\n".join(as_text(line, where) for line in value)
    if isinstance(value, str):
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise DataError(f"{where} has {value!r:.60}, which cannot be written as UTF-8: {error}") from error
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{where} has {type(value).__name__} {value!r:.60}; expected text, or a list of lines")


def code_list(value: Any, where: str) -> list[str]:
    """Return a list of pieces of code, also as one text."""
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise DataError(f"{where} is {value!r:.80}; expected a list of code")
    return [one for one in value if one.strip()]


def from_json(value: Any) -> Any:
    """Return a value; of a text that is JSON what it holds."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
        except RecursionError as error:
            raise DataError(f"JSON that is nested too deeply: {value[:80]!r}") from error
    return value


def parse_code(code: str, what: str) -> ast.Module:
    """Return the syntax tree of code that stands in the data. Raises DataError if it is no Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two for what is nested deeply
        raise DataError(f"{what} is no Python: {error}; it is {code!r:.80}") from error


def find_prompt(table: Mapping[str, Any], row: Mapping[str, Any], name: str) -> str:
    """Return the code that a HumanEval prompt is, also where a question stands around it; "" where there is none."""
    messages = row.get("messages")
    if isinstance(row.get("prompt"), list):
        messages = row["prompt"]
    users = [one["content"] for one in messages or [] if isinstance(one, Mapping) and one.get("role") == "user"]
    texts = [table.get("code_prompt"), table.get("prompt"), row.get("prompt"), *users[-1:]]
    for text in texts:
        for candidate in code_candidates(text) if isinstance(text, str) else ():
            if f"def {name}" in candidate and make_runnable(candidate):
                return candidate
    return ""


def code_candidates(text: str) -> Iterable[str]:
    """Return a text, and the parts of it that could be the code in it."""
    yield text
    for fence in ("```python\n", "```\n"):
        if fence in text:
            yield text.split(fence, 1)[1].split("```", 1)[0]
    lines = text.splitlines(keepends=True)
    starts = ("from ", "import ", "def ", "class ", "@")
    first = next((number for number, line in enumerate(lines) if line.startswith(starts)), None)
    if first is not None:
        yield "".join(lines[first:])
