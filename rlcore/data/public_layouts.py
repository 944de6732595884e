"""The layouts that are known by their keys, each with how it becomes ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rlcore.data.messages import from_responses
from rlcore.data.rows import Row
from rlcore.errors import DataError

Prefixed = TypeVar("Prefixed", str, list[Any])
TARGET_KEYS = (
    "target",
    "ground_truth",
    "answer",
    "expected_answer",
    "reference_answer",
    "final_answer",
    "label",
    "solution",
)
"""Where a row that has only a prompt may keep its answer, the first one found."""


def has_gsm8k_mark(cells: Mapping[str, Any]) -> bool:
    """Return whether the answer has the mark of GSM8K."""
    return "####" in str(cells["answer"])


@dataclass(frozen=True)
class PublicLayout:
    """One way to write a row: the keys that it is told by, and how it becomes ours (`prompt`, and `target` if any).

    `answered`: a row without an answer is an error. Otherwise it is one only if other rows of the file have an answer.
    `matches` is asked where the keys are there.
    """

    name: str
    keys: tuple[str, ...]
    convert: Callable[[Mapping[str, Any]], Row]
    answered: bool = False
    matches: Callable[[Mapping[str, Any]], bool] = lambda cells: True

    def fits(self, cells: Mapping[str, Any]) -> bool:
        """Return whether a row is of this layout: of tables with rows of several, the one whose first key is no gap."""
        return cells.get(self.keys[0]) is not None and all(key in cells for key in self.keys) and self.matches(cells)


def keep_target(row: Row, cells: Mapping[str, Any]) -> None:
    """Set the row's target to the first answer-like column it has, if it has one."""
    for key in TARGET_KEYS:
        if cells.get(key) is not None:
            row["target"] = cells[key]
            return


def answer_in(column: str) -> Callable[[Mapping[str, Any]], Row]:
    """Return a conversion of rows whose answer lies in `column.ground_truth`, a text or, for some sources, a struct."""

    def convert(cells: Mapping[str, Any]) -> Row:
        graded = cells[column]
        if not isinstance(graded, Mapping):
            raise DataError(f"{column} must hold ground_truth; found {type(graded).__name__}")
        return {**cells, "target": graded.get("ground_truth")}

    return convert


def from_gsm8k(cells: Mapping[str, Any]) -> Row:
    """Return a row of GSM8K as published: the answer's last line is `#### N`, where N may hold commas and a sign."""
    solution, _, number = str(cells["answer"]).rpartition("####")
    return {
        **cells,
        "prompt": cells["question"],
        "solution": solution.strip(),
        "target": number.strip().replace(",", ""),
    }


def prompt_in(column: str) -> Callable[[Mapping[str, Any]], Row]:
    """Return a conversion of rows whose prompt is in `column`; an answer may be in one of `TARGET_KEYS`."""

    def convert(cells: Mapping[str, Any]) -> Row:
        row: Row = {**cells, "prompt": cells[column]}
        keep_target(row, cells)
        return row

    return convert


def from_svamp(cells: Mapping[str, Any]) -> Row:
    """Return a row of SVAMP: body and question are two fields, the answer a float (51.0 becomes "51")."""
    for name in ("Body", "Question"):
        if not isinstance(cells[name], str):
            raise DataError(f"{name} must be text; found {cells[name]!r:.80}")
    body, rest = cells["Body"].strip(), cells["Question"].strip()
    # Some bodies are half a sentence that the question completes ("If there is a discount of 25 dollars"): a comma.
    question = f"{body} {rest}" if not body or body[-1] in ".?!,;:" else f"{body}, {rest}"
    return {**cells, "prompt": question, "target": number_text(cells["Answer"])}


def number_text(value: Any) -> Any:
    """Return a number as one would write it: 51.0 as "51", 2.5 as "2.5"; anything else (NaN, infinity) as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        return value
    return str(int(value)) if value == int(value) else repr(value)


def from_countdown(cells: Mapping[str, Any]) -> Row:
    """Return a Countdown problem with a prompt written here; graders of expressions read `numbers`."""
    numbers = cells["nums"]
    if not isinstance(numbers, list) or not numbers:
        raise DataError(f"nums must be a list of numbers; found {numbers!r:.80}")
    shown = ", ".join(map(str, numbers))
    asked = (
        f"Make {cells['target']} from the numbers {shown}: use each exactly once, with + - * / and brackets."
        " Answer with the expression alone."
    )
    source = cells.get("data_source") or "countdown"
    return {**cells, "data_source": source, "prompt": asked, "numbers": numbers}


def from_pair(cells: Mapping[str, Any]) -> Row:
    """Return prompt and completion, each text or messages, for supervised training."""
    row: Row = dict(cells)
    prompt, completion = cells["prompt"], cells["completion"]
    if isinstance(completion, list):
        if not isinstance(prompt, list):
            raise DataError("the completion is a list of messages, so the prompt must be one too")
        row["messages"] = [*prompt, *completion]
    elif not isinstance(completion, str):
        raise DataError(f"a completion is text or a list of messages, found {type(completion).__name__}")
    # Here a label judges the completion.
    keep_target(row, {key: value for key, value in cells.items() if key != "label"})
    return row


def from_preference(cells: Mapping[str, Any]) -> Row:
    """Return a pair of answers to one prompt: `chosen` and `rejected` are what follows it, as text or messages.

    Without a `prompt` it is what the two begin with alike: whole messages, or a text up to the word in which they
    part. With one, a conversation in `chosen` or `rejected` that begins with it is cut to what follows.
    """
    chosen, rejected, prompt = cells["chosen"], cells["rejected"], cells.get("prompt")
    if type(chosen) is not type(rejected) or not isinstance(chosen, str | list):
        found = f"{type(chosen).__name__} and {type(rejected).__name__}"
        raise DataError(f"chosen and rejected are both text or both lists of messages, found {found}")
    if isinstance(chosen, str):
        if prompt is None:
            prompt, chosen, rejected = text_prefix(chosen, rejected)
    else:
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        shared = common_prefix(chosen, rejected)
        if prompt is None or prompt in (shared[: len(prompt)], shared[-len(prompt) :]):
            prompt, chosen, rejected = shared, chosen[len(shared) :], rejected[len(shared) :]
    if not chosen or not rejected:
        raise DataError("nothing is left of chosen or rejected after the prompt that they share")
    row: Row = {**cells, "prompt": prompt, "chosen": chosen, "rejected": rejected}
    keep_target(row, cells)
    return row


def text_prefix(one: str, other: str) -> tuple[str, str, str]:
    """Return what two texts begin with alike, never up to the middle of a word or number, and the rests.

    A space before the difference belongs to the rests, as tokenizers have it.
    """
    end = len(common_prefix(one, other))
    while end and one[end - 1].isalnum() and any(text[end : end + 1].isalnum() for text in (one, other)):
        end -= 1
    if end and one[end - 1] == " ":
        end -= 1
    return one[:end], one[end:], other[end:]


def common_prefix(one: Prefixed, other: Prefixed) -> Prefixed:
    """Return what two texts, or two lists of messages, begin with alike."""
    end = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:end]


def from_nemo_gym(cells: Mapping[str, Any]) -> Row:
    """Return a row of NeMo Gym: prompt and tools lie in the parameters of a Responses API request."""
    given = cells["responses_create_params"]
    if not isinstance(given, Mapping) or "input" not in given:
        raise DataError(f"responses_create_params must be an object with `input`; found {given!r:.80}")
    prompt, tools = from_responses(given)
    row: Row = {**cells, "prompt": prompt}
    if tools is not None:
        row["tools"] = tools
    keep_target(row, cells)
    return row


def from_chat(cells: Mapping[str, Any]) -> Row:
    """Return a conversation: the prompt is what comes before the last assistant turn (all of it, if there is none)."""
    messages = cells["messages"]
    if not isinstance(messages, list):
        raise DataError(f"messages must be a list; found {type(messages).__name__}")
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


# The first layout that fits is taken, so the ones with more keys come first.
LAYOUTS = (
    PublicLayout("verl", ("prompt", "reward_model"), answer_in("reward_model"), answered=True),
    PublicLayout("SkyRL", ("prompt", "reward_spec"), answer_in("reward_spec"), answered=True),
    PublicLayout("preference", ("chosen", "rejected"), from_preference),
    PublicLayout("prompt-completion", ("prompt", "completion"), from_pair),
    PublicLayout("prompt-only", ("prompt",), prompt_in("prompt")),
    PublicLayout("NeMo Gym", ("responses_create_params",), from_nemo_gym),
    PublicLayout("SVAMP", ("Body", "Question", "Answer"), from_svamp, answered=True),
    PublicLayout("GSM8K", ("question", "answer"), from_gsm8k, answered=True, matches=has_gsm8k_mark),
    PublicLayout("question-answer", ("question", "answer"), prompt_in("question"), answered=True),
    PublicLayout("question", ("question",), prompt_in("question")),
    PublicLayout("chat", ("messages",), from_chat),
    PublicLayout("problem", ("problem",), prompt_in("problem")),
    PublicLayout("Countdown", ("target", "nums"), from_countdown, answered=True),
)
