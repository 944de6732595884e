"""How a question is put to the model: a template around it, a system prompt, a chat or plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from rlcore.data import Prompt, Row
from rlcore.errors import DataError

Thinking = Literal["keep", "strip", "strip_all"]
"""What becomes of `<think>...</think>` at the head of given answers: kept, taken out of all but the last answer of a
conversation (as many templates do), or of all."""
THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


def format_prompts(
    rows: Sequence[Row],
    *,
    system_prompt: str = "",
    template: str = "{prompt}",
    chat: bool = False,
    thinking: Thinking = "keep",
) -> list[Row]:
    """Return copies of the rows with their prompts formatted; the question stays in the columns it came in.

    `template` is a text with `{prompt}` where the question goes (in a conversation, the last user message's).
    `system_prompt` becomes the system message, in place of one that the row has; it makes a text prompt a
    conversation, as `chat` does without one.

    Raises:
        DataError: the template has no `{prompt}`.
    """
    if "{prompt}" not in template:
        raise DataError(f"data.template {template!r} has no {{prompt}}, so every prompt would be the same")
    if thinking != "keep":
        rows = [without_thinking(row, last=thinking == "strip_all") for row in rows]
    if not system_prompt and not chat and template == "{prompt}":
        return list(rows)
    return [format_prompt(row, system_prompt=system_prompt, template=template, chat=chat) for row in rows]


def without_thinking(row: Row, *, last: bool) -> Row:
    """Return a copy of the row whose given answers have no thinking; `last`: neither has the last one."""
    changed = dict(row)
    for name in ("prompt", "messages"):
        if isinstance(row.get(name), list):
            # A prompt's answers are all earlier than the one to come.
            changed[name] = strip_thinking(row[name], keep_last=name == "messages" and not last)
    if last and isinstance(row.get("completion"), str):
        changed["completion"] = THOUGHT.sub("", row["completion"])
    return changed


def strip_thinking(messages: Sequence[dict[str, Any]], *, keep_last: bool) -> list[dict[str, Any]]:
    """Return the messages without the thinking at the head of assistant turns; `keep_last` leaves the last one's."""
    turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    stripped = list(messages)
    for place in turns[: len(turns) - keep_last]:
        content = stripped[place].get("content")
        if isinstance(content, str):
            stripped[place] = {**stripped[place], "content": THOUGHT.sub("", content)}
    return stripped


def format_prompt(row: Row, *, system_prompt: str, template: str, chat: bool) -> Row:
    """Return a copy of one row with its prompt formatted; its conversation too, which begins with the prompt."""
    prompt: Prompt = fill_template(row["prompt"], template)
    if isinstance(prompt, str) and (chat or system_prompt):
        prompt = [{"role": "user", "content": prompt}]
    if isinstance(prompt, list) and system_prompt:
        prompt = [{"role": "system", "content": system_prompt}, *without_system(prompt)]
    changed: Row = {**row, "prompt": prompt}
    if isinstance(row.get("messages"), list) and isinstance(row["prompt"], list):
        changed["messages"] = [*prompt, *row["messages"][len(row["prompt"]) :]]
    return changed


def fill_template(prompt: Prompt, template: str) -> Prompt:
    """Return the prompt, or its last user message, put into the template."""
    if isinstance(prompt, str):
        # Not str.format: questions and templates may hold braces of their own.
        return template.replace("{prompt}", prompt)
    users = [place for place, message in enumerate(prompt) if message["role"] == "user"]
    messages = list(prompt)
    if users and isinstance(messages[users[-1]].get("content"), str):
        message = messages[users[-1]]
        messages[users[-1]] = {**message, "content": template.replace("{prompt}", message["content"])}
    return messages


def without_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages after a leading system (or developer) message, if there is one."""
    return list(messages[1:] if messages[0]["role"] in ("system", "developer") else messages)
