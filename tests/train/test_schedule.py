import pytest

from rlcore.component import bind
from rlcore.errors import ConfigError
from rlcore.train.schedule import constant, cosine, linear

SCHEDULES = [constant, linear, cosine]


def course(schedule, updates, *, total, warmup_steps):
    ready = bind(schedule, warmup_steps=warmup_steps)
    return [ready(update, total) for update in range(1, updates + 1)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_climbs_in_equal_steps_from_the_first_update(schedule):
    assert course(schedule, 4, warmup_steps=4, total=4) == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_warm_up_the_first_update_has_the_full_rate(schedule):
    assert schedule(1, 4) == 1.0
    assert schedule(1, 1) == 1.0


def test_linear_falls_in_equal_steps_and_the_last_update_still_learns():
    assert course(linear, 5, warmup_steps=0, total=4) == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert course(linear, 5, warmup_steps=2, total=4) == pytest.approx([0.5, 1, 2 / 3, 1 / 3, 0])


def test_cosine_is_half_way_in_the_middle():
    assert course(cosine, 5, warmup_steps=0, total=4) == pytest.approx([1, 0.853553, 0.5, 0.146447, 0], abs=1e-6)


def test_constant_stays_and_needs_no_length():
    assert course(constant, 3, warmup_steps=1, total=0) == [1, 1, 1]


@pytest.mark.parametrize(
    ("schedule", "warmup_steps", "total", "said"),
    [
        (linear, 0, 0, "'linear' needs total_steps"),
        (cosine, 5, 4, "schedule.warmup_steps=5 is more than the 4 optimizer updates"),
        (constant, -1, 0, "warmup_steps=-1"),
    ],
)
def test_options_that_make_no_course_are_refused(schedule, warmup_steps, total, said):
    with pytest.raises(ConfigError, match=said):
        bind(schedule, warmup_steps=warmup_steps)(1, total)
