"""The reward that a sequence classifier gives, in worker processes or here."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rlcore.devices import choose_device
from rlcore.errors import ConfigError, ModelError, RewardError
from rlcore.protocols import Sample
from rlcore.weights.sources import HUBS, check_tokenizer, resolve_model
from rlcore_rewards.calling import check_positive
from rlcore_rewards.reward_model.classifier import (
    Classifier,
    Output,
    Text,
    TooLong,
    TypeName,
    check_folder,
    label_index,
)
from rlcore_workers import Workers
from rlcore_workers.process_state import ProcessState

Where = Literal["process", "here"]
PRELOAD = (
    "rlcore_rewards.reward_model.classifier",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
)
"""Modules that a worker has before it is asked: their import is seconds."""


class RewardModel(ProcessState):
    """The score that a sequence classifier gives prompt and completion: a logit, or a probability.

    It is loaded when the first completions are there. A row that is too long or gets no finite number is an error of
    its own; a worker that dies is one of the rows that it had, and another takes its place. Scores do not depend on
    what else is graded: padding stands on the right and is not looked at. A decoder without a padding token is padded
    with an id that no row of the batch holds, and read at each row's last token.

    Args:
        path: a folder with a model of a class ...ForSequenceClassification and its tokenizer, `hf:ORG/NAME` or
            `modelscope:ORG/NAME`. No code that comes with it is run, and a head that was not saved is refused.
        label: which output is the score, by name or number; needed where there are several.
        output: "logit", or "probability" (its sigmoid; with several labels their softmax).
        text: "chat" gives prompt and completion as a conversation in the model's own chat template, "plain" as one
            text; "auto" is chat for prompts that are messages.
        max_tokens: the longest row; null for what the model can take.
        too_long: what becomes of a longer one: "error", or its "left" or "right" end is cut off.
        where: "process" for worker processes of their own, "here" for this one.
        workers: processes, each with its own copy of the model.
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
        output: Output = "logit",
        text: Text = "auto",
        max_tokens: int | None = None,
        too_long: TooLong = "error",
        where: Where = "process",
        workers: int = 1,
        device: str = "auto",
        dtype: TypeName = "float32",
        batch_tokens: int = 16384,
        seconds: float | None = 600.0,
    ) -> None:
        if not path:
            raise ConfigError("reward.path must be set: the folder of the reward model, or hf:ORG/NAME")
        check_positive(workers=workers, batch_tokens=batch_tokens, max_tokens=max_tokens, seconds=seconds)
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
        self.classifier = Classifier(
            source, label=label, output=output, text=text, max_tokens=max_tokens, too_long=too_long, device=device,
            dtype=dtype, batch_tokens=batch_tokens,
        )  # fmt: skip
        self.where, self.workers, self.seconds = where, workers, seconds
        self._begin()

    def _begin(self) -> None:
        self._workers: Workers | None = None
        self._lock = threading.Lock()

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
        if self.where == "here":
            with self._lock:
                return list(self.classifier(rows))
        share = -(-len(rows) // self.workers)
        shares = [rows[start : start + share] for start in range(0, len(rows), share)]
        scores: list[float | Exception] = []
        for outcome, sent in zip(self._started().map(self.classifier, shares), shares, strict=True):
            if isinstance(outcome, ModelError):
                raise outcome
            if isinstance(outcome, Exception):
                why = f"{type(outcome).__name__}: {outcome}"
                outcome = [
                    RewardError(f"the worker of the reward model {self.classifier.source!r} failed: {why}")
                ] * len(sent)
            scores += outcome
        return scores

    def close(self) -> None:
        """End the workers and let go of the model. The reward model can be used again."""
        with self._lock:
            workers, self._workers = self._workers, None
            self.classifier.close()
        if workers is not None:
            workers.close()

    def _started(self) -> Workers:
        with self._lock:
            if self._workers is None:
                self._workers = Workers(processes=self.workers, seconds=self.seconds, preload=PRELOAD)
            return self._workers


def make_sample(prompt: Any, completion: Any, read: str) -> Sample:
    """Return a prompt and completion as a sample; a completion of messages is what they say, end to end."""
    text = completion if isinstance(completion, str) else "".join(str(one["content"]) for one in completion)
    return Sample(prompt, text, None, {}) if isinstance(prompt, str) else Sample(read, text, prompt, {})
