"""From drawn prompts to rows: sessions of an environment's episodes, completed by a sampler, each at its own pace."""

from __future__ import annotations

import asyncio
import copy
import logging
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from rlcore.batch import Batch
from rlcore.columns import TOKEN, ColumnTable
from rlcore.data.chat import encode_prompt, reply_ids, template_options, text_ids
from rlcore.data.lengths import TooLong, fit_prompt
from rlcore.errors import DataError, RLCoreError, RunError
from rlcore.event_loop import wait_for
from rlcore.protocols import (
    Completion,
    Environment,
    Episode,
    Message,
    Reply,
    Request,
    Sampler,
    SamplingParams,
    Stop,
    Turn,
)
from rlcore.seeding import stream
from rlcore.services import check_completion, check_episode, check_reply, environment_name, sampler_name

log = logging.getLogger("rlcore")


@dataclass
class SessionRow:
    """One row of a session: the ids so far, which of them were sampled, and what the sampler reports of each.

    `reported` holds a list for each column that the table marks as drawn: 0 where the policy drew nothing. `written`
    are the values of columns that an environment gave, each with the place of the last token then.
    """

    reported: dict[str, list[float]]
    tokens: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    version: list[int] = field(default_factory=list)
    written: list[tuple[str, int, float]] = field(default_factory=list)
    prompt_length: int = 0

    def observe(self, ids: Sequence[int]) -> None:
        """Append tokens that the policy did not draw."""
        self.tokens += ids
        self.sampled += [False] * len(ids)
        self.version += [-1] * len(ids)
        for values in self.reported.values():
            values += [0.0] * len(ids)

    def take(self, completion: Completion, fields: Mapping[str, str]) -> None:
        """Append what the sampler drew, exactly as it came: nothing is encoded again."""
        self.tokens += completion.tokens
        self.sampled += [True] * len(completion.tokens)
        self.version += completion.versions
        for column, values in self.reported.items():
            values += getattr(completion, fields[column])


@dataclass
class Session:
    """One trajectory on its way: rows, of which an environment may begin a new one, and what was said so far.

    `fields` tells for each column that the table marks as drawn which field of a completion it is; `turns` and `drawn`
    are turns and tokens of the policy, over all rows; `error` is what an episode raised; `encoded` are the prompts that
    were encoded for the sessions beside it, by identity: those of one group begin with the same object.
    """

    group: int
    number: int
    seed_path: tuple[int | str, ...]
    row: Mapping[str, Any]
    fields: Mapping[str, str]
    rows: list[SessionRow] = field(default_factory=list)
    conversation: list[Message] = field(default_factory=list)
    turns: int = 0
    drawn: int = 0
    stop: Stop = Stop.FINISHED
    error: str | None = None
    encoded: dict[tuple[int, int], tuple[Any, list[int]]] = field(default_factory=dict)

    @property
    def current(self) -> SessionRow:
        """The row that the policy continues."""
        return self.rows[-1]

    def begin_row(self, ids: Sequence[int]) -> None:
        """Begin a row with a prompt."""
        self.rows.append(SessionRow({name: [] for name in self.fields}))
        self.current.observe(ids)
        self.current.prompt_length = len(ids)

    def take(self, completion: Completion, text: str) -> None:
        """Append a turn of the policy."""
        self.current.take(completion, self.fields)
        self.conversation.append({"role": "assistant", "content": text})
        self.turns += 1
        self.drawn += len(completion.tokens)
        self.stop = completion.stop

    def reward(self, reply: Reply, columns: Sequence[str]) -> None:
        """Note what a reply says of the turn just taken. Raises RunError for a column that is not declared."""
        given = dict(reply.columns)
        if reply.reward is not None:
            self.conversation[-1] = {**self.conversation[-1], "turn_reward": float(reply.reward)}
            if "turn_reward" in columns:
                given["turn_reward"] = float(reply.reward)
        last = len(self.current.tokens) - 1
        for name, value in given.items():
            if name not in columns:
                raise RunError(
                    f"a reply of the environment gives the column {name!r}, which it does not declare; it declares: "
                    f"{', '.join(columns) or 'none'}. Name it in `columns` of what is registered"
                )
            self.current.written.append((name, last, float(value)))

    def say(self, said: str | Sequence[Message] | Sequence[int], role: str) -> None:
        """Note in the conversation what the policy was shown."""
        if isinstance(said, str):
            self.conversation.append({"role": role, "content": said})
        elif said and isinstance(said[0], Mapping):
            self.conversation += said  # type: ignore[arg-type]


@dataclass
class Rollout:
    """Draws `samples` sessions of each prompt and returns them as a batch.

    `decode` turns sampled ids into the text that episodes and rewards see. A session ends as cut off (LENGTH) once its
    policy has drawn `max_new_tokens` over all turns, has had `max_turns` turns, or a row fills the model's
    `max_positions`. What an episode begins with is held to `max_prompt_tokens` (None: no limit) by the same rule as the
    data set's prompts. An episode that raises, or takes more than `turn_seconds` to begin or to answer, ends its own
    session alone, as ENVIRONMENT_ERROR. Token ids are below `vocab_size`; `columns` and `turns` are what the
    environment declares.
    """

    live: ClassVar[bool] = True
    """Its rows are drawn now, by the weights of the moment."""

    sampler: Sampler
    tokenizer: Any
    environment: Environment
    params: SamplingParams
    seed: int
    decode: Callable[[Sequence[int]], str]
    max_turns: int = 16
    turn_seconds: float = 600.0
    max_positions: int | None = None
    max_prompt_tokens: int | None = None
    long_prompts: TooLong = "error"
    eos_ids: tuple[int, ...] = ()
    vocab_size: int | None = None
    columns: tuple[str, ...] = ()
    turns: int | None = None
    # Of this rollout and of copies of it, which share the sampler: calls of `draw` and `greedy` under way.
    under_way: Counter[str] = field(default_factory=Counter)

    def draw(
        self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]], *, samples: int, table: ColumnTable
    ) -> Batch:
        """Return `len(groups) * samples` sessions, the samples of a prompt side by side.

        Raises RunError where not one of them could be had from the environment, with the first traceback.
        """
        fields = {column.name: column.drawn for column in table.values() if column.drawn is not None}
        encoded: dict[tuple[int, int], tuple[Any, list[int]]] = {}
        sessions = [
            Session(group, group * samples + i, ("sample", group, i), row, fields, encoded=encoded)
            for group, row in zip(groups, rows, strict=True)
            for i in range(samples)
        ]
        wait_for(self._run(sessions, self.params))
        self._tell_of_failed(sessions)
        return sessions_batch(sessions, table, self.columns)

    def greedy(self, groups: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> dict[int, list[int] | None]:
        """Return the greedy completion of each prompt, by group: never trained on. None where its episode failed.

        Raises RunError as `draw` does.
        """
        sessions = [Session(group, group, ("greedy", group), row, {}) for group, row in zip(groups, rows, strict=True)]
        wait_for(self._run(sessions, replace(self.params, greedy=True)))
        self._tell_of_failed(sessions)
        return {
            s.group: [t for row in s.rows for t in row.tokens[row.prompt_length :]] if s.error is None else None
            for s in sessions
        }

    def _tell_of_failed(self, sessions: Sequence[Session]) -> None:
        """Warn of sessions whose episodes failed. Raises RunError where all did."""
        failed = [session for session in sessions if session.error is not None]
        if not failed:
            return
        name = environment_name(self.environment)
        if len(failed) == len(sessions):
            raise RunError(f"every episode of environment {name} raised an error; the first:\n{failed[0].error}")
        log.warning(
            "%d of %d episodes of environment %s raised an error and are not scored; the first:\n%s",
            len(failed),
            len(sessions),
            name,
            failed[0].error,
        )

    async def hold(self) -> None:
        """Let the sampler draw no token until `release`, also for calls that begin meanwhile."""
        self.under_way["held"] += 1
        await self.sampler.pause()

    async def release(self) -> None:
        """Go on after `hold`."""
        self.under_way["held"] -= 1
        if self.under_way["calls"] and not self.under_way["held"]:
            await self.sampler.resume()

    async def _run(self, sessions: Sequence[Session], params: SamplingParams) -> None:
        """Let all sessions run at once; the sampler rests when none of any caller is left."""
        self.under_way["calls"] += 1
        try:
            if not self.under_way["held"]:
                await self.sampler.resume()
            async with asyncio.TaskGroup() as tasks:
                for session in sessions:
                    tasks.create_task(self._session(session, params))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self.under_way["calls"] -= 1
            if not self.under_way["calls"]:
                await self.sampler.pause()

    async def _session(self, session: Session, params: SamplingParams) -> None:
        """Run one session to its end."""
        seed = stream(self.seed, *session.seed_path)
        with _Failing(session):
            episode = check_episode(self.environment, self.environment(session.row, seed=seed))
        if session.error is None:
            try:
                await self._turns(session, episode, params)
            finally:
                with _Failing(session):
                    await episode.close()
        if not session.rows:
            # A row of one token, on which nothing is trained: its group goes on without it.
            session.begin_row([0])

    async def _turns(self, session: Session, episode: Episode, params: SamplingParams) -> None:
        with _Failing(session):
            async with self._in_time():
                begun = await episode.begin()
            session.begin_row(self._fitted(session, begun))
        while session.error is None:
            room = self._room(session, params)
            request = Request(
                prompt=tuple(session.current.tokens),
                # The same object where nothing differs: it travels once for all requests of a message.
                params=params if room == params.max_new_tokens else replace(params, max_new_tokens=room),
                seed=stream(self.seed, *session.seed_path, session.turns),
                group=session.group,
                # Where there is no second turn there is nothing to keep.
                session=str(session.number) if self.turns != 1 else "",
                inputs=session.row.get("model_inputs"),
            )
            completion = await self._sampled(request)
            check_completion(self.sampler, request, completion, vocab_size=self.vocab_size)
            session.take(completion, text := self.decode(completion.tokens))
            if session.stop is not Stop.FINISHED:
                return
            with _Failing(session):
                async with self._in_time():
                    reply = await episode.step(Turn(text, completion.tokens, completion.stop))
                if not self._goes_on(session, check_reply(self.environment, reply), params):
                    return

    async def _sampled(self, request: Request) -> Completion:
        """Return what the sampler drew.

        Raises RunError for one that cancels a request which nobody gave up, or that would leave out what it brings.
        """
        if request.inputs and not getattr(self.sampler, "reads_inputs", False):
            raise RunError(
                f"the rows bring {', '.join(request.inputs)}, and sampler {sampler_name(self.sampler)} does not give "
                f"them to the model (reads_inputs)"
            )
        try:
            return await self.sampler.sample(request)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RunError(
                f"sampler {sampler_name(self.sampler)} cancelled a request of group {request.group} ({error!r}); it "
                f"must return a Completion, with Stop.ABORTED where it was aborted"
            ) from error

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Raise TimeoutError where an episode takes longer than it may: an error of the episode, not of the run."""
        try:
            async with asyncio.timeout(self.turn_seconds) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            name = environment_name(self.environment)
            raise TimeoutError(f"{name} did not answer within limits.turn_seconds={self.turn_seconds:g}") from error

    def _goes_on(self, session: Session, reply: Reply | None, params: SamplingParams) -> bool:
        """Show the policy what the episode replied; return whether it has another turn."""
        if reply is None:
            return False
        session.reward(reply, self.columns)
        if reply.restart is not None and not reply.stop:
            try:
                session.begin_row(self._fitted(session, reply.restart))
            except DataError as error:
                raise UnusableReplyError(str(error)) from error
        elif reply.observation is not None:
            session.say(reply.observation, "environment")
            if reply.stop:
                return False
            observed = self._observed(session, reply.observation)
            if not self._fits(session, len(observed)):
                session.stop = Stop.LENGTH
                return False
            session.current.observe(observed)
        if reply.stop or (reply.observation is None and reply.restart is None):
            return False
        if self._room(session, params) <= 0 or session.turns >= self.max_turns:
            session.stop = Stop.LENGTH
            return False
        return True

    def _fitted(self, session: Session, prompt: Any) -> list[int]:
        """Return a prompt's ids within the limit; a row whose own prompt did not fit was left out before."""
        place = (session.group, id(prompt))
        kept = session.encoded.get(place)
        if kept is None or kept[0] != prompt:
            # With a copy: a list may grow and be given again.
            kept = copy.deepcopy(prompt), encode_prompt(self.tokenizer, prompt, **template_options(session.row))
            self._check_ids(kept[1])
            session.encoded[place] = kept
        ids = kept[1]
        session.say(prompt, "user")
        if self.max_prompt_tokens is None:
            return ids
        fitted = fit_prompt(ids, self.max_prompt_tokens, too_long=self.long_prompts)
        if fitted is None:
            raise DataError(
                f"environment {environment_name(self.environment)} begins with a prompt of {len(ids)} tokens, more "
                f"than max_prompt_tokens={self.max_prompt_tokens}, and long_prompts=filter leaves out rows of the data "
                f"only"
            )
        return fitted

    def _observed(self, session: Session, observation: str | Sequence[Message] | Sequence[int]) -> list[int]:
        """Return the ids that stand between two turns of the policy."""
        if isinstance(observation, str):
            return text_ids(self.tokenizer, observation)
        if not observation or not isinstance(observation[0], Mapping):
            self._check_ids(observation)
            return [int(token) for token in observation]  # type: ignore[arg-type]
        messages: Sequence[Message] = observation  # type: ignore[assignment]
        options = template_options(session.row)
        return reply_ids(self.tokenizer, messages, session.current.tokens[-1:], eos_ids=self.eos_ids, **options)

    def _check_ids(self, ids: Sequence[Any]) -> None:
        """Raise UnusableReplyError for what is no id of the vocabulary."""
        limit = self.vocab_size if self.vocab_size is not None else 2**63
        wrong = next((i for i in ids if not hasattr(i, "__index__") or not 0 <= i < limit), None)
        if wrong is not None:
            raise UnusableReplyError(f"{wrong!r} is no id of the model, which are 0 to {limit - 1}")

    def _fits(self, session: Session, more: int) -> bool:
        return self.max_positions is None or len(session.current.tokens) + more <= self.max_positions

    def _room(self, session: Session, params: SamplingParams) -> int:
        """Return how many tokens the policy may still draw."""
        room = params.max_new_tokens - session.drawn
        return room if self.max_positions is None else min(room, self.max_positions - len(session.current.tokens))


class UnusableReplyError(ValueError):
    """What an episode gave cannot be shown to the policy: an error of that episode alone."""


class _Failing:
    """A block in which an error of an episode ends its session; errors that rlcore raises itself pass."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, asyncio.CancelledError):
            # Raised by the episode, unless somebody has cancelled the session.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                return False
        elif error is None or isinstance(error, RLCoreError) or not isinstance(error, (Exception, SystemExit)):
            return False
        self._session.stop = Stop.ENVIRONMENT_ERROR
        self._session.error = self._session.error or "".join(traceback.format_exception(error)).rstrip()
        return True


def sessions_batch(sessions: Sequence[Session], table: ColumnTable, written: Sequence[str] = ()) -> Batch:
    """Return the rows of sessions; what the policy did not draw has log-probability 0 and version -1.

    `written` are columns that an environment declares: 0 where it gave no value.
    """
    pairs = [(session, number, row) for session in sessions for number, row in enumerate(session.rows)]
    rows = [row for _, _, row in pairs]

    def flat(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([x for row in rows for x in getattr(row, name)], dtype=dtype)

    sampled = flat("sampled", torch.bool)
    columns: dict[str, Any] = {
        "tokens": flat("tokens", torch.int64),
        "length": torch.tensor([len(row.tokens) for row in rows]),
        "prompt_length": torch.tensor([row.prompt_length for row in rows]),
        "sampled": sampled,
        "mask": sampled.clone(),
        "token_version": flat("version", torch.int64),
        "stop": torch.tensor([int(session.stop) for session, _, _ in pairs]),
        "group": torch.tensor([session.group for session, _, _ in pairs]),
        "session": torch.tensor([session.number for session, _, _ in pairs]),
        "segment": torch.tensor([number for _, number, _ in pairs]),
        "conversation": [session.conversation for session, _, _ in pairs],
    }
    columns |= {name: torch.tensor([x for row in rows for x in row.reported[name]]) for name in sessions[0].fields}
    columns |= {name: _written(rows, name, table) for name in written}
    if any(session.row.get("model_inputs") for session in sessions):
        columns["model_inputs"] = [session.row.get("model_inputs") for session, _, _ in pairs]
    keys = dict.fromkeys(key for session in sessions for key in session.row)
    columns |= {f"data.{key}": [session.row.get(key) for session, _, _ in pairs] for key in keys}
    return Batch(columns, table=table)


def _written(rows: Sequence[SessionRow], name: str, table: ColumnTable) -> torch.Tensor:
    """Return a declared column of an environment: [N], or [B] with the last value of each row."""
    per_token = table[name].dims == TOKEN
    values = torch.zeros(sum(len(row.tokens) for row in rows) if per_token else len(rows))
    begin = 0
    for number, row in enumerate(rows):
        for column, place, value in row.written:
            if column == name and per_token:
                values[begin + place] += value
            elif column == name:
                values[number] = value
        begin += len(row.tokens)
    return values
