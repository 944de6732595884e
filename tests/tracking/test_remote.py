import sys
import types

import pytest

from rlcore.errors import ConfigError
from rlcore.tracking import SwanLab, TensorBoard, Trackers, WandB

ABOUT = {"run": "r", "project": "p", "config": {"model": {"layers": 2}, "rate": float("inf")}}


def test_swanlab_writes_offline_without_an_account_and_leaves_the_terminal_alone(tmp_path, caplog):
    write = sys.stdout.write
    trackers = Trackers({"swanlab": SwanLab()}, timeout_seconds=60)
    trackers.start(**ABOUT, folder=tmp_path)
    trackers.log(1, {"score": 0.5, "update/kl": float("nan")})
    assert sys.stdout.write == write
    trackers.finish()
    assert not caplog.records
    (written,) = (tmp_path / "swanlab").glob("run-*/*.swanlab")
    assert written.stat().st_size > 0


@pytest.mark.parametrize(("tracker", "package"), [(SwanLab, "swanlab"), (WandB, "wandb"), (TensorBoard, "tensorboard")])
def test_a_missing_package_is_named_with_what_installs_it(tmp_path, monkeypatch, tracker, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"needs the package {package}.*pip install"):
        tracker().start(**ABOUT, folder=tmp_path)


def test_wandb_is_called_as_its_documentation_says(tmp_path, monkeypatch):
    calls = []

    class Run:
        def log(self, row, step):
            calls.append(("log", row, step))

        def finish(self):
            calls.append(("finish",))

    def init(**arguments):
        calls.append(("init", arguments))
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    tracker = WandB()
    tracker.start(**ABOUT, folder=tmp_path)
    tracker.log(3, {"score": 0.5})
    tracker.finish()
    (_, arguments), *rest = calls
    assert (arguments["project"], arguments["name"], arguments["mode"]) == ("p", "r", "offline")
    assert rest == [("log", {"score": 0.5}, 3), ("finish",)]


def test_tensorboard_writes_an_event_file(tmp_path):
    pytest.importorskip("tensorboard")
    tracker = TensorBoard()
    tracker.start(**ABOUT, folder=tmp_path)
    tracker.log(1, {"score": 0.5})
    tracker.finish()
    (written,) = (tmp_path / "tensorboard").iterdir()
    assert written.stat().st_size > 0
