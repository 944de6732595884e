"""The embedded sampler: a decoding loop over the trainer's own parameters.

A sync of weights moves nothing. Requests are batched as they come: a step draws one token for every row in flight, rows
that finish leave, requests that wait take their places. Prompts are computed once however many requests share one.
Transformers' own `generate` is not used: it pads, it computes a group's prompt once per member, and it cannot say which
mass its truncation kept.
"""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.errors import ModelError
from rlcore.protocols import Completion, Request, Sampler, SamplingParams, Stop
from rlcore.sample.cache import DecodeLayout, ExtendLayout, PrefillLayout, Prefix, SlotCache
from rlcore.sample.decoder import Decoder, decoder_for, decoding_of
from rlcore.sample.draw import SampledTokens, SamplingShape, draw, uniform
from rlcore.sample.stops import StopText
from rlcore.services import generate_completions
from rlcore.train.model import LanguageModel, Precision, pack

# A prefill takes at most about this many prompt tokens, and the head at most this many logits, at once.
PREFILL_TOKENS = 8192
HEAD_LOGITS = 2**24


class EmbeddedSampler(Sampler):
    """Draws completions from a `LanguageModel` of its own process: the trainer's, or a copy of its own.

    Options: `precision` is "float32" (as the parameters are: log-probabilities equal the trainer's to rounding) or
    "bfloat16" (matrix products in bfloat16, as the trainer's autocast makes them); at most `max_rows` rows are in
    flight, fewer where keys and values would pass `cache_gib`. Between the turns of a session what was computed of it
    is kept, as far as half of `cache_gib` reaches.

    The result of a request depends on its prompt, parameters, seed and the weights. Which rows are computed beside it
    can move a logit by rounding only, hence a draw with a probability of about the rounding (1e-6 in float32).
    """

    reports_kept_logmass = True

    def __init__(
        self, model: LanguageModel, precision: Precision = "float32", *, max_rows: int = 128, cache_gib: float = 2.0
    ) -> None:
        if precision not in ("float32", "bfloat16"):
            raise ModelError(f"precision {precision!r} is not known; known: bfloat16, float32.")
        if max_rows < 1:
            raise ModelError(f"a sampler needs at least one row in flight; max_rows is {max_rows}")
        self.model = model
        self.precision: Precision = precision
        self.max_rows, self.cache_gib = max_rows, cache_gib
        self.version = 0
        self.stops = StopText(model.tokenizer)
        self._flight: _Flight | None = None
        self._running: asyncio.Task[None] | None = None
        self._paused = False

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]
        """Return whether the model reads images."""
        return self.model.takes_inputs

    def weights(self) -> dict[str, Tensor]:
        """Return the live parameters by name that completions are drawn with: the model's own."""
        return dict(self.model.module.named_parameters())

    def update_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take the version of weights that are the model's own already, and copy those that are not.

        Raises ModelError for a parameter that the model does not have, one of another shape, or a missing one.
        """
        held = self.weights()
        left = set(held)
        with torch.no_grad():
            for name, weight in weights:
                own = held.get(name)
                if own is None or own.shape != weight.shape:
                    found = "the sampler's model has none of that name" if own is None else f"its own is {own.shape}"
                    raise ModelError(f"parameter {name!r} of shape {weight.shape}: {found}")
                if own.data_ptr() != weight.data_ptr():
                    own.copy_(weight)
                left.discard(name)
        if left:
            raise ModelError(f"{len(left)} of {len(held)} parameters were not given, the first {min(left)}")
        self.version = version
        if self._flight is not None:
            self._flight.forget()

    async def sample(self, request: Request) -> Completion:
        """Return the completion of a request. An end token that was drawn is the completion's last token.

        Raises `ModelError` before anything is computed for ids outside the vocabulary, for a prompt that is empty or
        leaves no room for `max_new_tokens` below the model's positions, and for parameters out of range.
        """
        _check(request, self.model)
        loop = asyncio.get_running_loop()
        if self._flight is None:
            self._flight = _Flight(self)
        waiting = _Waiting(request, loop.create_future())
        self._flight.arrived.append(waiting)
        if self._running is None and not self._paused:
            self._running = loop.create_task(self._run())
        return await waiting.answer

    async def _run(self) -> None:
        """Draw until nothing waits and no row is in flight; requests may come between any two steps."""
        flight = self._flight
        assert flight is not None
        try:
            while not self._paused and flight.advance():
                # So that those who were answered can ask for their next turn.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            flight.fail(error)
        finally:
            self._running = None

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in order: `sample` of all of them at once, for use without a coroutine."""
        for request in requests:
            _check(request, self.model)
        return generate_completions(self, requests)

    async def abort(self) -> None:
        """End the requests under way, each with the tokens that it has and `Stop.ABORTED`."""
        if self._flight is not None:
            self._flight.abort()

    async def pause(self) -> None:
        """Draw no more tokens until `resume`; the requests under way wait, so that weights may change."""
        self._paused = True
        if self._running is not None:
            await asyncio.shield(self._running)
        self._free()

    async def resume(self) -> None:
        """Go on after `pause`."""
        self._paused = False
        if self._flight is not None and self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def _free(self) -> None:
        """Let go of fused weights and caches, which are as large as the model, where no request needs them."""
        if self._flight is not None and self._flight.idle:
            self._flight = None

    def rows_in_flight(self, requests: Sequence[Request]) -> int:
        """How many rows the sampler would keep in flight for these requests."""
        longest = max(len(r.prompt) + r.params.max_new_tokens for r in requests)
        return max(1, min(len(requests), self.most_rows(longest)))

    def most_rows(self, longest: int) -> int:
        """How many rows of at most so many tokens may be in flight at once."""
        affordable = int(self.cache_gib * 2**30) // (longest * _bytes_per_token(self.model))
        return max(1, min(self.max_rows, affordable))


@dataclass(frozen=True)
class _Kept:
    """The tokens of a session of which keys and values are kept."""

    tokens: tuple[int, ...]
    cache: Prefix


@dataclass(eq=False)
class _Waiting:
    """A request and whom to answer."""

    request: Request
    answer: asyncio.Future[Completion]


def _check(request: Request, model: LanguageModel) -> None:
    prompt, params, place = request.prompt, request.params, f"of group {request.group}"
    if not prompt:
        raise ModelError(f"request {place}: the prompt has no tokens; at least one is needed to predict from")
    for name, ids in (("prompt", prompt), ("stop_ids", params.stop_ids)):
        low, high = min(ids, default=0), max(ids, default=0)
        if low < 0 or high >= model.vocab_size:
            wrong = low if low < 0 else high
            raise ModelError(
                f"request {place}: id {wrong} of {name} is outside the vocabulary, 0 to {model.vocab_size - 1}"
            )
    if len(prompt) + params.max_new_tokens > model.max_positions:
        raise ModelError(
            f"request {place}: {len(prompt)} prompt tokens + max_new_tokens {params.max_new_tokens} = "
            f"{len(prompt) + params.max_new_tokens} passes the model's {model.max_positions} positions"
        )
    _check_params(place, params)


def _check_params(place: str, params: SamplingParams) -> None:
    allowed = (
        ("max_new_tokens", params.max_new_tokens >= 1, "at least 1"),
        ("temperature", params.temperature > 0, "above 0; for the likeliest token use greedy=True"),
        ("top_p", 0 < params.top_p <= 1, "in (0, 1]"),
        ("top_k", params.top_k >= 0, "0 (off) or more"),
        ("min_p", 0 <= params.min_p <= 1, "in [0, 1]"),
        ("stop", all(params.stop), "strings that are not empty"),
    )
    for name, right, rule in allowed:
        if not right:
            raise ModelError(f"request {place}: {name} is {getattr(params, name)!r}; allowed: {rule}")


def _bytes_per_token(model: LanguageModel) -> int:
    """What keys and values of one token take in float32, all layers together."""
    config = model.config
    try:
        return _bytes_by_heads(config)
    except Exception:  # noqa: BLE001 - a configuration of others says in its own way that it has no such option
        # Heads that differ by layer, or none: about as wide as the hidden states.
        return 8 * int(config.num_hidden_layers) * model.hidden_size


def _bytes_by_heads(config: Any) -> int:
    if getattr(config, "kv_lora_rank", None) is not None:
        width = config.num_attention_heads * (config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim)
    else:
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        width = 2 * (getattr(config, "num_key_value_heads", None) or config.num_attention_heads) * head
    return 4 * int(config.num_hidden_layers) * int(width)


class _Flight:
    """The rows in flight, which hold slots 0 to n - 1, and the requests that wait; arrays are `[slots]` or wider."""

    def __init__(self, sampler: EmbeddedSampler) -> None:
        self.sampler, self.model, self.stops = sampler, sampler.model, sampler.stops
        self.decoder: Decoder | None = None
        self.decoder_made_at = 0
        self.prefixes: OrderedDict[str, _Kept] = OrderedDict()
        self.kept_tokens = 0
        self.arrived: list[_Waiting] = []
        self.waiting: deque[_Waiting] = deque()
        self.rows = self.slots = self.longest = 0
        self.cache = SlotCache()
        self.holder: list[_Waiting] = []
        self.seed = np.zeros(0, np.uint64)
        self.count = np.zeros(0, np.int64)
        self.position = np.zeros(0, np.int64)
        self.limit = np.zeros(0, np.int64)
        self.ends_at_eos = np.zeros(0, bool)
        self.has_stops = np.zeros(0, bool)
        self.shape = SamplingShape(*(torch.zeros(0, dtype=kind) for kind in _SHAPE_TYPES))
        self.tokens = np.zeros((0, 0), np.int64)
        self.logprob = np.zeros((0, 0), np.float32)
        self.kept_logmass = np.zeros((0, 0), np.float32)
        self.version = np.zeros((0, 0), np.int64)
        self.eos = np.array(self.model.eos_ids, np.int64)

    @property
    def idle(self) -> bool:
        """Nothing waits and no row is in flight."""
        return not (self.rows or self.waiting or self.arrived)

    def advance(self) -> bool:
        """Let requests in and draw one token for each row; return whether there is more to do."""
        self._drop_cancelled()
        if self.arrived:
            self._fit()
            self.waiting += _prompts_together(self.arrived)
            self.arrived = []
        if self.idle:
            return False
        with torch.inference_mode():
            self._use_current_weights()
            free = min(self.slots, self.sampler.most_rows(self.longest)) - self.rows
            # Prefills in bites: one for each row that leaves would cost a forward pass each.
            if self.waiting and (self.rows == 0 or free >= min(len(self.waiting), max(1, self.slots // 8))):
                self._admit(max(1, free))
            if self.rows:
                self._step()
        return not self.idle

    def _use_current_weights(self) -> None:
        """Lay the weights out for decoding, again where they have moved since."""
        moved = sum(weight._version for weight in self.model.module.parameters())  # noqa: SLF001 - torch's own counter
        if self.decoder is None or moved != self.decoder_made_at:
            self.forget()
            self.decoder, self.decoder_made_at = decoder_for(self.model, self.sampler.precision), moved

    def forget(self) -> None:
        """Drop what was computed from weights that have changed; rows in flight go on with what they hold."""
        self.decoder, self.kept_tokens = None, 0
        self.prefixes.clear()

    def fail(self, error: Exception) -> None:
        """Tell everyone who waits, and forget all rows."""
        for each in (*self.holder, *self.waiting, *self.arrived):
            if not each.answer.done():
                each.answer.set_exception(error)
        self._clear()

    def abort(self) -> None:
        """End every row with what it has, and every request that waits with nothing."""
        for slot in range(self.rows):
            self._answer(slot, Stop.ABORTED)
        for each in (*self.waiting, *self.arrived):
            if not each.answer.done():
                each.answer.set_result(Completion([], [], [], Stop.ABORTED, []))
        self._clear()

    def _clear(self) -> None:
        self.rows, self.holder, self.arrived = 0, [], []
        self.waiting.clear()

    def _drop_cancelled(self) -> None:
        gone = np.array([each.answer.done() for each in self.holder], bool)
        if gone.any():
            self._close_gaps(gone)

    def _fit(self) -> None:
        """Make room for the requests that arrived: slots as far as they may be more, and rows of their length."""
        requests = [each.request for each in self.arrived]
        self.longest = max(self.longest, *(len(r.prompt) + r.params.max_new_tokens for r in requests))
        wanted = self.rows + len(self.waiting) + len(requests)
        self.slots = max(self.slots, min(self.sampler.most_rows(self.longest), wanted))
        self.cache.fit(self.slots, self.longest)
        width = max(self.tokens.shape[1], *(r.params.max_new_tokens for r in requests))
        for name in ("seed", "count", "position", "limit", "ends_at_eos", "has_stops"):
            setattr(self, name, _widened(getattr(self, name), (self.slots,)))
        for name in ("tokens", "logprob", "kept_logmass", "version"):
            setattr(self, name, _widened(getattr(self, name), (self.slots, width)))
        if len(self.shape[0]) < self.slots:
            more = self.slots - len(self.shape[0])
            self.shape = SamplingShape(*(torch.cat([x, x.new_zeros(more)]) for x in self.shape))

    def _admit(self, free: int) -> None:
        if self._extends(self.waiting[0]):
            self._admit_extended(free)
            return
        first, prompts, prompt_of, total = self.rows, dict[tuple[int, ...], int](), list[int](), 0
        while self.waiting and len(prompt_of) < free:
            prompt = self.waiting[0].request.prompt
            if self._extends(self.waiting[0]):
                break
            if prompt not in prompts:
                if prompts and total + len(prompt) > PREFILL_TOKENS:
                    break
                total += len(prompt)
            prompt_of.append(prompts.setdefault(prompt, len(prompts)))
            self._enter(first + len(prompt_of) - 1, self.waiting.popleft())
        self.rows = first + len(prompt_of)
        logits = self._prefill(list(prompts), first, torch.tensor(prompt_of))
        self._record(first, logits)

    @functools.cached_property
    def _by_whole_rows(self) -> bool:
        """Whether keys and values of this model cannot be kept: then rows are computed whole for each token."""
        return decoding_of(self.model) == "whole rows"

    def _whole_rows(self, rows: list[tuple[int, ...]], inputs: Sequence[Mapping[str, Any] | None]) -> Tensor:
        """Return the logits after each of some rows, as the trainer computes them; `inputs` stand beside their ids."""
        length = torch.tensor([len(row) for row in rows])
        packed = pack(torch.tensor([token for row in rows for token in row]), length).to(self.model.device)
        with self.model.autocast(self.sampler.precision):
            hidden = self.model.hidden(packed, inputs if any(inputs) else None)
        return self._logits(hidden[length.cumsum(0).to(self.model.device) - 1])

    def _extends(self, waiting: _Waiting) -> bool:
        """Tell whether a request goes on with a session of which something was kept."""
        kept, prompt = self.prefixes.get(waiting.request.session), waiting.request.prompt
        # A session that begins anew with the same prompt has nothing new to compute its next token from.
        return kept is not None and len(prompt) > len(kept.tokens) and prompt[: len(kept.tokens)] == kept.tokens

    def _admit_extended(self, free: int) -> None:
        """Let requests in whose session goes on: of their prompts only what is new is computed."""
        first, held, new, tokens = self.rows, list[int](), list[int](), list[int]()
        while self.waiting and len(held) < free and self._extends(self.waiting[0]):
            request = self.waiting[0].request
            if held and len(tokens) + len(request.prompt) - len(self.prefixes[request.session].tokens) > PREFILL_TOKENS:
                break
            kept = self.prefixes.pop(request.session)
            self.kept_tokens -= len(kept.tokens)
            self.cache.reserve(len(request.prompt) + 1)
            self.cache.paste(first + len(held), kept.cache)
            self._enter(first + len(held), self.waiting.popleft())
            tokens += request.prompt[len(kept.tokens) :]
            held.append(len(kept.tokens))
            new.append(len(request.prompt) - len(kept.tokens))
        self.rows = first + len(held)
        device = self.model.device
        before, more = torch.tensor(held, device=device), torch.tensor(new, device=device)
        layout = ExtendLayout(self.cache, first, before, more)
        assert self.decoder is not None
        hidden = self.decoder.step(torch.tensor(tokens, device=device), layout.place, layout)
        self._record(first, self._logits(hidden[more.cumsum(0) - 1]))

    def _keep(self, slot: int) -> None:
        """Keep what was computed of a session for its next turn; the oldest goes where there is no room."""
        waiting, count = self.holder[slot], self.count[slot]
        session, prompt = waiting.request.session, waiting.request.prompt
        if not session or count < 1 or self._by_whole_rows:
            return
        # Of the last token no key was computed: it is the first of the next turn's new ones.
        tokens = (*prompt, *self.tokens[slot, : count - 1].tolist())
        if session in self.prefixes:
            self.kept_tokens -= len(self.prefixes.pop(session).tokens)
        self.prefixes[session] = _Kept(tokens, self.cache.copy(slot, len(tokens)))
        self.kept_tokens += len(tokens)
        while self.kept_tokens > int(self.sampler.cache_gib * 2**29) // _bytes_per_token(self.model):
            _, oldest = self.prefixes.popitem(last=False)
            self.kept_tokens -= len(oldest.tokens)

    def _enter(self, slot: int, waiting: _Waiting) -> None:
        request, params = waiting.request, waiting.request.params
        self.holder.append(waiting)
        self.seed[slot] = request.seed % 2**64
        self.count[slot], self.position[slot], self.limit[slot] = 0, len(request.prompt), params.max_new_tokens
        self.ends_at_eos[slot] = not params.ignore_eos
        self.has_stops[slot] = bool(params.stop or params.stop_ids)
        for name in SamplingShape._fields:
            getattr(self.shape, name)[slot] = getattr(params, name)

    def _prefill(self, prompts: list[tuple[int, ...]], first: int, prompt_of: Tensor) -> Tensor:
        """Compute the prompts, lay them into the slots from `first` on, and return those rows' first logits."""
        if self._by_whole_rows:
            held = [self.holder[first + place].request for place in range(len(prompt_of))]
            if any(request.inputs for request in held):
                return self._whole_rows([request.prompt for request in held], [request.inputs for request in held])
            return self._whole_rows(prompts, [None] * len(prompts))[prompt_of.to(self.model.device)]
        device = self.model.device
        length = torch.tensor([len(prompt) for prompt in prompts])
        packed = pack(torch.tensor([token for prompt in prompts for token in prompt]), length).to(device)
        self.cache.reserve(int(length.max()) + 1)
        prompt_of = prompt_of.to(device)
        layout = PrefillLayout(packed.row_index, packed.query_index, self.cache, first, prompt_of)
        assert self.decoder is not None
        hidden = self.decoder.step(packed.tokens, packed.position, layout)
        last = hidden[length.cumsum(0).to(device) - 1]
        return self._logits(last)[prompt_of]

    def _step(self) -> None:
        device, rows = self.model.device, self.rows
        if self._by_whole_rows:
            drawn = zip(self.tokens[:rows].tolist(), self.count[:rows].tolist(), self.holder[:rows], strict=True)
            whole = [(*each.request.prompt, *tokens[:count]) for tokens, count, each in drawn]
            self.position[:rows] += 1
            self._record(0, self._whole_rows(whole, [each.request.inputs for each in self.holder[:rows]]))
            return
        position = self.position[:rows]
        reach = int(position.max()) + 1
        self.cache.reserve(reach)
        newest = torch.from_numpy(self.tokens[np.arange(rows), self.count[:rows] - 1]).to(device)
        place = torch.from_numpy(position.copy()).to(device)
        assert self.decoder is not None
        hidden = self.decoder.step(newest, place, DecodeLayout(self.cache, place, reach))
        self.position[:rows] += 1
        self._record(0, self._logits(hidden))

    def _logits(self, hidden: Tensor) -> Tensor:
        rows = max(1, HEAD_LOGITS // self.model.vocab_size)
        assert self.decoder is not None
        parts = [self.decoder.logits(part) for part in hidden.split(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _record(self, first: int, logits: Tensor) -> None:
        """Draw a token for the slots from `first` on, and let those that end here go."""
        slots = slice(first, self.rows)
        # NaN and +inf only: -inf is how a model rules a token out.
        bad = ~torch.isfinite(logits.amax(-1))
        if bool(bad.any()):
            group = self.holder[first + int(bad.nonzero()[0])].request.group
            raise ModelError(
                f"the model's logits are not finite for a request of group {group}: its weights hold NaN or infinity"
            )
        number = torch.from_numpy(uniform(self.seed[slots], self.count[slots])).to(logits.device)
        drawn: SampledTokens = draw(logits, number, SamplingShape(*(x[slots].to(logits.device) for x in self.shape)))
        token = drawn.token.cpu().numpy()
        at = (np.arange(first, self.rows), self.count[slots])
        self.tokens[at] = token
        self.logprob[at] = drawn.logprob.cpu().numpy()
        self.kept_logmass[at] = drawn.kept_logmass.cpu().numpy()
        self.version[at] = self.sampler.version
        self.count[slots] += 1
        finished = np.isin(token, self.eos) & self.ends_at_eos[slots]
        for offset in np.flatnonzero(self.has_stops[slots] & ~finished):
            finished[offset] = self._stopped(first + int(offset))
        out_of_room = self.count[slots] >= self.limit[slots]
        if finished.any() or out_of_room.any():
            self._leave(first, finished, finished | out_of_room)

    def _stopped(self, slot: int) -> bool:
        params = self.holder[slot].request.params
        tokens = self.tokens[slot, : self.count[slot]].tolist()
        return tokens[-1] in params.stop_ids or (bool(params.stop) and self.stops.completed(params.stop, tokens))

    def _leave(self, first: int, finished: NDArray[np.bool_], gone: NDArray[np.bool_]) -> None:
        """Answer the rows that ended, and close the gaps with the last ones."""
        leaving = np.zeros(self.rows, bool)
        leaving[first:] = gone
        for offset in np.flatnonzero(gone):
            if finished[offset]:
                self._keep(first + int(offset))
            self._answer(first + int(offset), Stop.FINISHED if finished[offset] else Stop.LENGTH)
        self._close_gaps(leaving)

    def _answer(self, slot: int, stop: Stop) -> None:
        count, waiting = self.count[slot], self.holder[slot]
        if waiting.answer.done():
            return
        waiting.answer.set_result(
            Completion(
                tokens=self.tokens[slot, :count].tolist(),
                logprob=self.logprob[slot, :count].tolist(),
                kept_logmass=self.kept_logmass[slot, :count].tolist(),
                stop=stop,
                versions=self.version[slot, :count].tolist(),
            )
        )

    def _close_gaps(self, gone: NDArray[np.bool_]) -> None:
        """Move the last rows to the places of those that are gone."""
        left = int((~gone).sum())
        target, source = np.flatnonzero(gone[:left]), left + np.flatnonzero(~gone[left:])
        if len(target):
            self._move(source, target)
        self.rows, self.holder = left, self.holder[:left]

    def _move(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> None:
        self.cache.move(source.tolist(), target.tolist(), int(self.position[source].max()))
        arrays = (self.seed, self.count, self.position, self.limit, self.ends_at_eos, self.has_stops)
        for array in (*arrays, self.tokens, self.logprob, self.kept_logmass, self.version):
            array[target] = array[source]
        for column in self.shape:
            column[target] = column[source]
        for to, place in zip(target.tolist(), source.tolist(), strict=True):
            self.holder[to] = self.holder[place]


def _widened(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array with at least that many entries along each axis, zeros where it had none."""
    wanted = tuple(max(old, new) for old, new in zip(array.shape, shape, strict=True))
    if wanted == array.shape:
        return array
    wide = np.zeros(wanted, array.dtype)
    wide[tuple(slice(old) for old in array.shape)] = array
    return wide


_SHAPE_TYPES = (torch.float32, torch.float32, torch.int64, torch.float32, torch.bool)


def _prompts_together(waiting: Sequence[_Waiting]) -> list[_Waiting]:
    """Return the requests in order, those with an equal prompt one after another, so that it is computed once."""
    first: dict[tuple[int, ...], int] = {}
    order = [first.setdefault(each.request.prompt, index) for index, each in enumerate(waiting)]
    return [waiting[index] for index in sorted(range(len(waiting)), key=order.__getitem__)]
