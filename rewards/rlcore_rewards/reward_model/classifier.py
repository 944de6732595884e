"""A sequence classifier as a grader: checked by its files before anything loads, then rows of text to numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from rlcore.data.chat import one_bos, render_ids
from rlcore.devices import choose_device
from rlcore.errors import DataError, ModelError, RewardError, nearest
from rlcore.protocols import Sample
from rlcore.weights.sources import resolve_model

TooLong = Literal["error", "left", "right"]
Text = Literal["auto", "chat", "plain"]
Output = Literal["logit", "probability"]
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TypeName = Literal["float32", "bfloat16", "float16"]
KIND = "ForSequenceClassification"
UNKNOWN_LENGTH = 10**9
"""A tokenizer that knows no longest text says a number far above this."""


@dataclass
class LoadedClassifier:
    """A classifier in memory."""

    module: Any
    tokenizer: Any
    label: int
    longest: int | None


@dataclass
class Classifier:
    """Scores of rows, from a sequence classifier that is loaded at the first call, in the process of that call.

    `source` is a model's folder, or what else `resolve_model` takes; the options are those of `RewardModel`.
    """

    source: str
    label: str | int | None = None
    output: Output = "logit"
    text: Text = "auto"
    max_tokens: int | None = None
    too_long: TooLong = "error"
    device: str = "auto"
    dtype: TypeName = "float32"
    batch_tokens: int = 16384

    def __post_init__(self) -> None:
        self._loaded: LoadedClassifier | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @torch.inference_mode()
    def __call__(self, rows: Sequence[Sample]) -> list[float | RewardError]:
        """Return for each row, in order, its score, or the error that leaves it without one.

        Raises:
            ModelError: the classifier cannot be loaded.
        """
        if self._loaded is None:
            self._loaded = self.load()
        loaded = self._loaded
        found: list[float | RewardError] = [RewardError("unscored")] * len(rows)
        encoded: dict[int, list[int]] = {}
        for row, sample in enumerate(rows):
            try:
                encoded[row] = self._encode(loaded, sample)
            except (RewardError, DataError) as error:
                found[row] = RewardError(str(error))
        for batch in batches(encoded, self.batch_tokens):
            for row, score in zip(batch, self._scores(loaded, [encoded[row] for row in batch]), strict=True):
                good = math.isfinite(score)
                found[row] = score if good else RewardError(f"the reward model {self.source!r} gave {score}")
        return found

    def close(self) -> None:
        """Let go of the model; the next call loads it again."""
        self._loaded = None

    def load(self) -> LoadedClassifier:
        """Return the classifier with its tokenizer. Raises ModelError for a folder that holds none whole."""
        from safetensors import SafetensorError
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        folder = resolve_model(self.source)
        config = check_folder(folder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            module, info = AutoModelForSequenceClassification.from_pretrained(
                folder, dtype=TYPES[self.dtype], trust_remote_code=False, output_loading_info=True
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"cannot load the reward model at {str(folder)!r}: {error}") from error
        # transformers would leave these random and say so in a log.
        refuse_missing(folder, [*info["missing_keys"], *(str(key[0]) for key in info["mismatched_keys"])])
        bounds = (self.max_tokens, tokenizer.model_max_length, getattr(config, "max_position_embeddings", None))
        known = [bound for bound in bounds if bound is not None and bound < UNKNOWN_LENGTH]
        label = label_index(config, self.label, folder)
        module = module.to(choose_device(self.device)).eval()
        return LoadedClassifier(module, tokenizer, label, min(known, default=None))

    def _encode(self, loaded: LoadedClassifier, sample: Sample) -> list[int]:
        """Return the ids of a row, as its tokenizer writes them. Raises RewardError for none, or too many."""
        tokenizer = loaded.tokenizer
        messages = sample.messages
        if messages is None and self.text == "chat":
            messages = [{"role": "user", "content": sample.prompt}]
        if messages is None or self.text == "plain":
            ids = one_bos(tokenizer, list(tokenizer(sample.prompt + sample.completion)["input_ids"]))
        elif not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"the prompts are messages, and the tokenizer of the reward model {self.source!r} has no chat template;"
                f" reward.text=plain gives it the text that the policy sees"
            )
        else:
            ids = render_ids(tokenizer, [*messages, {"role": "assistant", "content": sample.completion}], reply=False)
        longest = loaded.longest
        if not ids:
            raise RewardError("prompt and completion have no tokens")
        if longest is not None and len(ids) > longest:
            if self.too_long == "error":
                raise RewardError(
                    f"prompt and completion have {len(ids)} tokens, the reward model {self.source!r} takes {longest};"
                    f" reward.too_long=left or right cuts that side"
                )
            ids = ids[-longest:] if self.too_long == "left" else ids[:longest]
        return ids

    def _scores(self, loaded: LoadedClassifier, rows: Sequence[list[int]]) -> list[float]:
        """Return the chosen label's output for rows of ids, padded on the right: what pads is never looked at."""
        module = loaded.module
        text_config = module.config.get_text_config()
        own = text_config.pad_token_id
        pad = own if own is not None else unused_id(rows)
        width = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=module.device)
        length = torch.tensor([len(row) for row in rows], device=module.device)
        attended = (torch.arange(width, device=module.device) < length[:, None]).to(torch.int64)
        try:
            # A decoder's class reads the score at the last token that is not this one.
            text_config.pad_token_id = pad
            logits = module(input_ids=ids, attention_mask=attended).logits.float()
        finally:
            text_config.pad_token_id = own
        if self.output == "probability":
            logits = logits.sigmoid() if logits.shape[1] == 1 else logits.softmax(-1)
        scores: list[float] = logits[:, loaded.label].tolist()
        return scores


def unused_id(rows: Sequence[Sequence[int]]) -> int:
    """Return the lowest id that no row holds: what a model without a padding token is padded with."""
    used = {token for row in rows for token in row}
    return next(token for token in range(len(used) + 1) if token not in used)


def batches(rows: Mapping[int, Sequence[int]], tokens: int) -> Iterator[list[int]]:
    """Yield the rows' numbers, longest first, in batches of at most so many padded tokens; a longer row goes alone."""
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: (-len(rows[row]), row)):
        if batch and len(rows[batch[0]]) * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def check_folder(folder: Path) -> Any:
    """Return the config of a folder that holds a whole sequence classifier, judged without loading its weights.

    Raises:
        ModelError: it holds another kind of model, or weights without the classifier's own layers: transformers would
            make those up at random.
    """
    from transformers import AutoConfig, AutoModelForSequenceClassification

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"no model that transformers can read at {str(folder)!r}: {error}") from error
    named = list(getattr(config, "architectures", None) or [])
    if not any(name.endswith(KIND) for name in named):
        raise ModelError(
            f"{str(folder)!r} holds {' or '.join(named) or 'a model of no named class'}; a reward model is one of a"
            f" class ...{KIND}, saved with its trained head"
        )
    shapes = saved_shapes(folder)
    if shapes:
        try:
            with torch.device("meta"):
                module = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
        except ValueError as error:
            raise ModelError(f"transformers has no {named[0]} for {str(folder)!r}: {error}") from error
        body = f"{module.base_model_prefix}."
        head = {name: tuple(value.shape) for name, value in module.state_dict().items() if not name.startswith(body)}
        refuse_missing(folder, [name for name, shape in head.items() if shapes.get(name) != shape])
    return config


def saved_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor in a folder's safetensors files, from their headers; empty for other files."""
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as opened:
                shapes |= {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ModelError(f"{str(file)!r} cannot be read: {error}") from error
    return shapes


def refuse_missing(folder: Path, missing: Sequence[str]) -> None:
    """Raise ModelError if parameters are missing."""
    if missing:
        raise ModelError(
            f"the weights at {str(folder)!r} lack {len(missing)} parameters that a reward model needs, or have them in"
            f" another shape: {', '.join(sorted(missing)[:4])}{', ...' if len(missing) > 4 else ''}. Has its head"
            f" been trained and saved?"
        )


def label_index(config: Any, label: str | int | None, folder: Path | str) -> int:
    """Return the index of the label that is the score. Raises ModelError for an unknown or missing choice."""
    names = {int(number): str(name) for number, name in config.id2label.items()}
    listed = ", ".join(f"{number} ({name})" for number, name in sorted(names.items()))
    if label is None and len(names) == 1:
        return next(iter(names))
    if label is None:
        raise ModelError(f"the reward model {str(folder)!r} has {len(names)} labels: {listed}; choose reward.label")
    for number, name in names.items():
        if label in (number, str(number), name):
            return number
    raise ModelError(
        f"reward.label={label!r}: the reward model {str(folder)!r} has the labels {listed}."
        f"{nearest(str(label), names.values())}"
    )
