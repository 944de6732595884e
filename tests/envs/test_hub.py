"""Data sets by hub id: through the hub's client, a folder of that name first; without a network, what to do."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from rlcore.errors import DataError
from rlcore_envs.datasets import file
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
    rows = file(path="hf:made/sums", hub_split="test")
    assert rows == [
        {**row, "data_source": "made/sums"} for row in file(path=str(here / "test.jsonl"), data_source="made/sums")
    ]
    assert len(file(path="hf:made/sums", where=("level=1",))) == 10
    assert list(file(path="hf:made/sums", hub_split="test", lazy=True)) == rows
    assert len(file(path="hf:made/sums", hub_split="train[:8]", split="train")) == 4
    assert file(path="hf:made/sums", data_source="mine")[0]["data_source"] == "mine"


def test_images_of_a_hub_stay_bytes(here, tmp_path):
    datasets, image = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    content = io.BytesIO()
    image.new("RGB", (2, 2)).save(content, format="PNG")
    columns = {
        "prompt": ["<image> What?"],
        "images": [[{"bytes": content.getvalue(), "path": None}]],
        "image": [{"bytes": content.getvalue(), "path": None}],
        "shown": [{"page": {"bytes": content.getvalue(), "path": None}, "number": 3}],
    }
    pictures = datasets.Image()
    features = datasets.Features(
        {
            "prompt": datasets.Value("string"),
            "images": datasets.List(pictures),
            "image": pictures,
            "shown": {"page": pictures, "number": datasets.Value("int64")},
        }
    )
    folder = tmp_path / "made" / "pictures"
    folder.mkdir()
    datasets.Dataset.from_dict(columns, features=features).to_parquet(folder / "train.parquet")
    for row in (file(path="hf:made/pictures")[0], file(path="hf:made/pictures", lazy=True)[0]):
        assert row["images"][0]["bytes"] == row["image"]["bytes"] == content.getvalue()
        assert row["shown"] == {"page": {"bytes": content.getvalue()}, "number": 3}


def test_images_of_modelscope_stay_bytes_too(here, monkeypatch):
    """Its client wraps a data set of the other one, and decoded images."""
    datasets = pytest.importorskip("datasets")
    image = {"bytes": b"no picture", "path": None}
    features = datasets.Features({"prompt": datasets.Value("string"), "image": datasets.Image()})
    kept = datasets.Dataset.from_dict({"prompt": ["What?"], "image": [image]}, features=features)
    asked = []
    client = SimpleNamespace(
        MsDataset=SimpleNamespace(
            load=lambda name, **options: asked.append((name, options)) or SimpleNamespace(ds_instance=kept)
        )
    )
    monkeypatch.setitem(sys.modules, "modelscope", client)
    [row] = file(path="modelscope:made/pictures@v1", hub_split="test", config="main")
    assert row == {"data_source": "made/pictures", "prompt": "What?", "image": {"bytes": b"no picture"}}
    assert asked == [("made/pictures", {"split": "test", "subset_name": "main", "version": "v1"})]


def test_without_a_network_the_error_says_how_to_give_a_file(here):
    with pytest.raises(DataError, match=r"data 'hf:nobody/nothing@v1' \(config 'main', split 'train'\) could not be"):
        file(path="hf:nobody/nothing@v1", config="main")
    with pytest.raises(DataError, match=r"Without a network give a file instead: data=file data\.path=FILE"):
        file(path="hf:nobody/nothing")
    with pytest.raises(DataError, match=r"split 'dev'\) could not be fetched: .*Should be one of"):
        file(path="hf:made/sums", hub_split="dev")


def test_a_client_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(DataError, match=r"needs the package 'modelscope'.*pip install modelscope.*data=file"):
        file(path="modelscope:owner/name")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs the package 'datasets'.*pip install 'rlcore\[hub\]'"):
        file(path="hf:owner/name")


def test_a_hub_id_is_checked_before_anything_is_fetched():
    assert hub_id("hf:owner/name@v1") == HubId("hf", "owner/name", "v1")
    assert str(hub_id("modelscope:owner/name@x")) == "modelscope:owner/name@x"
    for wrong in ("owner/name", "hf:name", "hub:owner/name", "hf:/name", "hf:owner/name/more"):
        with pytest.raises(DataError, match="names no data set of a hub; write hf:OWNER/NAME, modelscope:OWNER/NAME"):
            hub_id(wrong)
    with pytest.raises(DataError, match=r"data=file needs data\.path"):
        file()
    with pytest.raises(DataError, match=r"data\.config and data\.hub_split are for the data set of a hub"):
        file(path="a.jsonl", config="main")
