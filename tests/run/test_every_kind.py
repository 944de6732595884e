"""Every kind of the table is chosen by a configuration and does its work there: a fake of each counts its calls."""

import sys

import pytest
import torch

from rlcore import Column
from rlcore.config import load
from rlcore.kinds import KINDS
from rlcore.registry import get
from rlcore.run import Run
from rlcore.testing import (
    FakeEnvironment,
    FakeManager,
    FakeOrder,
    FakeSampler,
    FakeTracker,
    FakeTrainer,
    FakeWeightTransfer,
    counted,
    registered,
)
from tests.run import small

PACKAGE = "experiment_of_a_stranger"
SETTINGS = ["steps=2", "prompts=2", "max_new_tokens=4", "device=cpu", "threads=1"]


def everything(score):
    """Keep all rows."""
    return torch.arange(len(score))


def margin(logits, token):
    """The distance of the two largest logits."""
    return logits.topk(2).values.diff().abs().squeeze(-1)


def of_the_margin(margin_now, advantage, mask):
    """A loss that reads what the readout makes."""
    return -advantage * margin_now * mask


def components():
    """The fakes of what the real trainer works with, by kind."""
    real = {
        "algorithm": "grpo",
        "advantage": "leave_one_out",
        "reduction": "token_mean",
        "kl": "k1",
        "correction": "truncated",
        "shaping": "soft_overlong",
        "select": "top_entropy",
        "controller": "adaptive_kl",
        "optimizer": "adamw",
        "schedule": "linear",
        "order": "sequential",
    }
    fakes = {kind: counted(get(kind, name)) for kind, name in real.items()}
    fakes |= {"filter": counted(everything), "readout": counted(margin), "loss": counted(of_the_margin)}
    fakes["reward"] = counted(small.digits)
    fakes["dataset"] = counted(lambda: small.ROWS)
    return fakes


def services(model):
    """The fakes of what is started, by kind; and of what finds a model or a configuration file."""
    return {
        "reward_manager": FakeManager,
        "environment": FakeEnvironment,
        "sampler": FakeSampler,
        "trainer": FakeTrainer,
        "weight_transfer": FakeWeightTransfer,
        "order": FakeOrder,
        "tracker": FakeTracker,
        "model": counted(lambda *, report=print: model),
        "experiment": f"{PACKAGE}:experiment.yaml",
    }


def trained(fakes, choices, folder, file=None):
    """A run of two steps that chooses the fakes by name."""

    def register(add):
        for kind, fake in fakes.items():
            getattr(add, kind)("fake", fake)
        add.column(
            Column(
                name="margin_now",
                dims=("B", "T"),
                dtype="float",
                meaning="a margin",
                writer="trainer",
                readout="fake",
                current=True,
            )
        )

    with registered(register):
        return Run.of(load([*SETTINGS, f"run.folder={folder}", *choices], file), quiet=True).train()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package that ships a configuration file, importable."""
    folder = tmp_path_factory.mktemp("package")
    (folder / PACKAGE).mkdir()
    (folder / PACKAGE / "__init__.py").write_text("")
    text = "model: fake\ndata: {name: file}\nreward: exact_match\nalgorithm: {name: grpo, group_size: 2}\n"
    (folder / PACKAGE / "experiment.yaml").write_text(text)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def calls(tmp_path_factory, package):
    """How often the fake of each kind was called in two runs of two steps, which together choose one of every kind."""
    folder = tmp_path_factory.mktemp("every_kind")
    model = small.save_model(folder / "model")
    first = components()
    mathematics = ["loss", "advantage", "reduction", "filter", "correction", "shaping", "controller", "selects"]
    further = ["kl_in_reward", "optimizer", "schedule", "algorithm", "reward", "order", "data"]
    chosen = [f"{group}=fake" for group in (*mathematics, *further)]
    numbers = ["algorithm.group_size=2", "algorithm.kl_in_reward_coefficient=0.1"]
    trained(first, [*chosen, *numbers, f"model={model}", "tracker=[]"], folder / "components")
    counts = {kind: fake.calls for kind, fake in first.items()}

    second = services(model)
    rows = small.save_data(folder / "rows.jsonl")
    chosen = ["reward_manager", "environment", "sampler", "trainer", "weight_transfer", "order", "tracker"]
    trained(second, [*(f"{kind}=fake" for kind in chosen), f"data.path={rows}"], folder / "services", file="fake")
    counts |= {kind: sum(fake.started[-1].calls.values()) for kind, fake in second.items() if kind in chosen}
    counts["model"] = second["model"].calls
    # Nothing but the packaged file names the fake model.
    counts["experiment"] = counts["model"]
    return counts


ONCE = {"algorithm", "dataset", "optimizer", "model", "experiment"}
"""Kinds that a run asks when it begins; all others work in each step, and once more in the dry one or not."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_fake_of_every_kind_works_where_a_configuration_chooses_it(calls, kind):
    found = calls[kind]
    assert found >= (1 if kind in ONCE else 2), f"a run of two steps called the {kind} that it chose {found} times"
