"""Layouts that people really use, into one row.

A layout is told by a row's keys; `prompt_key` and `answer_key` name them for files of no known layout. Every column of
the file stays in the row, so a reward can ask for any of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.data.readers import TOO_DEEP, lone_surrogate, native, read_rows
from rlcore.data.rows import Row
from rlcore.errors import DataError, nearest

TARGET_KEYS = ("target", "ground_truth", "answer", "label", "solution")
"""Where a row that has only a prompt may keep its answer, the first one found."""


@dataclass(frozen=True)
class Layout:
    """One way to write a row: the keys that it is told by, and how it becomes ours (`prompt`, and `target` if any).

    `answered`: a row without an answer is an error. Otherwise it is one only if other rows of the file have an answer.
    """

    name: str
    keys: tuple[str, ...]
    convert: Callable[[Mapping[str, Any]], Row]
    answered: bool = False


def load_rows(path: str, *, prompt_key: str = "", answer_key: str = "") -> list[Row]:
    """The rows of a file in our layout. Raises DataError naming file and row; see `read_rows` and `to_rows`."""
    return to_rows(read_rows(path), prompt_key=prompt_key, answer_key=answer_key, where=f"data file {path!r}")


def to_rows(
    raw: Sequence[Mapping[str, Any]], *, prompt_key: str = "", answer_key: str = "", where: str = "data"
) -> list[Row]:
    """The rows in our layout: `prompt`, `target` as the file has it, and every column under its own name.

    `prompt_key` and `answer_key` (a key, or a path such as `extra_info.answer`) say where the two are; without them
    the layout is told by the keys. Types of answers are kept: a struct stays a dict, an int an int.

    Raises:
        DataError: no rows; a row of unknown layout (with the keys found and the layouts known), without the named key,
            with an unusable prompt, or without an answer where answers are to be had. The row is named by its number.
    """
    if not raw:
        raise DataError(f"{where} is empty (0 rows)")
    rows = []
    required = bool(answer_key)
    for index, source in enumerate(raw):
        line = f"{where}, row {index}"
        try:
            cells = {str(key): native(value) for key, value in source.items()}
        except RecursionError as error:
            raise DataError(f"{line}: {TOO_DEEP}") from error
        if prompt_key:
            row: Row = {**cells, "prompt": find(cells, prompt_key, "prompt", line)}
            keep_target(row, cells)
        else:
            layout = layout_of(cells, line)
            required = required or layout.answered
            try:
                row = layout.convert(cells)
            except DataError as error:
                raise DataError(f"{line}: {error}") from None
        if answer_key:
            row["target"] = find(cells, answer_key, "answer", line)
        check_prompt(row["prompt"], line)
        rows.append(row)
    check_answers(rows, required=required, where=where, key=answer_key)
    return rows


def layout_of(cells: Mapping[str, Any], line: str) -> Layout:
    """The layout that a row's keys tell. Raises DataError with the keys found and the layouts known."""
    for layout in LAYOUTS:
        if all(key in cells for key in layout.keys):
            return layout
    known = "; ".join(f"{layout.name} ({', '.join(layout.keys)})" for layout in LAYOUTS)
    raise DataError(
        f"{line}: unknown layout; keys found: {', '.join(cells) or 'none'}; known layouts: {known}."
        " For any other set data.prompt_key (and data.answer_key)"
    )


def find(cells: Mapping[str, Any], path: str, what: str, line: str) -> Any:
    """The value at a key, or at a path of keys. Raises DataError with the keys found and the nearest."""
    if path in cells:
        return cells[path]
    value: Any = cells
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            keys = [str(name) for name in value] if isinstance(value, Mapping) else []
            raise DataError(
                f"{line}: no {what} under {path!r}; keys found: {', '.join(keys) or 'none'}.{nearest(key, keys)}"
            )
        value = value[key]
    return value


def check_prompt(prompt: Any, line: str) -> None:
    """Raise DataError unless the prompt is a non-empty text, or messages with a role and a content or tool calls.

    All of it has to be Unicode text: a tokenizer takes nothing else.
    """
    if found := lone_surrogate(prompt):
        raise DataError(f"{line}: its prompt holds {found}, half of a surrogate pair, which is no text (cut in two?)")
    if isinstance(prompt, str) and prompt:
        return
    if not isinstance(prompt, list) or not prompt:
        raise DataError(f"{line}: a prompt is a non-empty text or list of messages, found {prompt!r:.80}")
    for number, message in enumerate(prompt):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise DataError(f"{line}: message {number} needs a role and a content, found {message!r:.80}")


def check_answers(rows: Sequence[Row], *, required: bool, where: str, key: str) -> None:
    """Raise DataError naming the first row without an answer, if answers are required or others have one."""
    missing = [index for index, row in enumerate(rows) if no_answer(row.get("target"))]
    if not missing or (len(missing) == len(rows) and not required):
        return
    looked = f"under {key!r}" if key else f"(looked for {', '.join(TARGET_KEYS)}, or what its layout has)"
    raise DataError(f"{where}, row {missing[0]}: no answer {looked}; {len(missing)} of {len(rows)} rows have none")


def no_answer(target: Any) -> bool:
    """Whether a target says nothing: absent, None, blank text, an empty list or dict, or NaN (a gap in a table)."""
    if isinstance(target, str):
        return not target.strip()
    return target is None or target in ([], {}) or target != target


def keep_target(row: Row, cells: Mapping[str, Any]) -> None:
    """Set the row's target to the first answer-like column it has, if it has one."""
    for key in TARGET_KEYS:
        if cells.get(key) is not None:
            row["target"] = cells[key]
            return


def from_verl(cells: Mapping[str, Any]) -> Row:
    """The parquet rows of verl and of the many sets made for it: the answer lies in `reward_model.ground_truth`."""
    graded = cells["reward_model"]
    if not isinstance(graded, Mapping):
        raise DataError(f"reward_model is to hold ground_truth, found {type(graded).__name__}")
    return {**cells, "target": graded.get("ground_truth")}


def from_gsm8k(cells: Mapping[str, Any]) -> Row:
    """GSM8K as published: the answer's last line is `#### N`, where N may hold commas and a sign."""
    solution, mark, number = str(cells["answer"] or "").rpartition("####")
    if cells["answer"] and not mark:
        raise DataError(
            "keys question and answer, but the answer has no '####' line as in GSM8K;"
            " for plain answers set data.prompt_key=question data.answer_key=answer"
        )
    return {
        **cells,
        "prompt": cells["question"],
        "solution": solution.strip(),
        "target": number.strip().replace(",", ""),
    }


def from_svamp(cells: Mapping[str, Any]) -> Row:
    """SVAMP as published: body and question are two fields, the answer a float (51.0 becomes "51")."""
    body, question = str(cells["Body"]).strip(), str(cells["Question"]).strip()
    # Some bodies are half a sentence that the question completes ("If there is a discount of 25 dollars"): a comma.
    joined = f"{body} {question}" if not body or body[-1] in ".?!,;:" else f"{body}, {question}"
    return {**cells, "prompt": joined, "target": number_text(cells["Answer"])}


def number_text(value: Any) -> Any:
    """A number as one would write it: 51.0 as "51", 2.5 as "2.5"; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return str(int(value)) if value == int(value) else repr(value)


def from_pair(cells: Mapping[str, Any]) -> Row:
    """Prompt and completion, each text or messages, for supervised training."""
    row: Row = dict(cells)
    prompt, completion = cells["prompt"], cells["completion"]
    if isinstance(completion, list):
        if not isinstance(prompt, list):
            raise DataError("the completion is a list of messages, so the prompt must be one too")
        row["messages"] = [*prompt, *completion]
    elif not isinstance(completion, str):
        raise DataError(f"a completion is text or a list of messages, found {type(completion).__name__}")
    keep_target(
        row, {key: value for key, value in cells.items() if key != "label"}
    )  # here a label judges the completion
    return row


def from_prompt(cells: Mapping[str, Any]) -> Row:
    """A prompt and any other columns, among which an answer may be."""
    row: Row = dict(cells)
    keep_target(row, cells)
    return row


def from_chat(cells: Mapping[str, Any]) -> Row:
    """A conversation: the prompt is what comes before the last assistant turn (all of it, if there is none)."""
    messages = cells["messages"]
    if not isinstance(messages, list):
        raise DataError(f"messages is to be a list, found {type(messages).__name__}")
    turns = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, Mapping) and message.get("role") == "assistant"
    ]
    row: Row = {**cells, "prompt": messages[: turns[-1]] if turns else messages}
    if not turns:
        del row["messages"]  # nothing in it to learn from
    keep_target(row, cells)
    return row


# The first layout whose keys are all there is taken, so the ones with more keys come first.
LAYOUTS = (
    Layout("verl", ("prompt", "reward_model"), from_verl, answered=True),
    Layout("prompt-completion", ("prompt", "completion"), from_pair),
    Layout("prompt-only", ("prompt",), from_prompt),
    Layout("SVAMP", ("Body", "Question", "Answer"), from_svamp, answered=True),
    Layout("GSM8K", ("question", "answer"), from_gsm8k, answered=True),
    Layout("chat", ("messages",), from_chat),
)
