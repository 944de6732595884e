"""The reward that a sequence classifier gives: checked by its files before anything loads, then rows to numbers."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from rlcore.data import conversation_ids
from rlcore.devices import choose_device
from rlcore.errors import ConfigError, DataError, ModelError, RewardError, nearest
from rlcore.protocols import Sample
from rlcore.weights.sources import HUBS, check_tokenizer, resolve_model
from rlcore_rewards.calling import check_positive
from rlcore_workers import ProcessState, Workers

KIND = "ForSequenceClassification"
UNKNOWN_LENGTH = 10**9
"""A tokenizer that knows no longest text says a number far above this."""
PRELOAD = (__name__, "transformers.modeling_utils", "transformers.models.auto.modeling_auto")
"""Modules that a worker has before it is asked: their import is seconds."""


@dataclass
class LoadedClassifier:
    """A classifier in memory."""

    module: Any
    tokenizer: Any
    label: int
    longest: int | None


class RewardModel(ProcessState):
    """The score that a sequence classifier gives prompt and completion: a logit, or a probability.

    It is loaded when the first completions are there. A row that is too long or gets no finite number has an error of
    its own. If a worker dies or takes too long, each row that it was given has an error, and a new worker takes its
    place. Scores do not depend on what else is graded: padding stands on the right and is not looked at. A decoder
    without a padding token is padded with an id that no row of the batch holds, and read at each row's last token.

    Args:
        path: a folder with a model of a class ...ForSequenceClassification and its tokenizer, `hf:ORG/NAME` or
            `modelscope:ORG/NAME`. No code that comes with it is run, and a head that was not saved is refused.
        label: which output is the score, by name or number; needed where there are several.
        output: "logit", or "probability" (its sigmoid; with several labels their softmax).
        text: "chat" gives prompt and completion as a conversation in the model's own chat template, "plain" as one
            text; "auto" is chat for prompts that are messages.
        max_tokens: the longest row; null for what the model can take.
        too_long: what becomes of a longer one: "error", or its "left" or "right" end is cut off.
        workers: processes, each with its own copy of the model; with 0 it is loaded and called in this process.
        device: where it computes; auto, cuda, cuda:N, mps or cpu.
        dtype: of its weights.
        batch_tokens: the most tokens, padding included, that it is given at once.
        seconds: the longest that a worker may take for its share of a batch, loading included; null for no limit.

    Raises:
        ConfigError: an option that cannot be.
        ModelError: no such folder, another kind of model, weights without their head, no tokenizer, or no such label.
    """

    bounded = True

    def __init__(
        self,
        *,
        path: str = "",
        label: str | int | None = None,
        output: Literal["logit", "probability"] = "logit",
        text: Literal["auto", "chat", "plain"] = "auto",
        max_tokens: int | None = None,
        too_long: Literal["error", "left", "right"] = "error",
        workers: int = 1,
        device: str = "auto",
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        batch_tokens: int = 16384,
        seconds: float | None = 600.0,
    ) -> None:
        if not path:
            raise ConfigError("reward.path must be set: the folder of the reward model, or hf:ORG/NAME")
        if workers < 0:
            raise ConfigError(f"reward.workers={workers}; allowed: 0 or more")
        check_positive(batch_tokens=batch_tokens, max_tokens=max_tokens, seconds=seconds)
        choose_device(device)
        source = path
        if path.partition(":")[0] not in HUBS or Path(path).expanduser().exists():
            # Absolute, so that it means the same wherever it is loaded.
            try:
                source = str(resolve_model(path))
            except ModelError as error:
                raise ModelError(f"reward.path={path}: {error}") from None
            label_index(check_folder(Path(source)), label, source)
            check_tokenizer(Path(source))
        self.source, self.label, self.output, self.text = source, label, output, text
        self.max_tokens, self.too_long, self.batch_tokens = max_tokens, too_long, batch_tokens
        self.device, self.dtype, self.workers, self.seconds = device, dtype, workers, seconds
        self._begin()

    def _begin(self) -> None:
        self._workers: Workers | None = None
        self._loaded: LoadedClassifier | None = None
        self._lock = threading.Lock()
        self._score_rows = self.score_rows  # one object for as long as workers know the function by it

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        prompt: Sequence[str] | None = None,
    ) -> list[float | Exception]:
        """Return for each prompt and completion, in order, the score, or the error that leaves the row without one.

        Both are text or, in a conversation, lists of messages; `prompt` is then the conversation as the policy reads
        it, which `text="plain"` needs.
        """
        read = prompt if prompt is not None else [""] * len(prompts)
        rows = [make_sample(*row) for row in zip(prompts, completions, read, strict=True)]
        if not rows:
            return []
        if not self.workers:
            with self._lock:
                return list(self.score_rows(rows))
        share = -(-len(rows) // self.workers)
        shares = [rows[start : start + share] for start in range(0, len(rows), share)]
        scores: list[float | Exception] = []
        for outcome, sent in zip(self._started().map(self._score_rows, shares), shares, strict=True):
            if isinstance(outcome, ModelError):
                raise outcome
            if isinstance(outcome, Exception):
                why = f"{type(outcome).__name__}: {outcome}"
                error = RewardError(f"the worker of the reward model {self.source!r} failed: {why}")
                outcome = [error] * len(sent)
            scores += outcome
        return scores

    def close(self) -> None:
        """End the workers and let go of the model. The reward model can be used again."""
        with self._lock:
            workers, self._workers, self._loaded = self._workers, None, None
        if workers is not None:
            workers.close()

    def _started(self) -> Workers:
        with self._lock:
            if self._workers is None:
                self._workers = Workers(processes=self.workers, seconds=self.seconds, preload=PRELOAD)
            return self._workers

    @torch.inference_mode()
    def score_rows(self, rows: Sequence[Sample]) -> list[float | RewardError]:
        """Return for each row, in order, its score, or the error that leaves it without one.

        The classifier is loaded at the first call, in the process of that call. Raises ModelError if it cannot be.
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
                folder, dtype=getattr(torch, self.dtype), trust_remote_code=False, output_loading_info=True
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
            ids = conversation_ids(tokenizer, sample.prompt, sample.completion)
        elif not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"the prompts are messages, and the tokenizer of the reward model {self.source!r} has no chat template;"
                f" reward.text=plain gives it the text that the policy sees"
            )
        else:
            ids = conversation_ids(tokenizer, messages, sample.completion)
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


def make_sample(prompt: Any, completion: Any, read: str) -> Sample:
    """Return a prompt and completion as a sample; a completion of messages is what they say, end to end."""
    text = completion if isinstance(completion, str) else "".join(str(one["content"]) for one in completion)
    return Sample(prompt, text, None, {}) if isinstance(prompt, str) else Sample(read, text, prompt, {})


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
