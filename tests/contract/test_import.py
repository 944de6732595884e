import json
import os
import subprocess
import sys

import pytest

HEAVY = (
    "transformers",
    "ray",
    "hydra",
    "omegaconf",
    "vllm",
    "sglang",
    "datasets",
    "pyarrow",
    "swanlab",
    "wandb",
    "rich",
)
OURS = ("rlcore_algorithms", "rlcore_rewards", "rlcore_answers", "rlcore_sandbox", "rlcore_workers", "rlcore_envs")

MEASURE = """
import json, sys, time
import torch, numpy
begin, before = time.process_time(), set(sys.modules)
import {module}
print(json.dumps({{"cpu_seconds": time.process_time() - begin, "loaded": sorted(set(sys.modules) - before)}}))
"""


def imported(module):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    shown = subprocess.run(
        [sys.executable, "-c", MEASURE.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return json.loads(shown.stdout)


@pytest.fixture(scope="module")
def rlcore_import():
    return imported("rlcore")


def test_importing_rlcore_loads_no_engine_and_no_other_heavy_package(rlcore_import):
    roots = {name.partition(".")[0] for name in rlcore_import["loaded"]}
    assert roots.isdisjoint(HEAVY), roots & set(HEAVY)


def test_importing_rlcore_loads_no_algorithm_reward_or_environment(rlcore_import):
    roots = {name.partition(".")[0] for name in rlcore_import["loaded"]}
    assert roots.isdisjoint(OURS)


def test_importing_rlcore_costs_little_beyond_torch(rlcore_import):
    # It takes below 0.3 s; the limit here is five times that, so that a busy machine does not fail it.
    assert rlcore_import["cpu_seconds"] < 1.5


def test_what_a_run_may_need_is_imported_when_it_starts():
    modules = "rlcore.builtin, rlcore.checkpoint, rlcore.devices, rlcore.tracking"
    roots = {name.partition(".")[0] for name in imported(modules)["loaded"]}
    assert roots.isdisjoint(HEAVY), roots & set(HEAVY)
