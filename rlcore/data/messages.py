"""Conversations as files hold them, into messages of one form, and what makes one unusable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.data.readers import lone_surrogate
from rlcore.errors import DataError

CONVERSATIONS = ("prompt", "messages", "completion", "chosen", "rejected")
"""Columns that may hold messages; each may be a text instead, `messages` excepted."""


def tidy_messages(value: Any) -> Any:
    """Return the messages without their empty fields, `content` excepted: None where the message has none.

    Tables give every message the fields of all others (`tool_calls`, `name`, `tool_call_id`), as None where it has
    none; a template that asks whether a field is there would be misled. What is no list of objects is given back.
    """
    if not isinstance(value, list) or not all(isinstance(message, Mapping) for message in value):
        return value
    return [tidy_message(message) for message in value]


def tidy_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return one message without its empty fields."""
    kept = {key: item for key, item in message.items() if item is not None}
    return {**kept, "content": message.get("content")} if "role" in kept else kept


def check_prompt(prompt: Any, line: str) -> None:
    """Raise DataError unless the prompt is a text that says something, or messages (see `check_messages`), in Unicode.

    A tokenizer takes nothing else.
    """
    if found := lone_surrogate(prompt):
        raise DataError(f"{line}: its prompt holds {found}, half of a surrogate pair, which is no text (cut in two?)")
    if isinstance(prompt, str) and prompt.strip():
        return
    if not isinstance(prompt, list) or not prompt:
        raise DataError(f"{line}: a prompt is a non-empty text or list of messages, found {prompt!r:.80}")
    check_messages(prompt, line)


def check_messages(messages: Sequence[Any], line: str) -> None:
    """Raise DataError unless each message has a role and a content (text, or a list of parts) or tool calls."""
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise DataError(f"{line}: message {number} needs a role and a content, found {message!r:.80}")
        content, calls = message.get("content"), message.get("tool_calls")
        if not (isinstance(content, str | list) or (content is None and isinstance(calls, list) and calls)):
            raise DataError(
                f"{line}: message {number} (role {message['role']!r}) needs a content: a text, a list of parts, or None"
                f" beside tool_calls; found {content!r:.80}"
            )
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, str | Mapping):
                raise DataError(
                    f"{line}: message {number} (role {message['role']!r}): a part of a content is an object with a"
                    f" type, or a text; found {part!r:.80}"
                )


def text_of(prompt: Any) -> str:
    """Return the text of a prompt: as it is, or the messages' contents one after the other, parts of text alone."""
    if not isinstance(prompt, list):
        return str(prompt)
    return "\n".join(content_text(message.get("content")) for message in prompt if isinstance(message, Mapping))


def content_text(content: Any) -> str:
    """Return the text of one message's content."""
    if not isinstance(content, list):
        return str(content or "")
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "\n".join(str(part) for part in parts if part is not None)


def for_template(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages as chat templates take them: arguments of calls as objects, a missing content as an empty
    text.

    Files in OpenAI's form hold arguments as JSON text; a template writes what it is given as JSON, so a text would be
    quoted twice. A text that is no JSON object stays.
    """
    made = []
    for message in messages:
        given = {**message, "content": "" if message.get("content") is None else message["content"]}
        if isinstance(given.get("tool_calls"), list):
            given["tool_calls"] = [with_arguments(call) for call in given["tool_calls"]]
        made.append(given)
    return made


def with_arguments(call: Any) -> Any:
    """Return a tool call with its arguments as an object, if they are the JSON text of one."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call  # what a policy wrote may be no JSON; the template shows it as it was
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def from_responses(given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return prompt and tools (None without any) of the parameters of a Responses API request.

    `input` is a text or a list of items: messages, whose parts of text are joined; calls of functions, which become
    an assistant's `tool_calls` (one message for calls in a row); and their outputs, which become messages of role
    `tool`. `instructions` become the system message. An item of another kind (`reasoning`) raises DataError.
    """
    prompt = given.get("input")
    if isinstance(prompt, list):
        messages: list[dict[str, Any]] = []
        for number, item in enumerate(prompt):
            add_item(messages, item, number)
        prompt = messages
    if given.get("instructions"):
        said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt or []
        prompt = [{"role": "system", "content": given["instructions"]}, *said]
    tools = given.get("tools")
    return prompt, [chat_tool(tool) for tool in tools] if isinstance(tools, list) and tools else None


def add_item(messages: list[dict[str, Any]], item: Any, number: int) -> None:
    """Append one item of a Responses API input to the messages."""
    kind = item.get("type", "message") if isinstance(item, Mapping) else type(item).__name__
    if kind == "message":
        messages.append(
            {**{k: v for k, v in item.items() if k != "type"}, "content": join_text_parts(item.get("content"))}
        )
    elif kind == "function_call":
        call = {
            "id": item.get("call_id"),
            "type": "function",
            "function": {"name": item.get("name"), "arguments": item.get("arguments")},
        }
        if messages and "tool_calls" in messages[-1]:
            messages[-1]["tool_calls"].append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        messages.append(
            {"role": "tool", "tool_call_id": item.get("call_id"), "content": join_text_parts(item.get("output"))}
        )
    else:
        raise DataError(
            f"responses_create_params.input, item {number}: type {kind!r} has no place in a conversation; known:"
            " message, function_call, function_call_output"
        )


def join_text_parts(content: Any) -> Any:
    """Return parts of text as one text; a content with any other part (an image) as it is."""
    kinds = ("input_text", "output_text", "text")
    if isinstance(content, list) and all(isinstance(p, Mapping) and p.get("type") in kinds for p in content):
        return "".join(str(part.get("text") or "") for part in content)
    return content


def chat_tool(tool: Any) -> Any:
    """Return a tool as chat templates know it: the Responses API writes a function's fields beside its type."""
    if isinstance(tool, Mapping) and tool.get("type") == "function" and "function" not in tool:
        return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
    return tool
