"""Small faults put into a function, one at a time: signs, comparisons, clamps, constants, gradients, means.

A mutant is made from the function's own source and lives in its place, `__code__` for `__code__`, so that whoever holds
the function (presets, registry, other modules) calls the mutant while it lives.
"""

import ast
import copy
import inspect
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass

_SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_FLIPPED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_RENAMED = {"masked_mean": "masked_sum", "maximum": "minimum", "minimum": "maximum", "group_max": "group_min"}
_RENAMED |= {"group_mean": "group_sum", "amax": "amin", "cumsum": "cumprod", "expm1": "exp"}
_DROPPED = {"limited": 0}
_DROPPED_METHODS = {"clamp", "detach", "exp", "square", "abs", "flip", "sqrt"}


@dataclass(frozen=True)
class Mutant:
    """A function with one fault: where it is, what was changed, and the code that takes its place."""

    function: object
    line: int
    change: str
    code: object

    @property
    def name(self):
        return f"{self.function.__module__}.{self.function.__qualname__}:{self.line} {self.change:.90}"


def _changes(node):
    """Every way to change one node, as (what, new node)."""
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
        yield (
            f"{_sign(node.op)} becomes {_sign(_SWAPPED[type(node.op)]())}",
            ast.BinOp(node.left, _SWAPPED[type(node.op)](), node.right),
        )
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
        flipped = _FLIPPED[type(node.ops[0])]()
        yield f"{_sign(node.ops[0])} becomes {_sign(flipped)}", ast.Compare(node.left, [flipped], node.comparators)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "a minus is dropped", node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value not in (0.0, float("inf")):
        yield f"{node.value} times 1.01", ast.Constant(node.value * 1.01)
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value in (1, 2):
        yield f"{node.value} becomes {node.value + 1}", ast.Constant(node.value + 1)
    if isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node):
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in _RENAMED:
        func = copy.deepcopy(node.func)
        setattr(func, "id" if isinstance(func, ast.Name) else "attr", _RENAMED[name])
        yield f"{name} becomes {_RENAMED[name]}", ast.Call(func, node.args, node.keywords)
    if name in _DROPPED and node.args:
        yield f"{name}() is dropped", node.args[_DROPPED[name]]
    if isinstance(node.func, ast.Attribute) and name in _DROPPED_METHODS:
        yield f".{name}() is dropped", node.func.value


def _sign(op):
    return type(op).__name__


_NO_MATHEMATICS = (ast.Raise, ast.arguments, ast.Subscript, ast.JoinedStr, ast.AnnAssign, ast.Dict)


def _refusals(tree):
    """Nodes of refusals, messages, annotations and single metrics: no mathematics that a caller gets stands there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and all(isinstance(entry, ast.Raise) for entry in node.body):
            yield from ast.walk(node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("metrics["):
            yield from ast.walk(node)
        if isinstance(node, _NO_MATHEMATICS):
            yield from ast.walk(node.slice if isinstance(node, ast.Subscript) else node)


class _Replace(ast.NodeTransformer):
    def __init__(self, target, new):
        self.target, self.new = target, new

    def visit(self, node):
        return self.new if node is self.target else super().visit(node)


def mutants_of(function):
    """Every mutant of a function, in the order of its source."""
    source = textwrap.dedent(inspect.getsource(function))
    first = function.__code__.co_firstlineno
    tree = ast.parse(source)
    kept_out = {id(node) for node in _refusals(tree)}
    for node in list(ast.walk(tree.body[0])):
        if id(node) in kept_out or isinstance(node, ast.FunctionDef):
            continue
        for change, new in _changes(node):
            index = [id(n) for n in ast.walk(tree)].index(id(node))
            changed = copy.deepcopy(tree)
            target = list(ast.walk(changed))[index]
            module = ast.fix_missing_locations(_Replace(target, _placed(new, node)).visit(changed))
            module.body[0].decorator_list = []
            # The module's own `from __future__ import annotations` is not part of the function's source.
            module.body.insert(0, ast.parse("from __future__ import annotations").body[0])
            scope = {}
            exec(compile(module, f"<mutant of {function.__name__}>", "exec"), dict(function.__globals__), scope)
            made = scope[function.__name__]
            yield Mutant(function, first + node.lineno - 1, f"{change}: {ast.unparse(node)}", made.__code__)


def _placed(new, old):
    return ast.copy_location(copy.deepcopy(new), old)


@contextmanager
def alive(mutant):
    """The mutant in the function's place."""
    whole = mutant.function.__code__
    mutant.function.__code__ = mutant.code
    try:
        yield
    finally:
        mutant.function.__code__ = whole
