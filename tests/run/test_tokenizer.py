"""A model's folder whose tokenizer is missing or knows no end."""

import json

import pytest

from rlcore import RLCoreError
from rlcore.run.build import load_model
from tests.run.small import make, save_model


def test_a_folder_without_a_tokenizer_says_so(tmp_path):
    save_model(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    with pytest.raises(RLCoreError, match=r"has no tokenizer: none of tokenizer.json.*it has: config.json"):
        load_model(tmp_path / "model", make(tmp_path / "model", tmp_path).settings)


def test_a_tokenizer_without_an_end_is_warned_of(tmp_path, caplog):
    save_model(tmp_path / "model")
    config = tmp_path / "model" / "tokenizer_config.json"
    kept = json.loads(config.read_text())
    del kept["eos_token"]
    config.write_text(json.dumps(kept))
    make(tmp_path / "model", tmp_path / "runs", steps=1).train()
    said = [record.getMessage() for record in caplog.records if "no eos_token" in record.getMessage()]
    assert len(said) == 1
    assert "only the ids 2 of the model's own config end a completion" in said[0]
