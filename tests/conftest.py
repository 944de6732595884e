"""What every test stands on: one thread, no network, no service that speaks up, no settings of whoever runs it."""

import os
import shutil
import tempfile

# Before torch or a tokenizer is imported. Two threads on a busy machine are slower than one, and bit-equality needs a
# fixed number.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.pop("RLCORE_PLUGINS", None)
# Proofs of models are made anew, once a session, and not kept among those of whoever runs the tests.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="rlcore-tests-")

import pytest
import torch

from rlcore.shapes import checking

torch.set_num_threads(1)


def pytest_sessionfinish():
    """Remove what the session kept."""
    shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _global_state_is_put_back():
    """A test that seeds or sets a default must not decide what the next one sees; all shapes are checked in tests."""
    state, dtype = torch.random.get_rng_state(), torch.get_default_dtype()
    with checking():
        yield
    torch.random.set_rng_state(state)
    torch.set_default_dtype(dtype)
