import logging
import threading
import time

import pytest

from rlcore.protocols import Tracker
from rlcore.registry import get, names
from rlcore.tracking import Console, Jsonl, Trackers

ABOUT = {"run": "r", "project": "p", "config": {"seed": 1}}


class Recorder(Tracker):
    """A tracker of a stranger; `trouble` is what it does at a moment."""

    def __init__(self, **trouble):
        self.trouble, self.rows, self.finished = trouble, [], False

    def meet(self, moment):
        if moment in self.trouble:
            self.trouble[moment]()

    def start(self, *, run, project, config, folder):
        self.meet("start")

    def log(self, step, metrics):
        self.meet(f"step {step}")
        self.rows.append((step, metrics["x"]))

    def finish(self):
        self.meet("finish")
        self.finished = True


def fail():
    raise ConnectionError("no route")


def leave():
    raise SystemExit(2)


def run(trackers, folder, *, steps=5, **options):
    """A run of some steps; returns the seconds that the trackers cost it."""
    begin = time.monotonic()
    together = Trackers(trackers, **options)
    together.start(**ABOUT, folder=folder)
    for step in range(1, steps + 1):
        together.log(step, {"x": step * 0.5})
    together.finish()
    return time.monotonic() - begin


ROWS = [(step, step * 0.5) for step in range(1, 6)]


@pytest.mark.parametrize("trouble", [fail, leave])
@pytest.mark.parametrize(("moment", "rows"), [("start", []), ("step 2", ROWS[:1] + ROWS[2:]), ("finish", ROWS)])
@pytest.mark.parametrize("immediate", [False, True])
def test_b95_a_tracker_that_fails_warns_once_and_the_others_get_all_rows(
    tmp_path, caplog, moment, rows, immediate, trouble
):
    bad, good = Recorder(**{moment: trouble}), Recorder()
    bad.immediate = immediate
    run({"bad": bad, "good": good, "jsonl": Jsonl()}, tmp_path)
    assert good.rows == ROWS
    assert good.finished
    assert bad.rows == rows
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert f"tracker bad failed at {moment}" in warning.getMessage()


def test_b95_one_that_always_fails_still_warns_once(tmp_path, caplog):
    run({"bad": Recorder(**{f"step {step}": fail for step in range(1, 6)}, finish=fail)}, tmp_path)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("moment", ["start", "step 2", "finish"])
def test_b95_a_tracker_that_blocks_costs_a_bounded_delay(tmp_path, caplog, moment):
    never = threading.Event()
    blocked, good = Recorder(**{moment: lambda: never.wait(60)}), Recorder()
    seconds = run({"blocked": blocked, "good": good}, tmp_path, timeout_seconds=1.5)
    never.set()
    assert seconds < 20
    assert good.rows == ROWS
    assert good.finished
    (warning,) = caplog.records
    assert "tracker blocked did not finish in time" in warning.getMessage()


def test_b95_a_full_queue_is_waited_for_once(tmp_path, caplog):
    never = threading.Event()
    blocked, good = Recorder(**{"step 1": lambda: never.wait(60)}), Recorder()
    seconds = run({"blocked": blocked, "good": good}, tmp_path, steps=200, timeout_seconds=1.5, queue_rows=4)
    never.set()
    assert seconds < 20
    assert len(good.rows) == 200
    (warning,) = caplog.records
    assert "took no row for 1.5 s and is given up" in warning.getMessage()


def test_a_slow_tracker_loses_nothing(tmp_path, caplog):
    slow = Recorder(**{f"step {step}": lambda: time.sleep(0.02) for step in range(1, 6)})
    run({"slow": slow}, tmp_path, queue_rows=2)
    assert slow.rows == ROWS
    assert not caplog.records


def test_a_run_that_fails_before_its_trackers_start_can_finish_them(tmp_path, caplog):
    quick, slow = Recorder(), Recorder()
    quick.immediate = True
    Trackers({"quick": quick, "slow": slow}).finish()
    assert not quick.finished
    assert not slow.finished
    assert not caplog.records


def test_a_later_change_of_the_callers_dict_reaches_no_tracker(tmp_path):
    recorder, together = Recorder(), Trackers({})
    together = Trackers({"recorder": recorder})
    together.start(**ABOUT, folder=tmp_path)
    metrics = {"x": 1.0}
    together.log(1, metrics)
    metrics["x"] = 9.0
    together.finish()
    assert recorder.rows == [(1, 1.0)]


def test_every_built_in_and_the_wrapper_keep_the_protocol():
    assert all(isinstance(get("tracker", name)(), Tracker) for name in names("tracker"))
    assert isinstance(Trackers({}), Tracker)


def test_the_console_shows_what_it_was_asked_for_on_standard_error(tmp_path, capsys):
    console = Console(show=("score", "missing", "update/kl"), every=2)
    console.start(**ABOUT, folder=tmp_path)
    for step in (1, 2):
        console.log(step, {"update/kl": 0.01234567, "score": 0.5, "other": 1.0})
    console.finish()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[1:] == ["step     2  score 0.5  update/kl 0.01235"]


def test_the_console_says_something_of_metrics_that_it_does_not_know(capsys):
    Console().log(1, {"my/metric": 2.0})
    assert capsys.readouterr().err == "step     1  my/metric 2\n"
