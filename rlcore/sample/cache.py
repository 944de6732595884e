"""Keys and values of the rows in flight, one slot each, and the attention that reads and writes them."""

from __future__ import annotations

import torch
from einops import rearrange, repeat
from torch import Tensor

from rlcore.train.attention import PackedLayout, ScoreOptions


class SlotCache:
    """Per layer a buffer `[slots, key heads, places, width]` for keys and one for values; both grow geometrically.

    Rows in flight hold the slots 0 to n - 1 without gaps, so that a step reads one slice. Buffers are made in the
    type that a layer first writes and start as zeros: a place that is masked off must still be finite. `limit` is the
    longest that a row may become.
    """

    def __init__(self) -> None:
        self.slots = self.limit = self.places = 0
        self._buffers: dict[int, tuple[Tensor, Tensor]] = {}

    def fit(self, slots: int, limit: int) -> None:
        """Hold at least so many slots, and rows of at most `limit` tokens; what is held stays."""
        self.limit = max(self.limit, limit)
        if slots > self.slots:
            self.slots = slots
            self._grow()

    def reserve(self, places: int) -> None:
        """Make room for rows of that many tokens; what is held stays."""
        if places > self.places:
            self.places = min(self.limit, max(places, 2 * self.places, 64))
            self._grow()

    def _grow(self) -> None:
        for layer, pair in self._buffers.items():
            self._buffers[layer] = (self._grown(pair[0]), self._grown(pair[1]))

    def _grown(self, old: Tensor) -> Tensor:
        new = old.new_zeros(self.slots, old.shape[1], self.places, old.shape[3])
        new[: old.shape[0], :, : old.shape[2]] = old
        return new

    def layer(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The two buffers of a layer, made for `[..., key heads, width]` of this key and value if it is its first."""
        if layer not in self._buffers:
            dtype = torch.promote_types(key.dtype, torch.float32)
            self._buffers[layer] = (
                key.new_zeros(self.slots, key.shape[-2], self.places, key.shape[-1], dtype=dtype),
                value.new_zeros(self.slots, value.shape[-2], self.places, value.shape[-1], dtype=dtype),
            )
        return self._buffers[layer]

    def move(self, source: list[int], target: list[int], length: int) -> None:
        """Copy the first `length` places of some slots to others."""
        for key, value in self._buffers.values():
            key[target, :, :length] = key[source, :, :length]
            value[target, :, :length] = value[source, :, :length]

    def copy(self, slot: int, length: int) -> Prefix:
        """Return a copy of the first `length` places of a slot, by layer."""
        return {n: (k[slot, :, :length].clone(), v[slot, :, :length].clone()) for n, (k, v) in self._buffers.items()}

    def paste(self, slot: int, prefix: Prefix) -> None:
        """Lay a copy into a slot."""
        for layer, (key, value) in prefix.items():
            if layer not in self._buffers:
                shape = (self.slots, key.shape[0], self.places)
                self._buffers[layer] = (key.new_zeros(*shape, key.shape[2]), value.new_zeros(*shape, value.shape[2]))
            own_key, own_value = self._buffers[layer]
            own_key[slot, :, : key.shape[1]], own_value[slot, :, : key.shape[1]] = key, value


Prefix = dict[int, tuple[Tensor, Tensor]]
"""Keys and values `[key heads, places, width]` of one row, by layer."""


class PrefillLayout(PackedLayout):
    """Attention within prompts, each given once; lays their keys and values into the slots of the rows that begin so.

    Slot `first` + i takes prompt `prompt_of[i]` of the packed ones.
    """

    def __init__(self, row_index: Tensor, query_index: Tensor, cache: SlotCache, first: int, prompt_of: Tensor) -> None:
        super().__init__(row_index, query_index)
        self._cache, self._first, self._prompt_of = cache, first, prompt_of

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scores: ScoreOptions) -> Tensor:
        """Return attention `[N, heads, value width]`; see `rlcore.train.attention.AttentionLayout`."""
        slots = slice(self._first, self._first + len(self._prompt_of))
        for buffer, new in zip(self._cache.layer(layer, key, value), (key, value), strict=True):
            buffer[slots, :, : self.time] = self._pad(new)[self._prompt_of]
        return super().attend(layer, query, key, value, scores)


class ExtendLayout:
    """Attention of several new tokens in each of some slots, over what a slot holds and themselves.

    Slot `first` + r holds `held[r]` tokens and gets `new[r]` more; the new tokens are packed end to end, `place` is
    where each stands in its row.
    """

    def __init__(self, cache: SlotCache, first: int, held: Tensor, new: Tensor) -> None:
        rows = len(held)
        self._cache, self._slots = cache, slice(first, first + rows)
        self._row = torch.arange(rows, device=held.device).repeat_interleave(new)
        self._step = torch.arange(len(self._row), device=held.device) - (new.cumsum(0) - new)[self._row]
        self.place = held[self._row] + self._step
        self._rows, self._steps, self._reach = rows, int(new.max()), int((held + new).max())
        self._last = held[:, None] + torch.arange(self._steps, device=held.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scores: ScoreOptions) -> Tensor:
        """Return attention `[N, heads, value width]`; see `rlcore.train.attention.AttentionLayout`."""
        heads, held = query.shape[1], key.shape[1]
        keys, values = (buffer[self._slots] for buffer in self._cache.layer(layer, key, value))
        keys[self._row, :, self.place] = key.to(keys.dtype)
        values[self._row, :, self.place] = value.to(values.dtype)
        padded = query.new_zeros(self._rows, self._steps, heads, query.shape[2], dtype=keys.dtype)
        padded[self._row, self._step] = query.to(keys.dtype)
        q = rearrange(padded, "r s (h g) w -> (r h) (s g) w", h=held)
        k, v = (rearrange(buffer[:, :, : self._reach], "r h t w -> (r h) t w") for buffer in (keys, values))
        with torch.autocast(query.device.type, enabled=False):
            out = _attend_slots(q, k, v, self._mask(held, heads // held, scores.window).to(keys.dtype), scores)
        return rearrange(out, "(r h) (s g) w -> r s (h g) w", h=held, s=self._steps)[self._row, self._step]

    def _mask(self, held: int, group: int, window: int | None) -> Tensor:
        """0 where a new token looks, -inf elsewhere: `[R * key heads, steps * group, reach]`."""
        distance = self._last[:, :, None] - torch.arange(self._reach, device=self._last.device)
        hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
        bias = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf"))
        return repeat(bias, "r s t -> (r h) (s g) t", h=held, g=group)


class DecodeLayout:
    """Attention of one new token in each of the first R slots, over what its slot holds and itself.

    `position` `[R]` is the new token's place in its row; `reach` is one more than the largest of them.
    """

    def __init__(self, cache: SlotCache, position: Tensor, reach: int) -> None:
        self._cache, self._position, self._reach = cache, position, reach
        self.rows = len(position)
        self._bias: dict[tuple[int, int | None], Tensor] = {}
        self.places: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scores: ScoreOptions) -> Tensor:
        """Return attention `[R, heads, value width]`; see `rlcore.train.attention.AttentionLayout`."""
        rows, heads, width = query.shape
        held = key.shape[1]
        keys, values = (self._view(b, held) for b in self._cache.layer(layer, key, value))
        pair, place = self._where(held)
        keys.index_put_((pair, place), key.reshape(rows * held, -1).to(keys.dtype))
        values.index_put_((pair, place), value.reshape(rows * held, -1).to(values.dtype))
        keys, values = keys[:, : self._reach], values[:, : self._reach]
        # The query heads of one key head are the rows of one small product: no key is repeated.
        q = query.reshape(rows * held, heads // held, width).to(keys.dtype)
        bias = self._mask(held, scores.window).to(keys.dtype)
        if torch.is_autocast_enabled(query.device.type):
            with torch.autocast(query.device.type, enabled=False):
                out = _attend_slots(q, keys, values, bias, scores)
        else:
            out = _attend_slots(q, keys, values, bias, scores)
        return out.view(rows, heads, -1)

    def _view(self, buffer: Tensor, held: int) -> Tensor:
        return buffer[: self.rows].view(self.rows * held, buffer.shape[2], buffer.shape[3])

    def _where(self, held: int) -> tuple[Tensor, Tensor]:
        if held not in self.places:
            pairs = torch.arange(self.rows * held, device=self._position.device)
            self.places[held] = (pairs, self._position.repeat_interleave(held))
        return self.places[held]

    def _mask(self, held: int, window: int | None) -> Tensor:
        """0 where the new token looks, -inf elsewhere: `[R * key heads, 1, reach]`."""
        if (held, window) not in self._bias:
            distance = self._position[:, None] - torch.arange(self._reach, device=self._position.device)
            hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
            bias = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf"))
            self._bias[held, window] = bias.repeat_interleave(held, 0).unsqueeze(1)
        return self._bias[held, window]


def _attend_slots(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor, options: ScoreOptions) -> Tensor:
    scale, softcap = options.scale, options.softcap
    if softcap is None:
        scores = torch.baddbmm(bias, q, keys.transpose(1, 2), alpha=scale)
    else:
        scores = softcap * torch.tanh(torch.bmm(q, keys.transpose(1, 2)) * (scale / softcap)) + bias
    return torch.bmm(scores.softmax(-1), values)
