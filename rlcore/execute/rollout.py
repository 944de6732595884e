"""From drawn prompts to rows: sessions of an environment, completed by a sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rlcore.batch import Batch
from rlcore.columns import ColumnTable
from rlcore.data.chat import encode_prompt, reply_ids, template_options, text_ids
from rlcore.data.lengths import TooLong, fit_prompt
from rlcore.errors import DataError, RunError
from rlcore.protocols import Completion, Environment, Request, Sampler, SamplingParams, Stop
from rlcore.seeding import stream
from rlcore.services import generate_completions


@dataclass
class Session:
    """One trajectory on its way: the ids so far, which of them were sampled, and what the sampler reports of each.

    `reported` holds a list for each column that the table marks as drawn: 0 where the policy drew nothing.
    """

    group: int
    number: int
    seed_path: tuple[int | str, ...]
    row: Mapping[str, Any]
    reported: dict[str, list[float]]
    tokens: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    version: list[int] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    prompt_length: int = 0
    stop: Stop = Stop.FINISHED

    @property
    def drawn(self) -> int:
        """Tokens that the policy has drawn."""
        return sum(self.sampled)

    def observe(self, ids: Sequence[int]) -> None:
        """Append tokens that the policy did not draw."""
        self._append(ids, False, -1)
        for values in self.reported.values():
            values += [0.0] * len(ids)

    def take(self, completion: Completion, fields: Mapping[str, str]) -> None:
        """Append what the sampler drew, exactly as it came: nothing is encoded again."""
        self._append(completion.tokens, True, completion.version)
        for column, values in self.reported.items():
            found = getattr(completion, fields[column])
            if len(found) != len(completion.tokens):
                raise RunError(
                    f"the sampler drew {len(completion.tokens)} tokens and gave {len(found)} values for {column!r}; it "
                    f"must give one for each"
                )
            values += found
        self.stop = Stop(completion.stop)

    def _append(self, ids: Sequence[int], sampled: bool, version: int) -> None:
        self.tokens += ids
        self.sampled += [sampled] * len(ids)
        self.version += [version] * len(ids)


@dataclass
class Rollout:
    """Draws `samples` sessions of each prompt and returns them as a batch.

    `decode` turns sampled ids into the text that environments and rewards see. A session ends as cut off (LENGTH) once
    its policy has drawn `max_new_tokens` over all turns, or the row fills the model's `max_positions`. What an
    environment begins with is held to `max_prompt_tokens` (None: no limit) by the same rule as the data set's prompts.
    """

    sampler: Sampler
    tokenizer: Any
    environment: Environment
    params: SamplingParams
    seed: int
    decode: Callable[[Sequence[int]], str]
    max_turns: int = 16
    max_positions: int | None = None
    max_prompt_tokens: int | None = None
    long_prompts: TooLong = "error"
    eos_ids: tuple[int, ...] = ()

    def draw(
        self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]], *, samples: int, table: ColumnTable
    ) -> Batch:
        """Return `len(groups) * samples` rows, the samples of a prompt side by side."""
        fields = {column.name: column.drawn for column in table.values() if column.drawn is not None}
        sessions = [
            self._begin(Session(group, group * samples + i, ("sample", group, i), row, {name: [] for name in fields}))
            for group, row in zip(groups, rows, strict=True)
            for i in range(samples)
        ]
        self._run(sessions, self.params, fields)
        return sessions_batch(sessions, table)

    def greedy(self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
        """Return the greedy completion of each prompt, by group: never trained on."""
        sessions = [
            self._begin(Session(group, group, ("greedy", group), row, {}))
            for group, row in zip(groups, rows, strict=True)
        ]
        self._run(sessions, replace(self.params, greedy=True), {})
        return {s.group: s.tokens[s.prompt_length :] for s in sessions}

    def _begin(self, session: Session) -> Session:
        begun = self.environment.begin(session.row)
        session.observe(self._fitted(encode_prompt(self.tokenizer, begun, **template_options(session.row))))
        session.prompt_length = len(session.tokens)
        return session

    def _fitted(self, ids: list[int]) -> list[int]:
        """Return a prompt within the limit; a row whose own prompt did not fit was left out before."""
        if self.max_prompt_tokens is None:
            return ids
        fitted = fit_prompt(ids, self.max_prompt_tokens, too_long=self.long_prompts)
        if fitted is None:
            raise DataError(
                f"environment {type(self.environment).__name__} begins with a prompt of {len(ids)} tokens, more than "
                f"max_prompt_tokens={self.max_prompt_tokens}, and long_prompts=filter leaves out rows of the data only"
            )
        return fitted

    def _run(self, sessions: Sequence[Session], params: SamplingParams, fields: Mapping[str, str]) -> None:
        open_ = list(sessions)
        for turn in range(self.max_turns):
            if not open_:
                return
            requests = [
                Request(
                    prompt=tuple(s.tokens),
                    params=replace(params, max_new_tokens=self._room(s, params)),
                    seed=stream(self.seed, *s.seed_path, turn),
                    group=s.group,
                )
                for s in open_
            ]
            for s, completion in zip(open_, generate_completions(self.sampler, requests), strict=True):
                s.take(completion, fields)
                s.turns.append(self.decode(completion.tokens))
            open_ = [s for s in open_ if self._continue(s, params)]
        raise RunError(
            f"a session of environment {type(self.environment).__name__} did not end within {self.max_turns} turns"
        )

    def _room(self, session: Session, params: SamplingParams) -> int:
        """Return how many tokens the policy may still draw."""
        room = params.max_new_tokens - session.drawn
        return room if self.max_positions is None else min(room, self.max_positions - len(session.tokens))

    def _continue(self, session: Session, params: SamplingParams) -> bool:
        if session.stop is not Stop.FINISHED:
            return False
        reply = self.environment.reply(session.row, session.turns)
        if reply is None:
            return False
        if isinstance(reply, str):
            observed = text_ids(self.tokenizer, reply)
        else:
            options = template_options(session.row)
            observed = reply_ids(self.tokenizer, reply, session.tokens[-1:], eos_ids=self.eos_ids, **options)
        fits = self.max_positions is None or len(session.tokens) + len(observed) <= self.max_positions
        if fits:
            session.observe(observed)
        if not fits or self._room(session, params) <= 0:
            session.stop = Stop.LENGTH
            return False
        return True


def sessions_batch(sessions: Sequence[Session], table: ColumnTable) -> Batch:
    """Return the sessions as rows; what the policy did not draw has log-probability 0 and version -1."""

    def flat(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([x for s in sessions for x in getattr(s, name)], dtype=dtype)

    sampled = flat("sampled", torch.bool)
    columns: dict[str, Any] = {
        "tokens": flat("tokens", torch.int64),
        "length": torch.tensor([len(s.tokens) for s in sessions]),
        "prompt_length": torch.tensor([s.prompt_length for s in sessions]),
        "sampled": sampled,
        "mask": sampled.clone(),
        "token_version": flat("version", torch.int64),
        "stop": torch.tensor([int(s.stop) for s in sessions]),
        "group": torch.tensor([s.group for s in sessions]),
        "session": torch.tensor([s.number for s in sessions]),
        "segment": torch.zeros(len(sessions), dtype=torch.int64),
    }
    columns |= {name: torch.tensor([x for s in sessions for x in s.reported[name]]) for name in sessions[0].reported}
    keys = dict.fromkeys(key for s in sessions for key in s.row)
    columns |= {f"data.{key}": [s.row.get(key) for s in sessions] for key in keys}
    return Batch(columns, table=table)
