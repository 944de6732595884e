"""A mathematical component is a plain function: positional parameters are the columns that it reads, keyword-only
parameters are its options. Nothing is declared twice.

State is a class: options in `__init__`, columns in `__call__`; each run makes its own instance.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import cloudpickle

from rlcore.coercion import fit
from rlcore.columns import COLUMNS, ColumnTable
from rlcore.errors import ComponentError, ConfigError, nearest
from rlcore.shapes import defined, unchecked

Component = Callable[..., Any]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
CAPTURE_LIMIT = 1 << 20
STATELESS = ("loss", "reduction", "kl", "select", "readout")
"""Kinds whose components are called in the middle of an update, where state would depend on how the batch is split."""


@dataclass(frozen=True)
class OfKind:
    """Marks an option that is itself a component: `inner: Annotated[Callable, OfKind("kl")]`."""

    kind: str


@dataclass(frozen=True, init=False)
class OnlyWith:
    """Marks an option that counts only where another has one of these values; without values, where it is on or set.

    epsilon: Annotated[float, OnlyWith("scale_by_std")] = 1e-6
    """

    option: str
    values: tuple[Any, ...]

    def __init__(self, option: str, *values: Any) -> None:
        object.__setattr__(self, "option", option)
        object.__setattr__(self, "values", values)

    def holds(self, value: Any) -> bool:
        """Tell whether the marked option counts beside this value of the other."""
        return value in self.values if self.values else value is not None and value is not False

    def __str__(self) -> str:
        """Say when it counts."""
        return f"{self.option} is " + (" or ".join(map(str, self.values)) if self.values else "set")


Advantage = Annotated[Component, OfKind("advantage")]
Kl = Annotated[Component, OfKind("kl")]
Reward = Annotated[Component, OfKind("reward")]


@dataclass(frozen=True)
class Read:
    """One column that a component reads; an optional one is taken if an earlier node writes it."""

    name: str
    optional: bool = False


@dataclass(frozen=True)
class Option:
    """One option: its name, annotation, default, the kind of component it takes (if any), and beside what it counts."""

    name: str
    annotation: Any
    default: Any
    kind: str | None = None
    only_with: OnlyWith | None = None

    @property
    def components(self) -> tuple[Component, ...]:
        """The components that it has for a value now: none, one or several."""
        values = self.default if isinstance(self.default, tuple) else (self.default,)
        return values if self.kind is not None and all(map(callable, values)) else ()


def name_of(component: Component) -> str:
    """Return the name under which people know a component: the function's or the class's own."""
    while isinstance(component, functools.partial):
        component = component.func
    return str(getattr(component, "__name__", type(component).__name__))


def source_of(component: Component) -> Any:
    """Return what was defined: the function under partials, the class of an instance."""
    while isinstance(component, functools.partial):
        component = component.func
    component = defined(component)
    return component if inspect.isroutine(component) or isinstance(component, type) else type(component)


def _initializer(source: Any) -> Callable[..., Any]:
    """Return what takes the options: the function itself, or the `__init__` of a class."""
    if not isinstance(source, type):
        function: Callable[..., Any] = source
        return function
    initializer: Callable[..., Any] = inspect.getattr_static(source, "__init__")
    return initializer if initializer is not object.__init__ else _without_options


def _without_options() -> None:
    """Take no option: this stands for the `__init__` that a class does not define."""


def as_tuple(components: Any) -> tuple[Any, ...]:
    """Return what a place for several components holds as a tuple: of None nothing, of a single component that one."""
    return components if isinstance(components, tuple) else () if components is None else (components,)


def is_stateful(component: Component) -> bool:
    """Tell whether a run must make its own instance."""
    return isinstance(source_of(component), type)


def _called_function(source: Any) -> Callable[..., Any]:
    """Return the function that takes the columns: the source itself, or the `__call__` of a class."""
    return source.__call__ if isinstance(source, type) else source


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    except (TypeError, ValueError) as error:
        raise ComponentError(f"the signature of {function!r} cannot be read: {error}") from error


def _column_parameters(source: Any) -> list[inspect.Parameter]:
    return [p for p in _parameters(_called_function(source)) if p.kind in _POSITIONAL]


def options(component: Component) -> dict[str, Option]:
    """Return the options by name, each with the value it has now: the default, or what was bound."""
    function = _initializer(source_of(component))
    hints = _annotations(function)
    bound: dict[str, Any] = {}
    inner: Any = component
    while isinstance(inner, functools.partial):
        if inner.args:
            raise ComponentError(f"{name_of(component)} has columns bound by position; only options can be bound")
        inner, bound = inner.func, {**inner.keywords, **bound}
    result: dict[str, Option] = {}
    for parameter in _parameters(function):
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        annotation = hints.get(parameter.name, inspect.Parameter.empty)
        marks = _metadata(annotation)
        kind = next((m.kind for m in marks if isinstance(m, OfKind)), None)
        only_with = next((m for m in marks if isinstance(m, OnlyWith)), None)
        value = bound.get(parameter.name, parameter.default)
        result[parameter.name] = Option(parameter.name, annotation, value, kind, only_with)
    return result


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations by name. Raises ComponentError for one that names what is not there."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation in quotes is code, which may raise anything
        raise ComponentError(
            f"{name_of(function)}: an annotation cannot be resolved ({type(error).__name__}: {error}); "
            f"expected names that its module defines"
        ) from error


def _metadata(annotation: Any) -> tuple[Any, ...]:
    """Return the marks of an annotation, also of the members of a union."""
    if typing.get_origin(annotation) is Annotated:
        return tuple(annotation.__metadata__)
    return tuple(m for argument in typing.get_args(annotation) for m in _metadata(argument))


def reads(component: Component) -> tuple[Read, ...]:
    """Return the columns that a component reads: its own parameters, then those of components among its options."""
    columns = {p.name: Read(p.name, optional=p.default is None) for p in _column_parameters(source_of(component))}
    # A class calls its inner components itself, with what it reads.
    for option in () if is_stateful(component) else options(component).values():
        for read in (read for inner in option.components for read in reads(inner)):
            columns.setdefault(read.name, read)
    return tuple(columns.values())


def outputs(component: Component) -> tuple[str, ...] | None:
    """Return the fields of a NamedTuple named in the return annotation, or None."""
    returned = _annotations(_called_function(source_of(component))).get("return")
    fields = getattr(returned, "_fields", None)
    return tuple(fields) if isinstance(returned, type) and fields else None


def _fitted(option: Option, value: Any) -> Any:
    """Return the value as the option's type, judged as the command line's are, unless it is a component.

    Raises ValueError with what is wrong with it.
    """
    if option.kind is not None:
        value = tuple(value) if isinstance(value, list) else value
        if value is None or value == () or replace(option, default=value).components:
            return value
        raise ValueError(f"expected a component of kind {option.kind}")
    # A default may be infinite: it stands for no bound.
    result, fault = fit(option.annotation, value, finite=value is not option.default)
    if fault:
        raise ValueError(fault)
    return result


def bind(component: Component, /, **values: Any) -> Component:
    """Return the component with options bound and checked.

    Raises ConfigError for an unknown option (with the nearest name) or a value of the wrong type.
    """
    if isinstance(component, str):
        raise ConfigError(f"bind takes a function, and got {component!r}: bind(rlcore.get(KIND, {component!r}), ...)")
    known = options(component)
    for name, value in values.items():
        if name not in known:
            if name in {read.name for read in reads(component)}:
                raise ConfigError(
                    f"{name_of(component)} reads {name!r} as a column; it cannot be bound as an option, which "
                    f"stands after a `*`"
                )
            listed = ", ".join(known) or "none"
            raise ConfigError(f"{name_of(component)} has no option {name!r}; options: {listed}.{nearest(name, known)}")
        try:
            values[name] = _fitted(known[name], value)
        except ValueError as error:
            raise ConfigError(f"{name_of(component)}: option {name}={value!r}: {error}") from None
    return functools.partial(component, **values) if values else component


def started(component: Component) -> Component:
    """Return what a run calls: a fresh instance of a stateful component, the component itself otherwise."""
    source = component
    while isinstance(source, functools.partial):
        source = source.func
    return component() if isinstance(source, type) else component


def check(kind: str, component: Component, *, table: ColumnTable = COLUMNS) -> None:
    """Raise ComponentError if a component cannot serve as a `kind`: signature, columns, options."""
    if not callable(component):
        raise ComponentError(f"{kind}: expected a function or a class with __call__, got {component!r}")
    source = source_of(component)
    label = f"{kind} {name_of(source)!r}"
    if isinstance(source, type):
        _check_class(kind, source, label)
    for parameter in _parameters(_called_function(source)):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise ComponentError(f"{label} has *{parameter.name}; name the columns that it reads")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and kind != "reward":
            raise ComponentError(f"{label} has **{parameter.name}; name its options (only rewards may take anything)")
    columns = reads(component)
    for option in options(component).values():
        if option.annotation is inspect.Parameter.empty or option.default is inspect.Parameter.empty:
            missing = "annotation" if option.annotation is inspect.Parameter.empty else "default"
            raise ComponentError(f"{label}: option {option.name!r} has no {missing}")
        try:
            _ = None if option.default is None else _fitted(option, option.default)
        except ValueError as error:
            raise ComponentError(
                f"{label}: the default of option {option.name!r} is {option.default!r}; {error}"
            ) from None
    for parameter in _column_parameters(source):
        default = parameter.default
        if default is not inspect.Parameter.empty and default is not None:
            raise ComponentError(
                f"{label}: the parameter {parameter.name!r} has the default {default!r} and stands before any `*`, so "
                f"that it is read as a column. If it is an option, write it after a `*`: "
                f"(..., *, {parameter.name}: {type(default).__name__} = {default!r}). The one default that a column "
                f"may have is None: then it is read if it is there"
            )
    if kind not in ("reward", "readout", "reduction", "dataset"):
        for read in columns:
            if read.name not in table:
                raise ComponentError(
                    f"{label} has the parameter {read.name!r}, which is no column.{nearest(read.name, table)} "
                    f"Options are keyword-only (after a *); a new column is declared with add.column"
                )


def _check_class(kind: str, source: type, label: str) -> None:
    """Raise ComponentError for a class where no state can be kept, or whose `__init__` takes columns."""
    if kind in STATELESS:
        raise ComponentError(
            f"{label} is a class; a {kind} keeps no state, as it is called once a microbatch, in any order: write a "
            f"function. State may stand in an advantage, filter, shaping, correction, controller or reward"
        )
    for parameter in _parameters(_initializer(source)):
        if parameter.kind in _POSITIONAL:
            raise ComponentError(
                f"{label}: __init__ takes {parameter.name!r} by position; "
                f"a class takes options only, keyword-only (after a *)"
            )


def invoke(component: Component, columns: Mapping[str, Any], *, renamed: Mapping[str, str] | None = None) -> Any:
    """Call a component with the columns that its parameters name; inner components arrive with theirs bound.

    `renamed` maps a parameter's name to the column that it takes here.
    """
    return prepared(component, columns, renamed=renamed)()


def prepared(
    component: Component, columns: Mapping[str, Any], *, renamed: Mapping[str, str] | None = None
) -> Callable[[], Any]:
    """Return the call that `invoke` makes. Raises KeyError for a column that is not there, before anything is run."""
    renamed = renamed or {}

    def column_values(component: Component) -> list[Any]:
        values = []
        for parameter in _column_parameters(source_of(component)):
            name = renamed.get(parameter.name, parameter.name)
            values.append(columns.get(name) if parameter.default is None else columns[name])
        return values

    def inner_calls(component: Component) -> dict[str, Any]:
        inside = {} if is_stateful(component) else options(component)
        return {option.name: with_columns(option.default) for option in inside.values() if option.components}

    def with_columns(inner: Any) -> Any:
        """Return a component, or each of a tuple, with its columns bound."""
        if isinstance(inner, tuple):
            return tuple(map(with_columns, inner))
        return functools.partial(unchecked(inner), *column_values(inner), **inner_calls(inner))

    arguments, inner = column_values(component), inner_calls(component)
    ready = unchecked(component)
    # Not functools.partial: it would fold into a component that is one, whose own options come last.
    return lambda: ready(*arguments, **inner)


# -- identity and transport


@dataclass(frozen=True)
class Identity:
    """Where a component comes from: distribution, version, and a hash of what defines it."""

    name: str
    distribution: str
    version: str
    sha256: str


def _of_file(module: Any) -> bool:
    """Tell whether a module was made of a `path/to/file.py`."""
    # Not getattr: a lazy module would import all that it can think of.
    return "__rlcore_file__" in getattr(module, "__dict__", {})


def _by_value(component: Component) -> bool:
    module = sys.modules.get(getattr(source_of(component), "__module__", ""))
    file = getattr(module, "__file__", None)
    return module is None or module.__name__ == "__main__" or file is None or _of_file(module)


@functools.cache
def _distribution_of(package: str) -> tuple[str, str]:
    for name in importlib.metadata.packages_distributions().get(package, ()):
        return name, importlib.metadata.version(name)
    # An editable install lists no packages; its entry points still name them.
    for point in importlib.metadata.entry_points(group="rlcore"):
        if point.module.partition(".")[0] == package and point.dist is not None:
            return point.dist.name, point.dist.version
    return "", ""


def identity(component: Component) -> Identity:
    """Return who made a component: hash of its module's file, or of its pickled bytes if there is none (a notebook)."""
    source = source_of(component)
    name = f"{source.__module__}:{source.__qualname__}"
    module = sys.modules.get(source.__module__)
    of_file = _of_file(module)
    if module is None or (_by_value(component) and not of_file):
        return Identity(name, "", "", hashlib.sha256(_bytes_of(source)).hexdigest())
    digest = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    if of_file:
        return Identity(name, "", "", digest)
    return Identity(name, *_distribution_of(source.__module__.partition(".")[0]), digest)


def _bytes_of(source: Any) -> bytes:
    try:
        return cloudpickle.dumps(source)
    except Exception as error:
        raise ComponentError(
            f"{name_of(source)} cannot be pickled ({type(error).__name__}: {error}), and it stands in no file that "
            f"could tell it from others. Make what it holds (a lock, a connection) when it is first called, or put it "
            f"in a file"
        ) from error


def is_importable(module: Any) -> bool:
    """Return whether a fresh interpreter with the same path could import this module; some test files not."""
    held = getattr(module, "__dict__", {})
    file, name = held.get("__file__"), str(held.get("__name__", ""))
    return not isinstance(file, str) or name == "__main__" or _is_on_path(name.partition(".")[0], file, tuple(sys.path))


@functools.cache
def _is_on_path(root: str, file: str, path: tuple[str, ...]) -> bool:
    if any(place and file.startswith(place.rstrip("/") + "/") for place in path):
        return True
    for finder in sys.meta_path:
        spec = finder.find_spec(root, None) if hasattr(finder, "find_spec") else None
        if spec is not None:
            places = [spec.origin, *(spec.submodule_search_locations or ())]
            return any(place and Path(file).is_relative_to(place) for place in places)
    return False


def dumps(thing: Any) -> bytes:
    """Pickle what crosses a process; notebook, `__main__` and file components go by value.

    Raises ComponentError naming the variable when a function captured more than 1 MiB.
    """
    modules = {m for m in list(sys.modules.values()) if _of_file(m) or not is_importable(m)}
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        data: bytes = cloudpickle.dumps(thing)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    if len(data) > CAPTURE_LIMIT and callable(thing):
        function = source_of(thing)
        captured = inspect.getclosurevars(function) if inspect.isfunction(function) else None
        held = {**captured.nonlocals, **captured.globals} if captured else dict(getattr(thing, "__dict__", {}))
        sizes = {n: len(cloudpickle.dumps(v)) for n, v in {**held, **getattr(thing, "keywords", {})}.items()}
        worst = max(sizes, key=lambda n: sizes[n]) if sizes else "?"
        raise ComponentError(
            f"{name_of(thing)} captures {len(data) / 2**20:.1f} MiB, mostly the variable {worst!r}; "
            f"at most 1 MiB may travel with a component: load large things inside it"
        )
    return data
