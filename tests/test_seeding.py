import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from rlcore.errors import ConfigError
from rlcore.seeding import generator, numpy_generator, seeded, stream


def test_a_stream_never_changes_between_versions():
    # SHA-256 of the text [1,"sample",2], its first eight bytes, shifted right by one bit:
    # printf '[1,"sample",2]' | sha256sum
    assert stream(1, "sample", 2) == 7_731_637_808_244_476_977


def test_streams_are_distinct_over_every_part_of_the_path():
    seeds = {
        stream(seed, purpose, step, group, sample)
        for seed in (0, 1, -1)
        for purpose in ("sample", "order")
        for step in range(5)
        for group in range(10)
        for sample in range(8)
    }
    assert len(seeds) == 3 * 2 * 5 * 10 * 8
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_parts_are_not_run_together():
    assert len({stream(0, 1, 23), stream(0, 12, 3), stream(0, "1", 23), stream(0, "1,23"), stream(0, 123)}) == 5


def test_numbers_of_other_libraries_name_the_same_stream():
    assert stream(np.int64(3), torch.tensor(5).item(), np.int32(7)) == stream(3, 5, 7)


@pytest.mark.parametrize("part", [1.0, None, (1, 2)])
def test_a_part_that_is_neither_integer_nor_string_is_refused(part):
    with pytest.raises(ConfigError, match="integers and strings"):
        stream(0, part)


def test_another_process_draws_the_same():
    code = "from rlcore.seeding import stream; print(stream(7, 'order', 3))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert int(shown.stdout) == stream(7, "order", 3)


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "12"}


def test_generators_repeat_and_differ_by_path():
    assert torch.equal(torch.rand(3, generator=generator(1, "a")), torch.rand(3, generator=generator(1, "a")))
    assert not torch.equal(torch.rand(3, generator=generator(1, "a")), torch.rand(3, generator=generator(1, "b")))
    assert numpy_generator(1, "a").random() == numpy_generator(1, "a").random()
    assert numpy_generator(1, "a").random() != numpy_generator(2, "a").random()


def draws():
    return torch.rand(1).item(), np.random.rand(), random.random()


def test_a_seeded_block_repeats_and_leaves_no_trace():
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    undisturbed = draws()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    with seeded(0, "model"):
        first = draws()
    assert draws() == undisturbed
    with pytest.raises(ZeroDivisionError), seeded(0, "model"):
        assert draws() == first
        1 / 0  # noqa: B018
