"""Prompts and conversations into token ids, and sampled ids back into text.

Two rules hold everywhere. What the policy has sampled is never encoded again: ids come from the engine and stay. And a
sequence begins with at most one BOS: a conversation has what its template writes; a text prompt has the one that the
tokenizer itself would put first (Llama and Gemma do, Qwen and SmolLM2 do not) and no other special token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeGuard, cast

from rlcore.data.messages import for_template
from rlcore.data.readers import existing_file
from rlcore.data.rows import Row
from rlcore.errors import DataError

Messages = Sequence[Mapping[str, Any]]
Promptable = str | Messages | Sequence[int]


def use_chat_template(tokenizer: Any, template: str) -> None:
    """Give the tokenizer another chat template: its text, or the path of a file that holds it.

    Raises:
        DataError: it is neither a template (which has `{{` or `{%`) nor a file.
    """
    if "{{" in template or "{%" in template:
        tokenizer.chat_template = template
    else:
        tokenizer.chat_template = existing_file(Path(template)).read_text(encoding="utf-8")


def template_options(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row gives its chat template beside the messages: `tools`, and its column `chat_template_kwargs`.

    Raises:
        DataError: tools that are no list of objects; kwargs that are no object, or that rlcore sets itself.
    """
    tools = row.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, Mapping) for tool in tools)):
        raise DataError(f"tools must be a list of objects, which the chat template shows; found {tools!r:.80}")
    given = row.get("chat_template_kwargs") or {}
    if not isinstance(given, Mapping) or OWN & set(given):
        raise DataError(
            f"chat_template_kwargs must be an object of the template's own options, without {', '.join(sorted(OWN))};"
            f" found {given!r:.80}"
        )
    return {**given, "tools": tools}


OWN = frozenset(("tokenize", "add_generation_prompt", "return_dict", "tools", "messages", "chat_template"))
"""Options of a template that rlcore sets."""


def render(tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, reply: bool, **options: Any) -> str:
    """Return the conversation as the template writes it; `reply` adds what comes before an assistant's answer.

    `options` are the template's (see `template_options`).

    Raises:
        DataError: the tokenizer has no chat template, or the template refuses the conversation.
    """
    return str(apply_template(tokenizer, messages, reply=reply, tokenize=False, options=options))


def render_ids(tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, reply: bool, **options: Any) -> list[int]:
    """Return the same as ids, with one BOS if the template writes one or, by mistake, two. Raises as `render` does."""
    return one_bos(tokenizer, list(apply_template(tokenizer, messages, reply=reply, tokenize=True, options=options)))


def apply_template(
    tokenizer: Any, messages: Sequence[Any], *, reply: bool, tokenize: bool, options: Mapping[str, Any]
) -> Any:
    """Return what the tokenizer's template makes of the messages. Raises DataError as `render` does."""
    import jinja2

    check_texts(messages)
    if not getattr(tokenizer, "chat_template", None):
        raise DataError(
            "a prompt of messages needs a chat template, and the model's tokenizer has none."
            " Set model.chat_template to a template or its file, or give prompts as text"
        )
    given = {**options, "tokenize": tokenize, "add_generation_prompt": reply}
    if tokenize:
        given["return_dict"] = False  # otherwise an encoding, not ids
    try:
        return tokenizer.apply_chat_template(for_template(messages), **given)
    except jinja2.TemplateError as error:
        roles = ", ".join(str(message.get("role")) for message in messages)
        raise DataError(f"the chat template refuses messages with roles {roles}: {error}") from error


def check_texts(messages: Sequence[Any]) -> None:
    """Raise DataError for a message with a part that is no text, such as an image: a template would drop it."""
    for number, message in enumerate(messages):
        parts = message.get("content") if isinstance(message, Mapping) else None
        for part in parts if isinstance(parts, list) else ():
            kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
            if kind not in ("text", "input_text", "output_text"):
                raise DataError(
                    f"message {number} (role {message.get('role')!r}) holds a part of the type {kind!r}, and the model "
                    f"reads text alone. Leave such rows out, or take a data set of texts"
                )


def one_bos(tokenizer: Any, ids: list[int]) -> list[int]:
    """Return the ids without a doubled BOS at their head."""
    bos = tokenizer.bos_token_id
    while bos is not None and ids[:2] == [bos, bos]:
        ids = ids[1:]
    return ids


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the text's ids and nothing else: no special token is added."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def encode_prompt(tokenizer: Any, prompt: Promptable, **options: Any) -> list[int]:
    """Return the ids that a policy continues: messages by the chat template, text as it is (with the tokenizer's own
    BOS).

    `options` are the template's: `tools` and others, as `template_options(row)` gives them.

    A prompt that is ids already (one cut to a limit) stays as it is: text made of it could encode to others.

    Raises:
        DataError: messages without a chat template, or a prompt of no tokens.
    """
    if isinstance(prompt, str):
        ids = text_ids(tokenizer, prompt)
        bos = tokenizer.bos_token_id
        # Asked of a letter, not of the prompt: a text that begins with the BOS's own spelling has it already.
        if bos is not None and ids[:1] != [bos] and tokenizer("a")["input_ids"][:1] == [bos]:
            ids = [bos, *ids]
    elif is_ids(prompt):
        ids = list(prompt)
    else:
        ids = render_ids(tokenizer, cast(Messages, prompt), reply=True, **options)
    if not ids:
        raise DataError(f"prompt {prompt!r} has no tokens; a policy needs at least one to continue")
    return ids


def prompt_string(tokenizer: Any, prompt: Promptable, **options: Any) -> str:
    """Return the prompt as the model reads it: text as it is, messages as the template writes them, ids decoded."""
    if isinstance(prompt, str):
        return prompt
    if is_ids(prompt):
        return str(tokenizer.decode(list(prompt), clean_up_tokenization_spaces=False))
    return render(tokenizer, cast(Messages, prompt), reply=True, **options)


def is_ids(prompt: Sequence[Any]) -> TypeGuard[Sequence[int]]:
    """Return whether a prompt that is no text is token ids rather than messages."""
    return all(isinstance(item, int) for item in prompt)


def completion_text(tokenizer: Any, ids: Sequence[int], *, eos_ids: Collection[int] = ()) -> str:
    """Return the text of sampled ids up to the first EOS, special tokens left out: what a reward is given.

    `eos_ids` are all ids that end a sequence for this model; none given means the tokenizer's own.
    """
    ends = set(eos_ids) or {tokenizer.eos_token_id}
    first = next((place for place, token in enumerate(ids) if token in ends), len(ids))
    # Spaces stay as sampled: the clean-up would turn " ." into "." and change what is graded.
    return str(tokenizer.decode(list(ids[:first]), skip_special_tokens=True, clean_up_tokenization_spaces=False))


# Stands for the sampled turn, and occurs in no template.
PLACEHOLDER = "\u241efour\u241e"


def reply_ids(
    tokenizer: Any,
    replies: Messages,
    sampled: Sequence[int],
    *,
    eos_ids: Collection[int] = (),
    **options: Any,
) -> list[int]:
    """Return the ids that follow a sampled turn: its end if it was not sampled, what the template writes between turns,
    the replies (of a user, tools, ...), and the beginning of the next answer. None of them was sampled.

    `sampled` is what the policy drew; it is looked at, never encoded, and earlier turns are not written again: what a
    template would drop of them (thinking) stays, because the policy was there when it was said.

    Raises:
        DataError: a template that does not write out what an assistant said, or refuses the replies.
    """
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PLACEHOLDER}]
    text = render(tokenizer, [*turns, *replies], reply=True, **options)
    if PLACEHOLDER not in text:
        raise DataError("the chat template does not write what an assistant said, so nothing can be put after it")
    ids = text_ids(tokenizer, text.rpartition(PLACEHOLDER)[2])
    ends = set(eos_ids) or {tokenizer.eos_token_id}
    if sampled and sampled[-1] in ends and ids and ids[0] in ends:
        return ids[1:]
    return ids


class TokenRow(NamedTuple):
    """One row to learn from, as ids.

    Attributes:
        tokens: all ids of the row.
        sampled: True at the tokens that are to be learned, of the same length.
        prompt_length: how many tokens stand before the first of them.
        columns: values of further columns by name: a number for the row, or a list with one for each token.
    """

    tokens: list[int]
    sampled: list[bool]
    prompt_length: int
    columns: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class RowEncoder:
    """Turns the texts and messages of data rows into ids for one model: what the component of a `rows` node is given.

    Attributes:
        tokenizer: the model's.
        eos_ids: all ids that end a turn; none means the tokenizer's own.
        max_tokens: the most tokens that the model takes; None where that is not known.
    """

    tokenizer: Any
    eos_ids: tuple[int, ...] = ()
    max_tokens: int | None = None

    def completion(self, row: Row) -> TokenRow:
        """Return a row's prompt and completion (or messages), with what is to be learned marked: `encode_supervised`.

        Raises DataError for a row without either.
        """
        return encode_supervised(self.tokenizer, row, eos_ids=self.eos_ids)

    def answer(self, row: Row, answer: Any) -> TokenRow:
        """Return a row's prompt with an answer in place of its completion: text, a message, or messages of one turn.

        Raises DataError for an answer that is none of these, or empty.
        """
        text = answer_text(answer)
        prompt = row.get("prompt")
        if isinstance(prompt, list) and not is_ids(prompt):
            said = [*prompt, {"role": "assistant", "content": text}]
            return encode_conversation(
                self.tokenizer, said, ends=self._ends, options=template_options(row), first=len(prompt)
            )
        return self.completion({**row, "completion": text})

    def scored(self, row: Row, answer: Any) -> list[int]:
        """Return prompt and answer as a reward model reads them: see `conversation_ids`."""
        return conversation_ids(self.tokenizer, row.get("prompt"), answer_text(answer))

    @property
    def _ends(self) -> set[int]:
        return set(self.eos_ids) or {self.tokenizer.eos_token_id}


def answer_text(answer: Any) -> str:
    """Return the text of an answer: of a text, a message, or a list with one message.

    Raises DataError for anything else, and for an empty one.
    """
    last = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    text = last.get("content") if isinstance(last, Mapping) else last
    if not isinstance(text, str) or not text:
        raise DataError(f"an answer is a text, a message or a list of one message, not empty; found {answer!r:.80}")
    return text


def conversation_ids(tokenizer: Any, prompt: Any, completion: str) -> list[int]:
    """Return prompt and completion as a reward model reads them.

    A prompt of messages and the answer are a conversation in the tokenizer's chat template; a text prompt and the
    answer are one text, with what the tokenizer itself puts before and after. Raises DataError without a template.
    """
    if isinstance(prompt, str):
        return one_bos(tokenizer, list(tokenizer(prompt + completion)["input_ids"]))
    return render_ids(tokenizer, [*prompt, {"role": "assistant", "content": completion}], reply=False)


def encode_supervised(tokenizer: Any, row: Row, *, eos_ids: Collection[int] = ()) -> TokenRow:
    """Return a row with a completion as ids, with the completion and the EOS after it marked.

    A text `completion` follows the prompt exactly as a sampled one would: both are encoded apart, and EOS comes last.
    Of a conversation (`messages`) every assistant turn is marked, up to and with its EOS; a last turn that the
    template leaves without EOS gets one. `eos_ids` are all ids that end a turn; none given means the tokenizer's own.

    Raises:
        DataError: nothing to learn from, no EOS, or a template that rewrites earlier turns, so that a marked token
            would not be one that the policy is ever asked for.
    """
    eos = tokenizer.eos_token_id
    if eos is None:
        raise DataError("supervised rows end with EOS, and the model's tokenizer has no eos_token")
    check_answered(row)
    completion = row.get("completion")
    if isinstance(completion, str):
        prompt = encode_prompt(tokenizer, row["prompt"], **template_options(row))
        tail = text_ids(tokenizer, completion)
        tail = tail if tail[-1:] == [eos] else [*tail, eos]
        return TokenRow([*prompt, *tail], [False] * len(prompt) + [True] * len(tail), len(prompt))
    ends = set(eos_ids) or {eos}
    return encode_conversation(tokenizer, row["messages"], ends=ends, options=template_options(row))


def check_answered(row: Row) -> None:
    """Raise DataError for a row that has neither a completion nor messages with an assistant's turn."""
    messages = row.get("messages")
    if isinstance(row.get("completion"), str):
        return
    if not isinstance(messages, list):
        raise DataError(
            f"a supervised row needs a completion or messages with an assistant turn; keys found: {', '.join(row)}"
        )
    if not any(isinstance(one, Mapping) and one.get("role") == "assistant" for one in messages):
        raise DataError("a supervised conversation needs an assistant turn; it has none")


def encode_conversation(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    *,
    ends: Collection[int],
    options: Mapping[str, Any],
    first: int = 0,
) -> TokenRow:
    """Return a whole conversation as ids, with its assistant turns marked; those before message `first` are not."""
    turns = [place for place, message in enumerate(messages) if message.get("role") == "assistant" and place >= first]
    if not turns:
        raise DataError("a supervised conversation needs an assistant turn; it has none")
    tokens = render_ids(tokenizer, messages[: turns[-1] + 1], reply=False, **options)
    sampled = [False] * len(tokens)
    prompt_length = 0
    for turn in turns:
        before = render_ids(tokenizer, messages[:turn], reply=True, **options)
        if tokens[: len(before)] != before:
            raise DataError(
                f"the chat template writes message {turn} otherwise once later ones follow (it rewrites history),"
                " so its turns cannot stand in one row; give each assistant turn as a row of its own"
            )
        prompt_length = prompt_length or len(before)
        start = len(before)
        stop = next((place + 1 for place in range(start, len(tokens)) if tokens[place] in ends), len(tokens))
        sampled[start:stop] = [True] * (stop - start)
    # What the template writes after the last turn's EOS (a line break) is nothing to learn, and nothing follows it.
    last = max(place for place, marked in enumerate(sampled) if marked) + 1
    tokens, sampled = tokens[:last], sampled[:last]
    if tokens[-1] not in ends:
        tokens, sampled = [*tokens, tokenizer.eos_token_id], [*sampled, True]
    return TokenRow(tokens, sampled, prompt_length)
