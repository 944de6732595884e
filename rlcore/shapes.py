"""Checks of the shapes and types that annotations declare, when a function is called.

The public components of rlcore are checked whenever a user calls them. A run checks each of them once, in its dry step,
and then calls them without the check (`unchecked`), which costs nothing.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from jaxtyping import AbstractArray, jaxtyped
from torch import Tensor

from rlcore.errors import ComponentError

_CHECKING: ContextVar[bool] = ContextVar("rlcore_checks_shapes", default=False)
_WRITTEN: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The original function by the checking one. Not an attribute, which `functools.wraps` would copy."""


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same and refuses tensors whose shapes or types are not those that it declares.

    One letter is one size: `Float[Tensor, "B T"]` beside `Bool[Tensor, "B T"]` refuses a mask of another length.
    Parameters without such an annotation are let through. It raises ComponentError naming the parameter.
    """
    if not inspect.isfunction(function) or function in _WRITTEN:
        return function
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checking_call(*arguments: Any, **options: Any) -> Any:
        _refuse(function, signature.bind(*arguments, **options).arguments)
        return function(*arguments, **options)

    _WRITTEN[checking_call] = function
    return checking_call


def defined(function: Any) -> Any:
    """Return the original of a function that `checked` returned, any other thing as it is."""
    return _WRITTEN.get(function, function) if inspect.isfunction(function) else function


def unchecked(component: Callable[..., Any]) -> Callable[..., Any]:
    """Return a component, perhaps with options bound, that does not check shapes; inside `checking()` one that does."""
    if _CHECKING.get():
        return _under_partials(component, checked)
    return _under_partials(component, defined)


def _under_partials(component: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    if isinstance(component, functools.partial):
        function = _under_partials(component.func, change)
        if function is component.func:
            return component
        return functools.partial(function, *component.args, **component.keywords)
    changed: Callable[..., Any] = change(component)
    return changed


@contextmanager
def checking() -> Iterator[None]:
    """Check every component that is called in this block, a stranger's too."""
    token = _CHECKING.set(True)
    try:
        yield
    finally:
        _CHECKING.reset(token)


def check_module(module: types.ModuleType) -> None:
    """Replace the public functions of a package and its modules by ones that check what they are called with.

    It is called at the end of the package's `__init__`, which has imported them all.
    """
    for name, thing in list(vars(module).items()):
        if name.startswith("_") or not inspect.isfunction(thing) or not thing.__module__.startswith(module.__name__):
            continue
        home, own_name = sys.modules[thing.__module__], str(thing.__name__)
        checking = checked(thing)
        setattr(module, name, checking)
        if vars(home).get(own_name) is thing:
            setattr(home, own_name, checking)


@functools.cache
def _declared(function: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """Return the array annotations of each parameter that has one; of a union all members."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - an annotation in quotes may raise anything; binding the function says so
        return {}
    members = {
        name: typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        for name, hint in hints.items()
        if name != "return"
    }
    return {
        name: annotations for name, annotations in members.items() if any(_is_array(member) for member in annotations)
    }


def _is_array(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, AbstractArray)


def _refuse(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Raise ComponentError for the first tensor that does not fit its annotation and the sizes of those before it."""
    seen: list[str] = []
    declared = _declared(function)
    with jaxtyped("context"):
        for name, value in arguments.items():
            if name not in declared or (value is None and type(None) in declared[name]):
                continue
            if not isinstance(value, Tensor):
                if all(_is_array(member) or member is type(None) for member in declared[name]):
                    found = f"{function.__name__}: {name} is {type(value).__name__}"
                    raise ComponentError(f"{found}; expected a tensor, as torch.tensor makes it")
                continue
            if not any(isinstance(value, member) for member in declared[name]):
                wanted = " or ".join(_shown(member) for member in declared[name] if _is_array(member))
                others = f", beside {', '.join(seen)}" if seen else ""
                raise ComponentError(
                    f"{function.__name__}: {name} is {_describe(value)}; it is declared as {wanted}{others}"
                )
            seen.append(f"{name} {list(value.shape)}")


def _shown(annotation: Any) -> str:
    dims = ", ".join(annotation.dim_str.split())
    return f"{annotation.__name__.partition('[')[0].lower()} [{dims}]"


def _describe(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
