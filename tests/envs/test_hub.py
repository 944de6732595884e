"""Data sets by hub id: through the hub's client, a folder of that name first; without a network, what to do."""

import io
import json
import sys

import pytest

from rlcore.errors import DataError
from rlcore_envs.datasets import file, hub
from rlcore_envs.datasets.hub_clients import HubId, hub_id


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory in which `made/sums` is a data set's folder, as the hub has it."""
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "made" / "sums"
    folder.mkdir(parents=True)
    for name, count in (("train", 20), ("test", 5)):
        rows = [{"question": f"{name} {i}+1?", "answer": f"so\n#### {i + 1}", "level": i % 2} for i in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    return folder


def test_a_hub_id_gives_rows_like_a_file(here):
    rows = hub(path="hf:made/sums", hub_split="test")
    assert rows == [
        {**row, "data_source": "made/sums"} for row in file(path=str(here / "test.jsonl"), data_source="made/sums")
    ]
    assert len(file(path="hf:made/sums", where=("level=1",))) == 10
    assert list(hub(path="hf:made/sums", hub_split="test", lazy=True)) == rows
    assert len(hub(path="hf:made/sums", hub_split="train[:8]", split="train")) == 4
    assert hub(path="hf:made/sums", data_source="mine")[0]["data_source"] == "mine"


def test_images_of_a_hub_stay_bytes(here, tmp_path):
    datasets, image = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    content = io.BytesIO()
    image.new("RGB", (2, 2)).save(content, format="PNG")
    columns = {
        "prompt": ["<image> What?"],
        "images": [[{"bytes": content.getvalue(), "path": None}]],
        "image": [{"bytes": content.getvalue(), "path": None}],
    }
    pictures = datasets.Image()
    features = datasets.Features(
        {"prompt": datasets.Value("string"), "images": datasets.List(pictures), "image": pictures}
    )
    folder = tmp_path / "made" / "pictures"
    folder.mkdir()
    datasets.Dataset.from_dict(columns, features=features).to_parquet(folder / "train.parquet")
    [row] = hub(path="hf:made/pictures")
    assert row["images"][0]["bytes"] == row["image"]["bytes"] == content.getvalue()


def test_without_a_network_the_error_says_how_to_give_a_file(here):
    with pytest.raises(DataError, match=r"data 'hf:nobody/nothing@v1' \(config 'main', split 'train'\) could not be"):
        hub(path="hf:nobody/nothing@v1", config="main")
    with pytest.raises(DataError, match=r"Without a network give a file instead: data=file data\.path=FILE"):
        file(path="hf:nobody/nothing")
    with pytest.raises(DataError, match=r"split 'dev'\) could not be fetched: .*Should be one of"):
        hub(path="hf:made/sums", hub_split="dev")


def test_a_client_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(DataError, match=r"needs the package 'modelscope'.*pip install modelscope.*data=file"):
        hub(path="modelscope:owner/name")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs the package 'datasets'.*pip install 'rlcore\[hub\]'"):
        hub(path="hf:owner/name")


def test_a_hub_id_is_checked_before_anything_is_fetched():
    assert hub_id("hf:owner/name@v1") == HubId("hf", "owner/name", "v1")
    assert str(hub_id("modelscope:owner/name", revision="x")) == "modelscope:owner/name@x"
    for wrong in ("owner/name", "hf:name", "hub:owner/name", "hf:/name", "hf:owner/name/more"):
        with pytest.raises(DataError, match="names no data set of a hub; write hf:OWNER/NAME, modelscope:OWNER/NAME"):
            hub_id(wrong)
    with pytest.raises(DataError, match="are two revisions"):
        hub_id("hf:owner/name@v1", revision="v2")
    with pytest.raises(DataError, match=r"data=hub needs data\.path"):
        hub()
