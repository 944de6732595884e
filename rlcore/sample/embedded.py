"""The embedded sampler: a decoding loop over the trainer's own parameters.

A sync of weights moves nothing. Prompts are computed once however many requests share one, rows that finish leave,
requests that wait take their places. Transformers' own `generate` is not used: it pads, it computes a group's prompt
once per member, and it cannot say which mass its truncation kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.errors import ModelError
from rlcore.protocols import Completion, Request, SamplingParams, Stop
from rlcore.sample.cache import DecodeLayout, PrefillLayout, SlotCache
from rlcore.sample.decoder import Decoder, decoder_for
from rlcore.sample.draw import SampledTokens, SamplingShape, draw, uniform
from rlcore.sample.stops import StopText
from rlcore.train.model import LanguageModel, Precision, pack

# A prefill takes at most about this many prompt tokens, and the head at most this many logits, at once.
PREFILL_TOKENS = 8192
HEAD_LOGITS = 2**24


class EmbeddedSampler:
    """Draws completions from a `LanguageModel`, in its process and from its own parameters.

    Options: `version` names the weights of the moment; `precision` is "float32" (as the parameters are:
    log-probabilities equal the trainer's to rounding) or "bfloat16" (matrix products in bfloat16, as the trainer's
    autocast makes them); at most `max_rows` rows are in flight, fewer where keys and values would pass `cache_gib`.

    The result of a request depends on its prompt, parameters, seed and the weights. Which rows are computed beside it
    can move a logit by rounding only, hence a draw with a probability of about the rounding (1e-6 in float32).
    """

    reports_kept_logmass = True

    def __init__(
        self,
        model: LanguageModel,
        version: Callable[[], int] = lambda: 0,
        precision: Precision = "float32",
        *,
        max_rows: int = 128,
        cache_gib: float = 2.0,
    ) -> None:
        if precision not in ("float32", "bfloat16"):
            raise ModelError(f"precision {precision!r} is not known; known: bfloat16, float32.")
        if max_rows < 1:
            raise ModelError(f"a sampler needs at least one row in flight; max_rows is {max_rows}")
        self.model = model
        self.precision: Precision = precision
        self.max_rows, self.cache_gib = max_rows, cache_gib
        self._version = version
        self.stops = StopText(model.tokenizer)

    @property
    def version(self) -> int:
        """The version of the weights that the next completion is drawn from."""
        return self._version()

    def weights(self) -> dict[str, Tensor]:
        """Return the live parameters by name that completions are drawn with: the model's own."""
        return dict(self.model.module.named_parameters())

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in order. An end token that was drawn is the completion's last token.

        Raises `ModelError` before anything is computed for ids outside the vocabulary, for a prompt that is empty or
        leaves no room for `max_new_tokens` below the model's positions, and for parameters out of range.
        """
        for place, request in enumerate(requests):
            _check(place, request, self.model)
        if not requests:
            return []
        with torch.inference_mode():
            return _Generation(self, requests, self.version).run()

    def rows_in_flight(self, requests: Sequence[Request]) -> int:
        """How many rows the sampler would keep in flight for these requests."""
        longest = max(len(r.prompt) + r.params.max_new_tokens for r in requests)
        affordable = int(self.cache_gib * 2**30) // (longest * _bytes_per_token(self.model))
        return max(1, min(self.max_rows, len(requests), affordable))


def _check(place: int, request: Request, model: LanguageModel) -> None:
    prompt, params = request.prompt, request.params
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


def _check_params(place: int, params: SamplingParams) -> None:
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
    if getattr(config, "kv_lora_rank", None) is not None:
        width = config.num_attention_heads * (config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim)
    else:
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        width = 2 * config.num_key_value_heads * head
    return 4 * int(config.num_hidden_layers) * int(width)


class _Generation:
    """One call of `generate`: the rows in flight hold slots 0 to n - 1; arrays are `[slots]` or `[slots, ...]`."""

    def __init__(self, sampler: EmbeddedSampler, requests: Sequence[Request], version: int) -> None:
        self.model, self.stops = sampler.model, sampler.stops
        self.requests, self.version = requests, version
        self.decoder: Decoder = decoder_for(sampler.model, sampler.precision)
        self.done: list[Completion | None] = [None] * len(requests)
        self.waiting = deque(_prompts_together(requests))
        self.slots = sampler.rows_in_flight(requests)
        self.rows = 0
        self.cache = SlotCache(self.slots, max(len(r.prompt) + r.params.max_new_tokens for r in requests))
        most = max(r.params.max_new_tokens for r in requests)
        self.request = np.zeros(self.slots, np.int64)
        self.seed = np.zeros(self.slots, np.uint64)
        self.count = np.zeros(self.slots, np.int64)
        self.position = np.zeros(self.slots, np.int64)
        self.limit = np.zeros(self.slots, np.int64)
        self.ends_at_eos = np.zeros(self.slots, bool)
        self.has_stops = np.zeros(self.slots, bool)
        self.shape = SamplingShape(*(torch.zeros(self.slots, dtype=kind) for kind in _SHAPE_TYPES))
        self.tokens = np.zeros((self.slots, most), np.int64)
        self.logprob = np.zeros((self.slots, most), np.float32)
        self.kept_logmass = np.zeros((self.slots, most), np.float32)
        self.eos = np.array(self.model.eos_ids, np.int64)

    def run(self) -> list[Completion]:
        while self.waiting or self.rows:
            free = self.slots - self.rows
            # Prefills in bites: one for each row that leaves would cost a forward pass each.
            if self.waiting and (self.rows == 0 or free >= min(len(self.waiting), max(1, self.slots // 8))):
                self._admit(free)
            if self.rows:
                self._step()
        return [completion for completion in self.done if completion is not None]

    def _admit(self, free: int) -> None:
        first, prompts, prompt_of, total = self.rows, dict[tuple[int, ...], int](), list[int](), 0
        while self.waiting and len(prompt_of) < free:
            request = self.requests[self.waiting[0]]
            if request.prompt not in prompts:
                if prompts and total + len(request.prompt) > PREFILL_TOKENS:
                    break
                total += len(request.prompt)
            prompt_of.append(prompts.setdefault(request.prompt, len(prompts)))
            self._enter(first + len(prompt_of) - 1, self.waiting.popleft())
        self.rows = first + len(prompt_of)
        logits = self._prefill(list(prompts), first, torch.tensor(prompt_of))
        self._record(first, logits)

    def _enter(self, slot: int, index: int) -> None:
        request, params = self.requests[index], self.requests[index].params
        self.request[slot], self.seed[slot] = index, request.seed % 2**64
        self.count[slot], self.position[slot], self.limit[slot] = 0, len(request.prompt), params.max_new_tokens
        self.ends_at_eos[slot] = not params.ignore_eos
        self.has_stops[slot] = bool(params.stop or params.stop_ids)
        for name in SamplingShape._fields:
            getattr(self.shape, name)[slot] = getattr(params, name)

    def _prefill(self, prompts: list[tuple[int, ...]], first: int, prompt_of: Tensor) -> Tensor:
        """Compute the prompts, lay them into the slots from `first` on, and return those rows' first logits."""
        device = self.model.device
        length = torch.tensor([len(prompt) for prompt in prompts])
        packed = pack(torch.tensor([token for prompt in prompts for token in prompt]), length).to(device)
        self.cache.reserve(int(length.max()) + 1)
        prompt_of = prompt_of.to(device)
        layout = PrefillLayout(packed.row_index, packed.query_index, self.cache, first, prompt_of)
        hidden = self.decoder.step(packed.tokens, packed.position, layout)
        last = hidden[length.cumsum(0).to(device) - 1]
        return self._logits(last)[prompt_of]

    def _step(self) -> None:
        device, rows = self.model.device, self.rows
        position = self.position[:rows]
        reach = int(position.max()) + 1
        self.cache.reserve(reach)
        newest = torch.from_numpy(self.tokens[np.arange(rows), self.count[:rows] - 1]).to(device)
        place = torch.from_numpy(position.copy()).to(device)
        hidden = self.decoder.step(newest, place, DecodeLayout(self.cache, place, reach))
        self.position[:rows] += 1
        self._record(0, self._logits(hidden))

    def _logits(self, hidden: Tensor) -> Tensor:
        rows = max(1, HEAD_LOGITS // self.model.vocab_size)
        parts = [self.decoder.logits(part) for part in hidden.split(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _record(self, first: int, logits: Tensor) -> None:
        """Draw a token for the slots from `first` on, and let those that end here go."""
        slots = slice(first, self.rows)
        # NaN and +inf only: -inf is how a model rules a token out.
        bad = ~torch.isfinite(logits.amax(-1))
        if bool(bad.any()):
            place = int(self.request[first + int(bad.nonzero()[0])])
            raise ModelError(f"the model's logits are not finite for request {place}: its weights hold NaN or infinity")
        number = torch.from_numpy(uniform(self.seed[slots], self.count[slots])).to(logits.device)
        drawn: SampledTokens = draw(logits, number, SamplingShape(*(x[slots].to(logits.device) for x in self.shape)))
        token = drawn.token.cpu().numpy()
        at = (np.arange(first, self.rows), self.count[slots])
        self.tokens[at] = token
        self.logprob[at] = drawn.logprob.cpu().numpy()
        self.kept_logmass[at] = drawn.kept_logmass.cpu().numpy()
        self.count[slots] += 1
        finished = np.isin(token, self.eos) & self.ends_at_eos[slots]
        for offset in np.flatnonzero(self.has_stops[slots] & ~finished):
            finished[offset] = self._stopped(first + int(offset))
        out_of_room = self.count[slots] >= self.limit[slots]
        if finished.any() or out_of_room.any():
            self._leave(first, finished, finished | out_of_room)

    def _stopped(self, slot: int) -> bool:
        params = self.requests[self.request[slot]].params
        tokens = self.tokens[slot, : self.count[slot]].tolist()
        return tokens[-1] in params.stop_ids or (bool(params.stop) and self.stops.completed(params.stop, tokens))

    def _leave(self, first: int, finished: NDArray[np.bool_], gone: NDArray[np.bool_]) -> None:
        """Hand over the rows that ended, and close the gaps with the last ones."""
        ended = np.flatnonzero(gone)
        for offset in ended:
            slot, count = first + int(offset), self.count[first + offset]
            self.done[self.request[slot]] = Completion(
                tokens=self.tokens[slot, :count].tolist(),
                logprob=self.logprob[slot, :count].tolist(),
                kept_logmass=self.kept_logmass[slot, :count].tolist(),
                stop=Stop.FINISHED if finished[offset] else Stop.LENGTH,
                version=self.version,
            )
        alive = np.ones(self.rows, bool)
        alive[first + ended] = False
        left = int(alive.sum())
        target, source = np.flatnonzero(~alive[:left]), left + np.flatnonzero(alive[left:])
        if len(target):
            self._move(source, target)
        self.rows = left

    def _move(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> None:
        self.cache.move(source.tolist(), target.tolist(), int(self.position[source].max()))
        arrays = (self.request, self.seed, self.count, self.position, self.limit, self.ends_at_eos, self.has_stops)
        for array in (*arrays, self.tokens, self.logprob, self.kept_logmass):
            array[target] = array[source]
        for column in self.shape:
            column[target] = column[source]


_SHAPE_TYPES = (torch.float32, torch.float32, torch.int64, torch.float32, torch.bool)


def _prompts_together(requests: Sequence[Request]) -> Iterable[int]:
    """The requests' indices in order, those with an equal prompt one after another, so that it is computed once."""
    first: dict[tuple[int, ...], int] = {}
    order = [first.setdefault(request.prompt, index) for index, request in enumerate(requests)]
    return sorted(range(len(requests)), key=order.__getitem__)
