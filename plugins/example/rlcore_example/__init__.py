"""An advantage estimator, a loss, a reward, a reward manager and a sampler, offered by one hook."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from rlcore import hookimpl
from rlcore.math import group_mean
from rlcore.protocols import Completion, Graded, Request, Sample, Stop


def above_average(reward: Tensor, group: Tensor, *, scale: float = 1.0) -> Tensor:
    """Advantage [B]: scale where a sample's reward is above its prompt's mean, -scale where it is below, else 0."""
    return scale * (reward - group_mean(reward, group)).sign()


def imitate_the_better(logprob: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """Loss [B, T]: -A log p where A > 0, else 0, so that nothing is unlearnt."""
    return -advantage.clamp(min=0) * logprob * mask


def brief(completion: str, *, characters: int = 16) -> float:
    """1 for an empty completion, falling to 0 at `characters`."""
    return max(0.0, 1.0 - len(completion) / characters)


class Bounded:
    """A reward manager that calls a reward row by row and holds each score between `low` and `high`."""

    def __init__(self, reward: Callable[..., Any], *, low: float = -1.0, high: float = 1.0) -> None:
        self.reward, self.low, self.high = reward, low, high

    def score(self, samples: Sequence[Sample]) -> list[Graded]:
        """Return one grade per sample; one whose reward fails is unscored and says why."""
        return [self._grade(sample) for sample in samples]

    def _grade(self, sample: Sample) -> Graded:
        try:
            score = float(self.reward(sample.completion))
        except Exception as error:  # noqa: BLE001 - whatever a reward raises, the other rows are graded
            return Graded(math.nan, error=repr(error))
        return Graded(min(max(score, self.low), self.high))


class Uniform:
    """A toy sampler: each token is one of the first `vocabulary` ids, all equally likely."""

    reports_kept_logmass = True

    def __init__(self, *, vocabulary: int = 8) -> None:
        self.vocabulary, self.version = vocabulary, 0

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, which depends on the request's own seed alone."""
        return [self._draw(request) for request in requests]

    def _draw(self, request: Request) -> Completion:
        draw, count = random.Random(request.seed), request.params.max_new_tokens
        tokens = [draw.randrange(self.vocabulary) for _ in range(count)]
        return Completion(tokens, [-math.log(self.vocabulary)] * count, [0.0] * count, Stop.LENGTH, self.version)


@hookimpl
def register(add: Any) -> None:
    """Offer the parts."""
    add.advantage("above_average", above_average)
    add.loss("imitate_the_better", imitate_the_better)
    add.reward("brief", brief)
    add.reward_manager("bounded", Bounded)
    add.sampler("uniform", Uniform)
