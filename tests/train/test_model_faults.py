"""Model folders that cannot be what they claim: each is refused with one message, before anything is trained."""

import json

import pytest
import torch

from rlcore.errors import ModelError
from rlcore.protocols import Request, SamplingParams
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.train.model import LanguageModel
from tests.tiny import make_tiny


@pytest.fixture
def folder(tmp_path):
    make_tiny("qwen3").save(tmp_path)
    return tmp_path


def test_weights_that_are_cut_short_are_named(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot load the model at"):
        LanguageModel.load(folder)


def test_layers_that_the_weights_lack_are_not_left_random(folder):
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] += 2
    if "layer_types" in config:
        config["layer_types"] += config["layer_types"][-1:] * 2
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="lack .* of the parameters"):
        LanguageModel.load(folder)


def test_shapes_that_do_not_fit_are_an_error_of_the_model(folder):
    config = json.loads((folder / "config.json").read_text())
    config["intermediate_size"] *= 2
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="cannot load the model at"):
        LanguageModel.load(folder)


def test_logits_that_are_not_finite_are_said_to_be():
    model = make_tiny("qwen3")
    with torch.no_grad():
        model.head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="logits are not finite for a request of group 0"):
        EmbeddedSampler(model).generate([Request((5, 6), SamplingParams(max_new_tokens=2), seed=1)])
