"""JSON that a schema allows, and calls of the tools that a model was given."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rlcore.data import native
from rlcore.errors import ConfigError
from rlcore_rewards.calling import checks_rows
from rlcore_rewards.structure.json_text import Where, extract_json, parse_json


class JsonSchema:
    """1.0 if the JSON in a completion is what a schema allows, else 0.0; without JSON 0.0.

    The schema is the row's `schema` (an object, or its JSON text), else the one of `file`. It is read as the draft
    that its `$schema` names, else as draft 2020-12; `format` asserts nothing, and a `$ref` never leaves the schema.
    Component `found`: whether there is JSON at all.

    Args:
        file: a schema for the rows that have none.
        where: which JSON of the completion counts (`extract_json`).

    Raises ConfigError for a `file` that is no schema.
    """

    def __init__(self, *, file: str | None = None, where: Where = "last") -> None:
        self.where: Where = where
        self.schema: str | None = None
        if file is not None:
            try:
                self.schema = Path(file).expanduser().read_text(encoding="utf-8")
                validator(self.schema)
            except (OSError, ValueError) as error:
                raise ConfigError(f"json_schema: file={file!r} cannot be used: {error}") from error

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError if the row has no schema, or one that is none."""
        self._validator(data.get("schema"))

    def __call__(self, completion: str, schema: Any = None) -> dict[str, Any]:
        """Return the score of one completion. Raises ValueError as `check_row` does."""
        allowed = self._validator(schema)
        found = extract_json(completion, where=self.where)
        if found is None:
            return {"score": 0.0, "found": 0.0, "extracted": None}
        return {"score": float(allows(allowed, found.value)), "found": 1.0, "extracted": found.text}

    def _validator(self, schema: Any) -> Any:
        schema = self.schema if schema is None else schema
        if schema is None:
            raise ValueError("there is no schema: the row's column 'schema' is missing, and no file is given")
        return validator(as_text(schema))


def as_text(value: Any) -> str:
    """Return a value as JSON text; a text is taken to be that already. Raises ValueError for what JSON cannot hold."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(native(value))
    except TypeError as error:
        raise ValueError(f"not to be written as JSON: {error}") from error


@functools.lru_cache(maxsize=256)
def validator(schema: str) -> Any:
    """Return what validates by a schema, given as JSON text: `is_valid(value)`, `iter_errors(value)`.

    Raises:
        ValueError: the text is no JSON, no schema of its draft, or refers to what is not in it.
    """
    import jsonschema
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    try:
        contents = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the schema is no JSON: {error}; found {schema[:80]!r}") from error
    if not isinstance(contents, dict | bool):
        raise ValueError(f"a schema is an object, true or false; found {schema[:80]!r}")  # noqa: TRY004 - a row's fault
    validator_class = jsonschema.validators.validator_for(contents, default=jsonschema.Draft202012Validator)
    try:
        validator_class.check_schema(contents)
    except jsonschema.SchemaError as error:
        raise ValueError(f"the schema is invalid at {error.json_path}: {error.message[:200]}") from error
    # With this registry it looks for nothing in the network.
    resource = specification_with(validator_class.META_SCHEMA["$schema"]).create_resource(contents)
    check_references(resource, REGISTRY.resolver_with_root(resource))
    schema_validator = validator_class(contents, registry=REGISTRY)
    try:
        schema_validator.is_valid(None)
    except RecursionError as error:
        raise ValueError("the schema refers to itself without end") from error
    return schema_validator


def allows(schema: Any, value: Any) -> bool:
    """Return whether a validator allows a value; not if it is too deep or too large for its arithmetic."""
    try:
        return bool(schema.is_valid(value))
    except (RecursionError, OverflowError):
        return False


def check_references(resource: Any, resolver: Any) -> None:
    """Raise ValueError for a `$ref` of a schema, or of one inside it, that leads nowhere."""
    from referencing.exceptions import Unresolvable

    if isinstance(resource.contents, Mapping) and isinstance(reference := resource.contents.get("$ref"), str):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise ValueError(f"the schema refers to {reference!r}, which is not in it") from error
    for inner in resource.subresources():
        check_references(inner, resolver.in_subresource(inner))


# -- calls of tools

OPEN, CLOSE = "<tool_call>", "</tool_call>"
ANYTHING = '{"type": "object"}'  # the parameters of a tool that says nothing of them


class ToolCall(NamedTuple):
    """One call as it was written. `name` is empty and `arguments` None where it cannot be read.

    `complete`: its block was closed; the last one of a text that was cut is not.
    """

    name: str
    arguments: dict[str, Any] | None
    complete: bool


def parse_tool_calls(text: str) -> list[ToolCall]:
    """Return the `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` blocks of a text, in order, in linear time.

    Each block is read by itself: one that is no call has an empty name and spoils no other. A block whose end is
    missing is the last, and not complete.
    """
    calls: list[ToolCall] = []
    start = text.find(OPEN)
    while start >= 0:
        end = text.find(CLOSE, start)
        if end < 0:
            return [*calls, ToolCall("", None, complete=False)]
        found = parse_json(text[start + len(OPEN) : end].strip())
        calls.append(read_call(found.value if found else None))
        start = text.find(OPEN, end)
    return calls


def read_call(value: Any) -> ToolCall:
    """Return a call from an object with `name` and `arguments`, or from one of OpenAI's, which has them under
    `function`.

    Arguments may be an object or, as OpenAI's are, its JSON text; none at all are an empty object.
    """
    inner = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return ToolCall("", None, complete=True)
    arguments = inner.get("arguments", {})
    if isinstance(arguments, str):
        found = parse_json(arguments)
        arguments = found.value if found else None
    return ToolCall(inner["name"], arguments if isinstance(arguments, dict) else None, complete=True)


@checks_rows(lambda row: argument_validators(row.get("tools")))
def tool_call(completion: str, tools: Any, *, form: Literal["hermes", "json"] = "hermes") -> dict[str, Any]:
    """Return 1.0 if the completion calls tools and every call is valid, else 0.0; without a call 0.0.

    A call is valid if it is complete, names one of the row's `tools`, and its arguments are what the parameter schema
    of that tool allows. What the calls are for is not judged. Components: `calls`, and `valid` ones among them.

    Args:
        completion: the whole output.
        tools: OpenAI's list, `[{"type": "function", "function": {"name", "parameters"}}]`, or its JSON text; the
            inner objects alone do too. A tool without `parameters` takes any object.
        form: "hermes": blocks of `<tool_call>`. "json": the last JSON of the text, one call or a list of them.

    Raises:
        ValueError: `tools` is no such list, or has a schema that is none.
    """
    known = argument_validators(tools)
    calls = parse_tool_calls(completion) if form == "hermes" else calls_in_json(completion)
    readable = [call for call in calls if call.complete and call.arguments is not None and call.name in known]
    valid = sum(allows(known[call.name], call.arguments) for call in readable)
    return {
        "score": float(bool(calls) and valid == len(calls)),
        "calls": float(len(calls)),
        "valid": float(valid),
        "extracted": json.dumps([[call.name, call.arguments] for call in calls]) if calls else None,
    }


def calls_in_json(text: str) -> list[ToolCall]:
    """Return the calls that the last JSON of a text is: one object, a list, or an object with the list `tool_calls`."""
    found = extract_json(text)
    if found is None:
        return []
    value = found.value.get("tool_calls", found.value) if isinstance(found.value, dict) else found.value
    return [read_call(item) for item in (value if isinstance(value, list) else [value])]


def argument_validators(tools: Any) -> dict[str, Any]:
    """Return the validator of each tool's arguments by the tool's name. Raises ValueError for unusable tools."""
    tools = native(tools)
    if isinstance(tools, str):
        found = parse_json(tools.strip())
        tools = found.value if found else tools
    if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping) or not tools:
        raise ValueError(f"tools is {tools!r:.80}; expected a list of tools, not empty")
    known = {}
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
            raise ValueError(f"tools has {tool!r:.80}; expected an object with the tool's name")  # noqa: TRY004 - a row's fault
        try:
            known[inner["name"]] = validator(as_text(inner.get("parameters") or ANYTHING))
        except ValueError as error:
            raise ValueError(f"parameters of tool {inner['name']!r}: {error}") from error
    return known
