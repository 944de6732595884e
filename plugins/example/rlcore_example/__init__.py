"""An advantage estimator, a loss, a reward, a reward manager and a sampler, offered by one hook."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from rlcore import Sampler, hookimpl
from rlcore.hooks import Add
from rlcore.math import group_mean
from rlcore.protocols import Completion, Graded, Request, Sample, Stop
from rlcore_rewards.managers import DefaultManager


def above_average(reward: Tensor, group: Tensor, *, scale: float = 1.0) -> Tensor:
    """Advantage [B]: scale where a sample's reward is above its prompt's mean, -scale where it is below, else 0."""
    return scale * (reward - group_mean(reward, group)).sign()


def imitate_the_better(logprob: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """Loss [B, T]: -A log p where A > 0, else 0, so that nothing is unlearnt."""
    return -advantage.clamp(min=0) * logprob * mask


def brief(completion: str, *, characters: int = 16) -> float:
    """Return 1 for an empty completion, falling to 0 at `characters`."""
    return max(0.0, 1.0 - len(completion) / characters)


class Clamped(DefaultManager):
    """The default reward manager, with each score held between `low` and `high`; NaN stays NaN."""

    def __init__(self, reward: Callable[..., Any], *, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__(reward)
        self.low, self.high = low, high

    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """Return one grade per sample, in order."""
        grades = super().score(samples)
        return [g if math.isnan(g.score) else replace(g, score=min(max(g.score, self.low), self.high)) for g in grades]


class Uniform(Sampler):
    """A toy sampler that holds the model and asks it nothing: every id of the vocabulary is equally likely."""

    reports_kept_logmass = True

    def __init__(self, model: Any) -> None:
        self.model = model

    def weights(self) -> dict[str, Tensor]:
        """Return the weights by name: those of the model, so that a run sees that they are the trainer's."""
        return dict(self.model.module.named_parameters())

    def update_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take the version: the weights are the model's own."""
        self.version = version

    async def sample(self, request: Request) -> Completion:
        """Return a completion, which depends on the request's own seed alone."""
        draw, count = random.Random(request.seed), request.params.max_new_tokens
        tokens = [draw.randrange(self.model.vocab_size) for _ in range(count)]
        logprob = [-math.log(self.model.vocab_size)] * count
        return Completion(tokens, logprob, [0.0] * count, Stop.LENGTH, [self.version] * count)


@hookimpl
def register(add: Add) -> None:
    """Register them, each under the name that a configuration chooses it by."""
    add.advantage("above_average", above_average)
    add.loss("imitate_the_better", imitate_the_better)
    add.reward("brief", brief)
    add.reward_manager("clamped", Clamped)
    add.sampler("uniform", Uniform)
