"""Calls of tools that a model wrote, and whether they are calls of the tools that it was given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from rlcore.data import native
from rlcore_rewards.calling import checks_rows
from rlcore_rewards.structure.json_text import extract_json, parse_json
from rlcore_rewards.structure.schema import allows, as_text, validator

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


def check_tools(data: Mapping[str, Any]) -> None:
    """Raise ValueError if the row has no tools that a call could be measured by."""
    argument_validators(data.get("tools"))


@checks_rows(check_tools)
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
    valid = sum(is_valid(call, known) for call in calls)
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


def is_valid(call: ToolCall, known: Mapping[str, Any]) -> bool:
    """Return whether a call is complete, of a known tool, with arguments that its schema allows."""
    readable = call.complete and call.arguments is not None
    return readable and call.name in known and allows(known[call.name], call.arguments)


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
