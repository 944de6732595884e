"""What the trainer's tests share: small models with the surface of `LanguageModel`, batches, losses and reductions."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch
from torch import nn

from rlcore.batch import Batch
from rlcore.math.reduce import Counts
from rlcore.protocols import Term, Update
from rlcore.train.head import LogitScale
from rlcore.train.trainer import TorchTrainer, TrainerConfig
from tests.tiny import make_tiny

VOCABULARY = 11


class PlainModel:
    """A causal model in any dtype: a token sees the mean of its row so far. Exact in float64."""

    def __init__(self, *, vocabulary=VOCABULARY, width=8, dtype=torch.float64, seed=0):
        state = torch.Generator().manual_seed(seed)
        shapes = {
            "embedding": (vocabulary, width),
            "middle": (width, width),
            "out": (vocabulary, width),
            "bias": (vocabulary,),
        }
        self.module = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(shape, generator=state, dtype=dtype)) for name, shape in shapes.items()}
        )
        self.device = torch.device("cpu")
        self.config = SimpleNamespace(hidden_size=width)
        self.hidden_size, self.vocab_size = width, vocabulary
        self.head = SimpleNamespace(weight=self.module["out"], bias=self.module["bias"])
        self.scale = LogitScale()
        self.positions_run = 0

    def hidden(self, packed):
        self.positions_run += len(packed.tokens)
        rows = self.module["embedding"][packed.tokens][packed.row_index]
        so_far = rows.cumsum(1) / torch.arange(1, rows.shape[1] + 1)[:, None]
        return torch.tanh(so_far @ self.module["middle"]).flatten(0, 1)[packed.query_index]

    def autocast(self, precision):
        return contextlib.nullcontext()


class TableModel(PlainModel):
    """The next token's logits are a row of a table, chosen by the token at hand."""

    def __init__(self, table):
        super().__init__(vocabulary=len(table), width=len(table))
        self.module = nn.ParameterDict({"table": nn.Parameter(torch.as_tensor(table, dtype=torch.float64))})
        self.head = SimpleNamespace(weight=torch.eye(len(table), dtype=torch.float64), bias=None)

    def hidden(self, packed):
        return self.module["table"][packed.tokens]


def trainer(model=None, **settings):
    settings = {"precision": "float32", "learning_rate": 1e-2, "max_grad_norm": None, **settings}
    return TrainerConfig(**settings).start(model or PlainModel())


def tiny_trainer(**settings) -> TorchTrainer:
    return trainer(make_tiny(num_hidden_layers=2), **settings)


def batch(*, groups=3, size=4, vocabulary=VOCABULARY, seed=0, prompt=3, most=6):
    """Rows of several lengths with common prompts; the first row of the second group has nothing on in its mask."""
    state = torch.Generator().manual_seed(seed)
    rows = groups * size
    response = torch.randint(1, most + 1, (rows,), generator=state)
    width = prompt + int(response.max())
    tokens = torch.randint(0, vocabulary, (rows, width), generator=state)
    prompts = torch.randint(0, vocabulary, (groups, prompt), generator=state)
    group = torch.arange(groups).repeat_interleave(size)
    tokens[:, :prompt] = prompts[group]
    time = torch.arange(width)
    sampled = (time >= prompt) & (time < (prompt + response)[:, None])
    mask = sampled & (torch.rand(rows, width, generator=state) < 0.9)
    mask[size] = False
    return Batch(
        {
            "length": prompt + response,
            "prompt_length": torch.full((rows,), prompt),
            "tokens": tokens,
            "sampled": sampled,
            "mask": mask,
            "group": group * 7 + 100,
            "advantage": torch.randn(rows, width, generator=state),
            "old_logprob": -torch.rand(rows, width, generator=state) - 1.5,
            "ref_logprob": -torch.rand(rows, width, generator=state) - 1.5,
        }
    )


def clipped(logprob, old_logprob, advantage, *, clip: float = 0.2):
    ratio = torch.exp(logprob - old_logprob)
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def nll(logprob):
    return -logprob


def spread(entropy):
    return -entropy


def row_nll(logprob, mask):
    return -(logprob * mask).sum(1)


def token_mean(mask, counts: Counts):
    return mask.to(torch.float64) / max(1, counts.tokens)


def row_mean(mask, counts: Counts):
    return mask.any(1).to(torch.float64) / max(1, counts.rows)


def prompt_mean(mask, group, counts: Counts):
    weights = [
        1 / (counts.groups * counts.group_tokens[g]) if g in counts.group_tokens else 0.0 for g in group.tolist()
    ]
    return mask * torch.tensor(weights, dtype=torch.float64)[:, None]


def over_constant(mask, counts: Counts):
    return mask.to(torch.float64) / (counts.rows * counts.max_new_tokens)


UPDATE = Update(
    (
        Term(clipped, token_mean),
        Term(nll, prompt_mean, 0.3, "prompt"),
        Term(row_nll, row_mean, 0.1),
        Term(spread, row_mean, 0.01),
    )
)


def gradients(subject):
    return {name: p.grad.clone() for name, p in subject.model.module.named_parameters() if p.grad is not None}


def weights(subject):
    return {name: p.detach().clone() for name, p in subject.model.module.named_parameters()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
