import gzip
import json
from pathlib import Path

import pytest

from rlcore_sandbox.local import Sandbox
from rlcore_sandbox.protocol import SandboxError
from rlcore_sandbox.reward import PythonCode


@pytest.fixture(scope="session")
def sandbox():
    made = Sandbox()
    try:
        made.start()
    except SandboxError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture(scope="session")
def grade(sandbox):
    """A reward by its options, on the one sandbox."""

    def reward(**options):
        made = PythonCode(**options)
        made.runner = sandbox
        return made

    return reward


@pytest.fixture(scope="session")
def humaneval():
    with gzip.open(Path(__file__).parent / "data" / "humaneval.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
