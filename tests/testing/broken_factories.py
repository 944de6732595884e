"""Broken things of the kinds that are no mathematics, each with one fault that a check of rlcore.testing names."""

import itertools
import random

import torch

from rlcore_algorithms.controllers import adaptive_kl

_counter = itertools.count()


def never_at_rest(kl_coefficient):
    """Another number each time."""
    return kl_coefficient + next(_counter)


def whole_matrix(logits, token):
    """A number an entry."""
    return logits


def centred(logits, token):
    """Compares a token with those beside it."""
    return (logits - logits.mean(0)).gather(1, token[:, None])[:, 0]


class Uphill(torch.optim.SGD):
    """Adds the gradient."""

    def __init__(self, parameters, learning_rate):
        super().__init__(parameters, lr=learning_rate, maximize=True)


class Forgetful(torch.optim.SGD):
    """Loses its momentum when it is saved."""

    def __init__(self, parameters, learning_rate):
        super().__init__(parameters, lr=learning_rate, momentum=0.9)

    def load_state_dict(self, state):
        super().load_state_dict({**state, "state": {}})


def starts_at_0(update, total):
    """Wastes the first update."""
    return (update - 1) / total


def without_prompts():
    """Rows of answers alone."""
    return [{"target": "7"}]


class Overdrawn:
    """Counts from 1."""

    def __init__(self, size, seed):
        self.size = size

    def next(self, count):
        return [1 + i % self.size for i in range(count)]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Unsaved(Overdrawn):
    """Draws from a generator that no state holds."""

    def __init__(self, size, seed):
        self.size, self.random = size, random.Random(seed)

    def next(self, count):
        return [self.random.randrange(self.size) for _ in range(count)]


class AlwaysTheFirst:
    """A transfer that never says another version."""

    def sync(self, source, target):
        return 0


def of_no_model(*, report=print):
    """A folder without a model."""
    return "/"


SHELF = [
    ("controller", never_at_rest, "controllers_write_finite_numbers"),
    ("readout", whole_matrix, "readouts_are_one_number_a_token"),
    ("readout", centred, "readouts_read_each_token_alone"),
    ("optimizer", Uphill, "optimizers_go_down_the_gradient"),
    ("optimizer", Forgetful, "optimizers_come_back"),
    ("schedule", starts_at_0, "schedules_stay_between_0_and_1"),
    ("dataset", without_prompts, "datasets_give_rows"),
    ("order", Overdrawn, "orders_draw_from_the_rows"),
    ("order", Unsaved, "orders_come_back"),
    ("weight_transfer", AlwaysTheFirst, "weight_transfers_give_the_version"),
    ("model", of_no_model, "models_are_folders"),
    ("experiment", "rlcore_envs:nowhere.yaml", "experiments_are_files_of_their_package"),
]
"""Kind, broken thing, and the check that names its fault."""

SOUND = [("controller", adaptive_kl), ("experiment", "rlcore_envs:default.yaml")]
"""Sound things of these kinds."""
