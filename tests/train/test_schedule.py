import pytest

from rlcore.errors import ConfigError
from rlcore.train.schedule import check_schedule, factor


def course(name, updates, **settings):
    return [factor(name, update, **settings) for update in range(1, updates + 1)]


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_warm_up_climbs_in_equal_steps_from_the_first_update(name):
    assert course(name, 4, warmup=4, total=4) == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_without_warm_up_the_first_update_has_the_full_rate(name):
    assert factor(name, 1, warmup=0, total=4) == 1.0
    assert factor(name, 1, warmup=0, total=1) == 1.0


def test_linear_falls_in_equal_steps_and_the_last_update_still_learns():
    assert course("linear", 5, warmup=0, total=4) == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert course("linear", 5, warmup=2, total=4) == pytest.approx([0.5, 1, 2 / 3, 1 / 3, 0])


def test_cosine_is_half_way_in_the_middle():
    assert course("cosine", 5, warmup=0, total=4) == pytest.approx([1, 0.853553, 0.5, 0.146447, 0], abs=1e-6)


def test_constant_stays():
    assert course("constant", 3, warmup=1, total=0) == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "warmup", "total", "said"),
    [
        ("cosin", 0, 4, "Did you mean 'cosine'"),
        ("linear", 0, 0, "total_steps"),
        ("cosine", 5, 4, "warmup_steps 5 is more than total_steps 4"),
        ("constant", -1, 0, "-1"),
    ],
)
def test_settings_that_make_no_course_are_refused(name, warmup, total, said):
    with pytest.raises(ConfigError, match=said):
        check_schedule(name, warmup=warmup, total=total)
