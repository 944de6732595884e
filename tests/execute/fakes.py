"""A sampler, a trainer, an environment and a reward manager that say what a test wants, and remember what they saw."""

import torch

from rlcore.execute.grader import Grader
from rlcore.execute.local import LocalExecutor, Roles, StepSizes
from rlcore.execute.rollout import Rollout
from rlcore.metrics import Metrics
from rlcore.protocols import (
    Completion,
    Graded,
    RewardManager,
    Sampler,
    SamplingParams,
    Stop,
    TurnEnvironment,
    UpdateResult,
)
from rlcore.seeding import stream
from tests.tiny import character_tokenizer

TOKENIZER = character_tokenizer()


def decode(ids):
    return TOKENIZER.decode(list(ids), skip_special_tokens=True)


def encode(text):
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


class FakeSampler(Sampler):
    """Draws what `answer(request, number)` says, as text or ids; a request is remembered."""

    reports_kept_logmass = True

    def __init__(self, answer=lambda request, number: str(request.seed % 10)):
        self.answer, self.version, self.requests = answer, 0, []

    async def sample(self, request):
        said = self.answer(request, len(self.requests))
        self.requests.append(request)
        ids = encode(said) if isinstance(said, str) else list(said)
        room = request.params.max_new_tokens
        assert room > 0, "a sampler is never asked for nothing"
        stop = Stop.LENGTH if len(ids) > room else Stop.FINISHED
        ids = ids[:room]
        return Completion(ids, [-1.0] * len(ids), [0.0] * len(ids), stop, [self.version] * len(ids))

    def update_weights(self, weights, version):
        self.version = version


class FakeTrainer:
    """Says the same of every token, counts what it is asked, and updates nothing."""

    readouts, frozen = frozenset({"logprob", "entropy", "square_sum", "value"}), False

    def __init__(self, value=-0.5, finite=lambda version: True):
        self.value, self.finite, self.version = value, finite, 0
        self.forwards, self.batches, self.scalars = [], [], []

    def weights(self):
        return {}

    def forward(self, batch, wanted, *, temperature):
        self.forwards.append(dict(wanted))
        return {column: torch.where(batch.flat("sampled"), self.value, 0.0) for column in wanted}

    def update(self, batch, update, *, seed, temperature, scalars, max_new_tokens):
        self.batches.append(batch)
        self.scalars.append(dict(scalars))
        self.version += 1
        metrics = Metrics()
        metrics.put("loss", 0.25)
        return UpdateResult(metrics, self.finite(self.version))

    def state_dict(self):
        return {"version": self.version}

    def load_state_dict(self, state):
        self.version = state["version"]

    def save_model(self, folder):
        raise AssertionError("nothing to save")


class SingleTurn(TurnEnvironment):
    def begin(self, row):
        return row["prompt"]

    def reply(self, row, turns):
        return None


class Scores(RewardManager):
    """A reward manager that scores by a function of the sample."""

    def __init__(self, score):
        self._score, self.samples = score, []

    def score(self, samples):
        self.samples += samples
        return [Graded(float(self._score(sample))) for sample in samples]


def rows(count=20):
    return [{"prompt": f"{i}+{i}=", "target": str(2 * i)} for i in range(count)]


def executor(
    graph,
    *,
    sampler=None,
    score=lambda sample: float(sample.completion or 0),
    trainers=("trainer",),
    environment=None,
    data=None,
    prompts=2,
    group_size=3,
    max_new_tokens=8,
    max_positions=None,
    initial=None,
    **limits,
):
    """A local executor of a graph over fakes; `.fakes` holds them."""
    sampler = sampler or FakeSampler()
    trainers = trainers if isinstance(trainers, dict) else {role: FakeTrainer() for role in trainers}
    manager = Scores(score)
    environment = environment or SingleTurn()
    data = data or rows()
    params = SamplingParams(max_new_tokens=max_new_tokens)
    drawn = []

    def draw(count):
        pairs = [(len(drawn) + i, data[(len(drawn) + i) % len(data)]) for i in range(count)]
        drawn.extend(pairs)
        return pairs

    def sync(role):
        sampler.version = trainers["trainer"].version if "trainer" in trainers else sampler.version
        return sampler.version

    roles = Roles(
        trainers=trainers,
        rollout=Rollout(sampler, TOKENIZER, environment, params, 0, decode, max_positions=max_positions),
        grader=Grader(manager, decode, str),
        draw=draw,
        sync=sync,
    )
    bounds = StepSizes(
        prompts=prompts, group_size=group_size, max_new_tokens=max_new_tokens, temperature=1.0, seed=0, **limits
    )
    made = LocalExecutor(graph, roles, bounds, dict(initial or {}))
    made.fakes = type("Fakes", (), dict(sampler=sampler, trainers=trainers, manager=manager, drawn=drawn, seed=stream))
    return made
