"""Models that do not come as a plain folder: a pair from a notebook, code of their own, quantized weights, images."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlcore import Run
from rlcore.errors import ConfigError, DataError, ModelError
from rlcore_algorithms import grpo
from tests.run import small

CODE = '''
"""A Llama of one's own: its logits are halved."""
from transformers import LlamaConfig, LlamaForCausalLM


class HalvedConfig(LlamaConfig):
    model_type = "halved"
    halving = 0.5


class HalvedForCausalLM(LlamaForCausalLM):
    config_class = HalvedConfig

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits * 0.5
        return out
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small.save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def halved(tmp_path):
    """A folder with a model of its own code: a Llama whose logits are halved."""
    from tests.tiny import save_tiny

    folder = save_tiny(tmp_path / "halved", "llama", **small.SIZES)
    (folder / "modeling_halved.py").write_text(CODE)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "halved",
        "architectures": ["HalvedForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_halved.HalvedConfig",
            "AutoModelForCausalLM": "modeling_halved.HalvedForCausalLM",
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_code_of_its_own_runs_only_if_it_is_trusted(halved, tmp_path):
    for attempt in (lambda r: r.check(), lambda r: r.train()):
        with pytest.raises(ModelError, match=r"needs code of its own \(modeling_halved.py\).*model.trust_code=true"):
            attempt(small.make(halved, tmp_path))
    how = {"data": small.ROWS, "reward": small.digits, "prompts": 2, "max_new_tokens": 4, "device": "cpu"}
    how |= {"tracker": ("jsonl",), "quiet": True, "learning_rate": 1e-2, "algorithm": grpo(group_size=2)}
    run = Run(model=trusted(halved), steps=2, run={"folder": str(tmp_path), "name": "own"}, **how)
    run.check()
    run.train()
    assert run.load().model.scale.scale == 0.5
    assert all(abs(row["policy/kl"]) < 0.1 for row in run.history)
    # It loads again from what was saved, with its code, here and by transformers alone.
    saved = run.folder / "model"
    assert (saved / "modeling_halved.py").is_file()
    tokens = torch.tensor([[1, 5, 6]])
    again = AutoModelForCausalLM.from_pretrained(saved, trust_remote_code=True)
    inner = super(type(again), again).forward(input_ids=tokens).logits
    torch.testing.assert_close(again(input_ids=tokens).logits, 0.5 * inner)
    further = Run(model=trusted(saved), steps=1, run={"folder": str(tmp_path), "name": "further"}, **how)
    assert further.train().step == 1


def trusted(folder):
    return {"source": str(folder), "trust_code": True}


def test_trust_that_nothing_needs_is_said(model):
    with pytest.raises(ModelError, match="model.trust_code=true has no effect.*brings no code of its own"):
        Run(algorithm=grpo(group_size=2), model=trusted(model), data=small.ROWS, reward=small.digits).check()


@pytest.mark.parametrize("method", ["bitsandbytes", "fp8"])
def test_quantized_weights_are_refused_before_anything_loads(model, tmp_path, method):
    folder = shutil.copytree(model, tmp_path / "quantized")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": method}}))
    (folder / "model.safetensors").unlink()
    for attempt in (lambda r: r.check(), lambda r: r.train()):
        with pytest.raises(ModelError, match=rf"are quantized \({method}\): they have no gradient"):
            attempt(small.make(folder, tmp_path))
    roles = {"reference": {"model": str(folder)}}
    run = small.make(model, tmp_path, algorithm=grpo(group_size=2, kl_coefficient=0.1), roles=roles)
    with pytest.raises(ModelError, match=rf"roles.reference.model=.*are quantized \({method}\)"):
        run.load()


def test_a_pair_from_a_notebook_trains_as_its_folder_does(model, tmp_path, monkeypatch):
    monkeypatch.setenv("RLCORE_CACHE", str(tmp_path / "cache"))
    module, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    how = {"data": small.ROWS, "reward": small.digits, "prompts": 2, "max_new_tokens": 4, "device": "cpu", "steps": 2}
    how |= {"tracker": ("jsonl",), "quiet": True, "learning_rate": 1e-2, "algorithm": grpo(group_size=2)}
    pair = Run(model=(module, tokenizer), run={"folder": str(tmp_path), "name": "pair"}, **how)
    pair.check()
    pair.train()
    folder = Run(model=str(model), run={"folder": str(tmp_path), "name": "folder"}, **how).train()
    assert small.metrics(pair.folder) == small.metrics(folder.folder)
    weights = [run.folder / "model" / "model.safetensors" for run in (pair, folder)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert all(torch.equal(before[name], weight) for name, weight in module.state_dict().items()), "a copy is trained"
    resumed = Run(model=(module, tokenizer), resume=str(pair.folder), **{**how, "steps": 3}).train()
    assert resumed.step == 3
    trained = load_file(pair.folder / "model" / "model.safetensors")
    assert any(not torch.equal(trained[name], before[name]) for name in trained)


@pytest.mark.parametrize(
    ("pair", "error", "says"),
    [
        (lambda module, tokenizer: (tokenizer, module), ModelError, "a transformers model and its tokenizer, in this"),
        (lambda module, tokenizer: (module,), ConfigError, "a pair is .module, tokenizer."),
        (lambda module, tokenizer: (module.model, tokenizer), ModelError, "would be another model"),
    ],
)
def test_what_is_no_pair_is_named(model, tmp_path, pair, error, says):
    module, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    with pytest.raises(error, match=says):
        Run(algorithm=grpo(group_size=2), model=pair(module, tokenizer), data=small.ROWS, reward=small.digits)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"prompt": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}]},
            "holds a part of the type 'image', and the model reads text alone",
        ),
        ({"prompt": "<image> what?", "images": [{"path": "a.png"}]}, "row 1 has images beside its prompt"),
    ],
)
def test_images_for_a_model_of_texts_are_refused(model, tmp_path, row, says):
    from tests.tiny import character_tokenizer

    folder = shutil.copytree(model, tmp_path / "chat")
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    rows = [{"prompt": "1+1=", "target": "2"}, {**row, "target": "2"}]
    with pytest.raises(DataError, match=says):
        small.make(folder, tmp_path, data=rows).check()
