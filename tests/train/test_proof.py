"""Which models run, and how, is proven on a small copy: right ones pass whatever their name, wrong ones are caught."""

import json
import sys
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from rlcore.errors import ModelError
from rlcore.train import proof
from rlcore.train.model import LanguageModel, pack
from rlcore.train.proof import Proof, prove
from rlcore.train.small_copy import small_config, small_copy

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
SHELF = {
    "qwen3": "packed",
    "qwen2_moe": "packed",
    "gemma2": "packed",
    "granite": "packed",
    "cohere2": "packed",
    "deepseek_v3": "packed",
    "olmo2": "packed",
    "gpt_oss": "own",
    "bloom": "own",
    "bamba": "own",
    "qwen3_next": "own",
    "mamba2": "own",
}


@pytest.fixture(scope="module")
def page():
    """The script that makes docs/models.md."""
    import make_models

    return make_models


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(proof, "_proven", {})


@pytest.mark.parametrize(("name", "way"), SHELF.items())
def test_a_family_is_run_as_the_page_says_and_its_sampler_agrees(page, name, way):
    how, line = page.line(name)
    assert how == way, line
    trainer, sampler = (float(cell) for cell in line.split("|")[4:6])
    assert max(trainer, sampler) < 1e-4
    assert f"| `{name}` | {way} |" in page.PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_holds_for_every_name_of_the_table(page):
    """At least a hundred families run, and none of them wrong."""
    written = page.PAGE.read_text(encoding="utf-8")
    ways = {name: page.line(name) for name in page.names()}
    assert sum(how in ("packed", "own") for how, _ in ways.values()) >= 100
    for name, (how, line) in ways.items():
        assert f"| `{name}` | {how} |" in written, line
        if how in ("packed", "own"):
            assert max(float(cell) for cell in line.split("|")[4:6]) < 1e-4, line


def logits_of(config, seed=3):
    """Logits of a small model of a configuration: through rlcore, and by itself."""
    module = small_copy(small_config(config), seed=seed)
    tokens = [torch.arange(n) % 60 + 5 for n in (4, 33)]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        alone = torch.cat([module(input_ids=row[None], use_cache=False).logits[0] for row in tokens])
        model = LanguageModel(module, None, proof=prove(config))
        packed = pack(torch.cat(tokens), torch.tensor([len(row) for row in tokens]))
        return model, model.logits(model.hidden(packed)), alone


@pytest.mark.parametrize(
    "config",
    [
        transformers.GraniteConfig(logits_scaling=8.0, residual_multiplier=0.3, embedding_multiplier=2.0),
        transformers.Lfm2Config(layer_types=["conv", "full_attention"] * 2, num_hidden_layers=4),
        transformers.MistralConfig(sliding_window=30),
        transformers.GptOssConfig(),
        transformers.Qwen3Config(
            max_position_embeddings=64,
            rope_parameters={
                "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16
            },
        ),
    ],
    ids=["granite with scaled logits", "lfm2 with convolutions", "a window of 30", "sinks", "yarn"],
)  # fmt: skip
def test_what_a_list_of_names_lets_through_is_right(config):
    model, found, alone = logits_of(config)
    assert float((found - alone).abs().max()) < 1e-4 * float(alone.abs().max())
    if config.model_type == "granite":
        assert model.scale.scale == 1 / 8


def test_a_window_is_reached_by_the_small_copy():
    assert small_config(transformers.MistralConfig(sliding_window=4096)).sliding_window == 8


def test_a_forward_pass_that_leaves_something_out_is_caught(monkeypatch):
    """Sinks that the packed way ignores: it is the own way that runs, not the fast one."""
    assert prove(transformers.GptOssConfig()).way == "own"
    monkeypatch.setattr(LanguageModel, "hidden", lambda self, packed: torch.zeros(len(packed.tokens), self.hidden_size))
    proof._proven.clear()
    Path(proof._file(proof.small_key(transformers.GptOssConfig()))).unlink()
    with pytest.raises(ModelError, match=r"GptOssConfig is run right by neither way: .*\(packed .*, own "):
        prove(transformers.GptOssConfig())


def test_a_model_that_sees_what_comes_is_refused():
    with pytest.raises(ModelError, match=r"BertConfig .* changes by .* it is no causal language model"):
        prove(transformers.BertConfig())
    # Causal, but its logits are not made by a head of hidden states alone.
    with pytest.raises(ModelError, match="differ by .* from every scaled product of its head and hidden states"):
        prove(transformers.BertConfig(is_decoder=True))


def test_a_proof_is_kept_and_read_again(monkeypatch):
    config = transformers.LlamaConfig()
    found = prove(config)
    monkeypatch.setattr(proof, "_prove", lambda *_: pytest.fail("it is proven anew"))
    proof._proven.clear()
    assert prove(config) == found
    file = proof._file(proof.small_key(config))
    file.write_text("torn")
    proof._proven.clear()
    with pytest.raises(pytest.fail.Exception):
        prove(config)
    file.write_text(json.dumps({"way": "packed", "unknown": 1}))
    with pytest.raises(pytest.fail.Exception):
        prove(config)


def test_sizes_do_not_matter_to_a_proof():
    one, other = transformers.Qwen3Config(hidden_size=64), transformers.Qwen3Config(hidden_size=256, vocab_size=5000)
    assert proof.small_key(one) == proof.small_key(other)
    tied = transformers.Qwen3Config(tie_word_embeddings=True)
    assert proof.small_key(one) != proof.small_key(tied)


@pytest.mark.parametrize("name", ["gpt_oss", "bamba"])
def test_a_model_of_its_own_forward_pass_trains_as_it_does_alone(name):
    """A gradient step through rlcore and through the model alone."""
    config = small_config(transformers.CONFIG_MAPPING[name]())
    module = small_copy(config)
    model = LanguageModel(module, None, proof=Proof("own", None, None))
    rows = [torch.arange(5) + 4, torch.arange(11) + 20]
    packed = pack(torch.cat(rows), torch.tensor([5, 11]))
    model.logits(model.hidden(packed)).log_softmax(-1).square().sum().backward()
    through = {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    for row in rows:
        module(input_ids=row[None], use_cache=False).logits[0].log_softmax(-1).square().sum().backward()
    for n, p in module.named_parameters():
        if p.grad is not None:
            assert float((p.grad - through[n]).abs().max()) < 1e-5 * max(1.0, float(p.grad.abs().max())), n
    assert isinstance(module, AutoModelForCausalLM._model_mapping[type(config)])
