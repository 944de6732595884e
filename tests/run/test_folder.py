"""The folder of a run: where it may be, who writes it, and what is left of a run that could not begin."""

import os

import pytest

from rlcore.errors import CheckpointError, ConfigError, DataError, RunError
from rlcore.run.lock import LOCK, locked
from tests.run import small


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def begin(model, tmp_path):
    return lambda **settings: small.make(model, tmp_path, **settings)


@pytest.mark.parametrize("key", ["name", "project"])
@pytest.mark.parametrize("value", ["", "..", "a/b", "a\\b", "a\0b", "a\nb", "a\u2028b", "x" * 201, "é" * 101])
def test_a_name_that_is_no_plain_folder_name_is_refused_as_the_run_is_made(begin, key, value):
    with pytest.raises(ConfigError, match=rf"run\.{key}=.*must be a plain folder name"):
        begin(run={key: value})


@pytest.mark.parametrize("name", [None, "run"])
@pytest.mark.parametrize("ask", ["check", "train"])
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("{}/file", "file' is a file"),
        ("{}/file/below", "file' is a file"),
        ("/dev/null", "/dev/null' is a file"),
        ("{}/" + "x" * 300, "cannot be used|cannot be made"),
        ("~nobody_of_that_name/x", "cannot be used"),
    ],
)
def test_a_folder_that_cannot_be_made_is_said_by_check_and_by_train(begin, tmp_path, where, said, ask, name):
    (tmp_path / "file").write_text("")
    run = begin(run={"folder": where.format(tmp_path), "name": name})
    with pytest.raises(ConfigError, match=said):
        getattr(run, ask)()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_said(begin, tmp_path):
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="shut' is a folder that may not be written to"):
        begin(run={"folder": f"{tmp_path}/shut/runs"}).check()


def test_a_name_that_is_taken_is_found_by_check(begin, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"already there: go on with resume="):
        begin().check()


@pytest.mark.parametrize("key", ["resume", "replay"])
@pytest.mark.parametrize("value", ["{}/nothing", "a\0b", "{}/" + "x" * 300])
def test_a_run_to_go_on_with_that_is_missing_is_found_by_check(begin, tmp_path, key, value):
    with pytest.raises(CheckpointError, match="is no run"):
        begin(**{key: value.format(tmp_path)}).check()


def test_a_run_that_cannot_load_leaves_no_folder_and_can_begin_once_it_is_put_right(begin, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no prompt is left"):
        begin(name="gone", max_prompt_tokens=2).train()
    with pytest.raises(LookupError, match="unknown tracker"):
        begin(name="gone", tracker=("jsonk",)).train()
    assert not (tmp_path / "gone").exists()
    run = begin(name="gone", steps=1)
    with monkeypatch.context() as patched:
        patched.setattr("rlcore.run.run.load", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.train()
    assert not (tmp_path / "gone").exists()
    assert run.train().folder == tmp_path / "gone"


@pytest.mark.skipif(os.name == "nt", reason="no such locks")
def test_one_process_at_a_time_writes_a_run(begin, tmp_path):
    run = begin(name="cut", steps=1).train()
    assert not (run.folder / LOCK).exists()
    again = begin(steps=2, resume=str(run.folder))
    before = (run.folder / "metrics.jsonl").read_bytes()
    with locked(run.folder), pytest.raises(RunError, match=rf"cut' is being written by .*pid {os.getpid()}, "):
        again.train()
    assert (run.folder / "metrics.jsonl").read_bytes() == before
    (run.folder / LOCK).write_text("1")  # left by a process that was killed
    assert again.train().step == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_does_not_keep_the_lock(tmp_path):
    read, write = os.pipe()
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            os.read(read, 1)
            os._exit(0)
    with locked(tmp_path):
        pass
    os.write(write, b"x")
    os.waitpid(child, 0)
