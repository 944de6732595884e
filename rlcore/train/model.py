"""A Hugging Face causal language model that is run over packed rows: one after another, without padding.

`pack` makes one flat sequence of rows and keeps which token belongs to which row, `LanguageModel.hidden` returns its
hidden states (differentiable), `LanguageModel.logits` is the head, to be called for a few tokens at a time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlcore.errors import ModelError
from rlcore.train import attention
from rlcore.train.head import LogitScale
from rlcore.train.proof import Proof, prove
from rlcore.train.small_copy import auto_class, reads_images

Precision = Literal["float32", "bfloat16"]
NO_LIMIT = 2**31 - 1
"""Positions of a model that has no limit of its own."""
PROBE = 8
"""Tokens of the row on which the scale of the logits is found."""


@dataclass(frozen=True)
class PackedRows:
    """B rows of up to T tokens as one sequence of N flat tokens.

    `tokens`, `position` `[N]`: ids and their place in their row. `row_index` `[B, T]`: the flat place of token t of
    row b; where rows share a prompt they point to one flat place; 0 beyond the row's `length` `[B]`.
    `query_index` `[N]`: the place b * T + t of the padded grid that belongs to the flat token (the first row's, where
    several share it). Without sharing N is `length.sum()` and the flat order is that of the rows.
    """

    tokens: Tensor
    position: Tensor
    row_index: Tensor
    query_index: Tensor
    length: Tensor

    @property
    def flat_index(self) -> Tensor:
        """Return the place in the flat sequence of every token of every row, `[length.sum()]`, row after row."""
        time = torch.arange(self.row_index.shape[1], device=self.length.device)
        return self.row_index[time < self.length[:, None]]

    def to(self, device: torch.device | str) -> PackedRows:
        """Return the same on a device."""
        return PackedRows(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


def pack(
    tokens: Tensor, length: Tensor, *, prompt_length: Tensor | None = None, group: Tensor | None = None
) -> PackedRows:
    """Return the packed form of rows given end to end: `tokens` `[length.sum()]`, `length` `[B]`.

    With `prompt_length` and `group` (`[B]` each) the prompt of a group lies there once if its rows' first
    `prompt_length` tokens are equal; rows of a group whose prompts differ keep their own copies. The last token of a
    prompt is shared too: what is predicted from it is the same for all.
    """
    length = length.to(torch.int64)
    rows, total = len(length), int(length.sum())
    if tokens.ndim != 1 or len(tokens) != total:
        raise ModelError(f"rows of {total} tokens in all were announced, found tokens of shape {tuple(tokens.shape)}")
    if rows == 0 or int(length.min()) < 1:
        raise ModelError("a row needs at least one token")
    time = torch.arange(int(length.max()), device=tokens.device)
    start = length.cumsum(0) - length
    real = time < length[:, None]
    source = torch.where(real, start[:, None] + time, 0)
    if prompt_length is not None and group is not None:
        owner = _prompt_owner(tokens, length, start, prompt_length.to(torch.int64), group)
        of_prompt = real & (time < prompt_length.to(tokens.device)[:, None])
        source = torch.where(of_prompt, source[owner, : len(time)], source)
    kept, first = _first_places(source, real)
    renumber = torch.empty(total, dtype=torch.int64, device=tokens.device)
    renumber[kept] = torch.arange(len(kept), device=tokens.device)
    position = (torch.arange(total, device=tokens.device) - start.repeat_interleave(length))[kept]
    row_index = torch.where(real, renumber[source], 0)
    return PackedRows(tokens[kept], position, row_index, first, length)


def _prompt_owner(tokens: Tensor, length: Tensor, start: Tensor, prompt_length: Tensor, group: Tensor) -> Tensor:
    """Return for each row the first row of its group with an equal prompt, `[B]`."""
    prompt_length = torch.minimum(prompt_length.to(length.device), length)
    flat, begins, ends = tokens.tolist(), start.tolist(), prompt_length.tolist()
    seen: dict[tuple[int, tuple[int, ...]], int] = {}
    owner = [
        seen.setdefault((name, tuple(flat[begin : begin + end])), row)
        for row, (name, begin, end) in enumerate(zip(group.tolist(), begins, ends, strict=True))
    ]
    return torch.tensor(owner, device=tokens.device)


def _first_places(source: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Return the flat places in use, in row order, and for each the first place of the padded grid that shows it."""
    places = real.flatten().nonzero().flatten()
    sources = source.flatten()[places]
    # Owners come before the rows that share with them, so a source's first place is in the row that it came from.
    first = torch.full((int(sources.max()) + 1,), source.numel(), dtype=torch.int64, device=source.device)
    first.scatter_reduce_(0, sources, places, "amin")
    kept = (first < source.numel()).nonzero().flatten()
    return kept, first[kept]


class LanguageModel:
    """A causal language model with its tokenizer, its end tokens and its limits; `module` holds the parameters.

    The module is left in evaluation mode: dropout is off in training too, so that the probabilities which an update
    compares are those of one network.
    """

    def __init__(self, module: Any, tokenizer: Any, *, proof: Proof | None = None) -> None:
        attention.register()
        self.module: Any = module
        self.tokenizer = tokenizer
        self.config = module.config.get_text_config()
        self.proof = proof if proof is not None else prove(module.config)
        positions = getattr(self.config, "max_position_embeddings", None)
        self.max_positions = int(positions) if positions is not None and positions > 0 else NO_LIMIT
        self.eos_ids = _eos_ids(module, tokenizer)
        module.eval()
        self.scale = self._logit_scale()
        module.set_attn_implementation(attention.NAME if self.proof.way == "packed" else "eager")

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        trust_code: bool = False,
    ) -> LanguageModel:
        """Return the model of a Hugging Face folder (or of a hub id, where transformers may reach the hub).

        Code that comes with a model is run with `trust_code` alone. Raises `ModelError` for a folder that is missing
        or holds no model or tokenizer, for quantized weights, for one that needs code of its own, and for one that is
        not run right, before its weights are read.
        """
        from safetensors import SafetensorError
        from transformers import AutoTokenizer
        from transformers.utils import logging

        attention.register()
        # Its progress bars would be drawn over the run's own.
        logging.disable_progress_bar()
        if isinstance(source, Path) and not source.is_dir():
            raise ModelError(f"no model folder {str(source)!r}")
        config = read_config(source, trust_code=trust_code)
        prove(config)
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=trust_code)
            module, info = auto_class(config).from_pretrained(
                source,
                dtype=dtype,
                attn_implementation=attention.NAME,
                trust_remote_code=trust_code,
                output_loading_info=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"cannot load the model at {str(source)!r}: {error}") from error
        missing = sorted(info["missing_keys"])
        if missing:
            # transformers leaves them random and only logs it.
            raise ModelError(
                f"the weights at {str(source)!r} lack {len(missing)} of the parameters that its config.json asks for: "
                f"{', '.join(missing[:4])}{', ...' if len(missing) > 4 else ''}"
            )
        return cls(module.to(device), tokenizer)

    @property
    def device(self) -> torch.device:
        """Return the device of the parameters."""
        return self.head.weight.device

    @property
    def head(self) -> nn.Linear:
        """Return the output projection; its weight is the embedding's where the two are tied."""
        return self.module.get_output_embeddings()

    @property
    def vocab_size(self) -> int:
        """Return how many ids the model has; it may be more than the tokenizer's."""
        return int(self.head.weight.shape[0])

    @property
    def hidden_size(self) -> int:
        """Return the width of hidden states."""
        return int(self.head.weight.shape[1])

    @property
    def body(self) -> Any:
        """Return what gives the hidden states that the head is applied to."""
        names = (self.module.base_model_prefix, "model", "transformer")
        found = next((getattr(self.module, name) for name in names if hasattr(self.module, name)), None)
        return found if found is not None else self.module.get_decoder()

    @property
    def takes_inputs(self) -> bool:
        """Return whether it reads more than ids, such as images."""
        return reads_images(self.module.config)

    def hidden(self, packed: PackedRows, inputs: Sequence[Mapping[str, Any] | None] | None = None) -> Tensor:
        """Return the final hidden states `[N, H]`, normed, of packed rows; differentiable.

        `inputs` is what each row brings beside its ids, by the names of the model's own arguments (`pixel_values`,
        `image_grid_thw`). A value of one number for each token of a row's prompt (`mm_token_type_ids`) is laid beside
        the ids, 0 for the tokens after it; other values are put end to end, in the order of the rows.

        Raises ModelError for inputs of a model that reads ids alone, and for values that do not fit the rows.
        """
        brought = {name for own in inputs or () for name in own or ()}
        if brought and not self.takes_inputs:
            raise ModelError(
                f"rows bring {', '.join(sorted(brought))}, and {type(self.module).__name__} reads ids alone"
            )
        given = _joined_inputs(inputs, packed) if inputs is not None else {}
        if self.proof.way == "packed":
            layout = attention.PackedLayout(packed.row_index, packed.query_index)
            return self.run(packed.tokens, packed.position, layout)
        # The model's own forward pass, over padded rows; a prompt that rows share is computed for each of them.
        length = packed.row_index.shape[1]
        real = torch.arange(length, device=packed.length.device) < packed.length[:, None]
        ids = packed.tokens[packed.row_index]
        out = self.body(input_ids=ids, attention_mask=real.to(torch.int64), use_cache=False, **given)
        states: Tensor = out.last_hidden_state
        return states.flatten(0, 1).index_select(0, packed.query_index)

    def run(self, tokens: Tensor, position: Tensor, layout: attention.AttentionLayout) -> Tensor:
        """Return the final hidden states `[N, H]` of tokens at their positions; `layout` does the attention."""
        out = self.body(input_ids=tokens[None], position_ids=position[None], use_cache=False, layout=layout)
        return out.last_hidden_state[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits `[n, V]` in float32 of hidden states `[n, H]`, scaled and capped where the model does so."""
        return self.scale(F.linear(hidden, self.head.weight, self.head.bias).float())

    @torch.no_grad()
    def _logit_scale(self) -> LogitScale:
        """Return what the model does to the head's product, as it shows on a short row.

        Raises ModelError where its logits are no scaled product of head and hidden states.
        """
        cap = getattr(self.config, "final_logit_softcapping", None)
        softcap = None if cap is None else float(cap)
        if self.device.type == "meta":
            return LogitScale(softcap=softcap)
        self.module.set_attn_implementation("eager")
        tokens = torch.arange(3, 3 + PROBE, device=self.device)[None] % self.vocab_size
        logits = self.module(input_ids=tokens, use_cache=False).logits[0].float()
        states = self.body(input_ids=tokens, use_cache=False).last_hidden_state[0]
        product = F.linear(states, self.head.weight, self.head.bias).float()
        before = logits
        if softcap is not None:
            before = softcap * (logits / softcap).clamp(-0.9, 0.9).atanh()
        near = before.abs() < 0.8 * (softcap or float("inf"))
        share = float((before * product)[near].sum() / product[near].square().sum().clamp(min=1e-20))
        scale = LogitScale(_nearest_option(share, self.config), softcap)
        difference = float((scale(product) - logits).abs().max() / logits.abs().max().clamp(min=1e-6))
        if not difference < 1e-2:
            raise ModelError(
                f"{type(self.module).__name__}: its logits differ by {difference:.1e} from every scaled product of its "
                f"head and hidden states, so that they cannot be computed for a few tokens at a time"
            )
        return scale

    @contextlib.contextmanager
    def autocast(self, precision: Precision) -> Iterator[None]:
        """Run matrix products in bfloat16 over weights that stay float32, or everything in the weights' own type."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            yield

    def save(self, folder: Path | str) -> None:
        """Write a plain Hugging Face folder, which `AutoModelForCausalLM` and `AutoTokenizer` load.

        Every end token is in its config; code of its own that was trusted goes with it.
        """
        if self.eos_ids:
            ends: int | list[int] = list(self.eos_ids) if len(self.eos_ids) > 1 else self.eos_ids[0]
            self.module.config.eos_token_id = ends
            if getattr(self.module, "generation_config", None) is not None:
                self.module.generation_config.eos_token_id = ends
        self.module.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _joined_inputs(inputs: Sequence[Mapping[str, Any] | None], packed: PackedRows) -> dict[str, Tensor]:
    """Return what rows bring beside ids as the model's own forward pass takes it, on the device of the ids."""
    device, width = packed.tokens.device, packed.row_index.shape[1]
    joined: dict[str, list[Tensor]] = {}
    laid: dict[str, Tensor] = {}
    for row, own in enumerate(inputs):
        for name, value in (own or {}).items():
            tensor = torch.as_tensor(value, device=device)
            tensor = tensor.float() if tensor.is_floating_point() else tensor.long()
            if tensor.dim() == 1 and name.endswith("token_type_ids"):
                place = laid.setdefault(name, torch.zeros(len(inputs), width, dtype=torch.int64, device=device))
                if len(tensor) > int(packed.length[row]):
                    raise ModelError(
                        f"row {row}: {name} has {len(tensor)} numbers for {int(packed.length[row])} tokens"
                    )
                place[row, : len(tensor)] = tensor
            else:
                joined.setdefault(name, []).append(tensor)
    return {**laid, **{name: torch.cat(values) for name, values in joined.items()}}


def read_config(source: str | Path, *, trust_code: bool = False) -> Any:
    """Return the configuration of a model.

    Raises ModelError where transformers cannot read it, where its weights are quantized, and where it needs code of its
    own that is not trusted.
    """
    from transformers import AutoConfig

    own = _config_file(source)
    if own.get("quantization_config"):
        method = dict(own["quantization_config"]).get("quant_method", "of a method that it does not name")
        raise ModelError(
            f"the weights at {str(source)!r} are quantized ({method}): they have no gradient. Train the model that "
            f"they were made from, in full precision, and quantize the result"
        )
    code = sorted(
        {str(name).partition(".")[0].rpartition("--")[2] for name in dict(own.get("auto_map") or {}).values()}
    )
    if trust_code and own and not code:
        raise ModelError(
            f"model.trust_code=true has no effect: the model at {str(source)!r} brings no code of its own (no auto_map "
            f"in its config.json). Remove it"
        )
    try:
        return AutoConfig.from_pretrained(source, trust_remote_code=trust_code)
    except (OSError, ValueError, KeyError) as error:
        if code and not trust_code:
            raise ModelError(
                f"the model at {str(source)!r} needs code of its own ({', '.join(f'{name}.py' for name in code)}). "
                f"Read it; model.trust_code=true runs it"
            ) from error
        raise ModelError(f"no model that transformers can read at {str(source)!r}: {error}") from error


def _config_file(source: str | Path) -> dict[str, Any]:
    """Return a folder's config.json as it is written; empty where there is none to read."""
    try:
        found = json.loads((Path(source) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _nearest_option(scale: float, config: Any) -> float:
    """Return 1, an option of the configuration or one over it where that is the scale but for rounding."""
    options = [float(v) for v in vars(config).values() if isinstance(v, (int, float)) and not isinstance(v, bool) and v]
    for option in (1.0, *options, *(1 / v for v in options)):
        if abs(scale - option) < 1e-4 * abs(option):
            return option
    return scale


def _eos_ids(module: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return every id that ends a text according to the model, its generation settings or its tokenizer, once each."""
    sources = (module.config, getattr(module, "generation_config", None), tokenizer)
    ids: dict[int, None] = {}
    for source in sources:
        value = getattr(source, "eos_token_id", None)
        for identifier in value if isinstance(value, (list, tuple)) else [value]:
            if identifier is not None:
                ids[int(identifier)] = None
    return tuple(ids)
