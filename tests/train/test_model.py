"""The model over packed rows says what Hugging Face's own forward pass says, row by row."""

import json

import pytest
import torch
import transformers

from rlcore.errors import ModelError
from rlcore.train import attention
from rlcore.train.model import LanguageModel, pack
from tests.tiny import EOS, FAMILIES, character_tokenizer, make_tiny, save_tiny, tiny_config, tiny_module

# Longer than Gemma's window of 8, and long enough for Llama's scaled frequencies to matter.
LENGTHS = (5, 17, 90, 17, 1)


def rows_of(lengths, seed=0, vocabulary=80):
    generator = torch.Generator().manual_seed(seed)
    length = torch.tensor(lengths)
    return torch.randint(4, vocabulary, (int(length.sum()),), generator=generator), length


def grouped_rows(seed=0):
    """Two groups of three rows, prompts of 6 and 4 tokens equal within a group; one more row of its own."""
    prompts = [rows_of((6,), 1)[0], rows_of((4,), 2)[0]]
    rows = [torch.cat([prompts[i // 3], rows_of((3 + i,), 10 + i + seed)[0]]) for i in range(6)] + [rows_of((5,), 3)[0]]
    tokens, length = torch.cat(rows), torch.tensor([len(row) for row in rows])
    return tokens, length, torch.tensor([6, 6, 6, 4, 4, 4, 2]), torch.tensor([7, 7, 7, 1, 1, 1, 7])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_and_logits_equal_those_of_hugging_face(family, tied):
    model = make_tiny(family, tied=tied)
    tokens, length = rows_of(LENGTHS)
    with torch.no_grad():
        hidden = model.hidden(pack(tokens, length))
        logits = model.logits(hidden)
        model.module.set_attn_implementation("eager")
        start = 0
        for n in LENGTHS:
            row = slice(start, start + n)
            out = model.module(input_ids=tokens[row][None], output_hidden_states=True)
            torch.testing.assert_close(hidden[row], out.hidden_states[-1][0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(logits[row], out.logits[0], atol=1e-5, rtol=1e-5)
            start += n
    assert logits.dtype == torch.float32
    assert (model.head.weight is model.module.get_input_embeddings().weight) == tied


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_those_of_hugging_face(family):
    tokens, length = rows_of((9, 20))
    gradients = []
    for own in (True, False):
        model = make_tiny(family)
        if own:
            logits = model.logits(model.hidden(pack(tokens, length)))
        else:
            model.module.set_attn_implementation("eager")
            parts = tokens.split(length.tolist())
            logits = torch.cat([model.module(input_ids=part[None]).logits[0] for part in parts])
        logits.log_softmax(-1)[:, 7].sum().backward()
        gradients.append({name: x.grad for name, x in model.module.named_parameters()})
    for name, expected in gradients[1].items():
        if expected is not None:
            torch.testing.assert_close(gradients[0][name], expected, atol=1e-5 * float(expected.norm()), rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_shared_prompt_changes_neither_states_nor_gradients(family):
    tokens, length, prompt_length, group = grouped_rows()
    results = []
    for shared in (False, True):
        model = make_tiny(family)
        packed = pack(tokens, length, **(dict(prompt_length=prompt_length, group=group) if shared else {}))
        hidden = model.hidden(packed)[packed.flat_index]
        model.logits(hidden).log_softmax(-1)[torch.arange(len(tokens)), tokens].sum().backward()
        gradients = {name: x.grad for name, x in model.module.named_parameters()}
        results.append((hidden.detach(), gradients, len(packed.tokens)))
    (plain, plain_grads, n), (shared_hidden, shared_grads, m) = results
    assert n - m == 2 * 6 + 2 * 4
    torch.testing.assert_close(shared_hidden, plain, atol=1e-5, rtol=1e-5)
    for name, expected in plain_grads.items():
        if expected is not None:
            torch.testing.assert_close(shared_grads[name], expected, atol=1e-5 * float(expected.norm()), rtol=1e-4)


def test_packing_without_sharing_keeps_the_order():
    tokens, length = torch.arange(6), torch.tensor([2, 3, 1])
    packed = pack(tokens, length)
    assert packed.tokens.tolist() == [0, 1, 2, 3, 4, 5]
    assert packed.position.tolist() == [0, 1, 0, 1, 2, 0]
    assert packed.row_index.tolist() == [[0, 1, 0], [2, 3, 4], [5, 0, 0]]
    assert packed.query_index.tolist() == [0, 1, 3, 4, 5, 6]
    assert packed.flat_index.tolist() == [0, 1, 2, 3, 4, 5]


def test_only_equal_prompts_of_one_group_are_shared():
    # Rows 0 and 2 share "5 6"; row 1 is of another group; row 3 says of itself that it is in the group, and differs.
    tokens = torch.tensor([5, 6, 1, 5, 6, 2, 5, 6, 3, 5, 7, 4])
    length, prompt_length = torch.tensor([3, 3, 3, 3]), torch.tensor([2, 2, 2, 2])
    packed = pack(tokens, length, prompt_length=prompt_length, group=torch.tensor([0, 1, 0, 0]))
    assert packed.tokens.tolist() == [5, 6, 1, 5, 6, 2, 3, 5, 7, 4]
    assert packed.row_index.tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 6], [7, 8, 9]]
    assert packed.tokens[packed.flat_index].tolist() == tokens.tolist()


def test_prompts_of_unequal_length_are_not_shared():
    tokens = torch.tensor([5, 6, 1, 5, 6, 2])
    packed = pack(tokens, torch.tensor([3, 3]), prompt_length=torch.tensor([2, 1]), group=torch.tensor([0, 0]))
    assert len(packed.tokens) == 6


@pytest.mark.parametrize(("tokens", "length"), [([1, 2, 3], [2, 2]), ([1, 2], [2, 0]), ([], [])])
def test_rows_that_do_not_fit_their_lengths_are_refused(tokens, length):
    with pytest.raises(ModelError):
        pack(torch.tensor(tokens, dtype=torch.int64), torch.tensor(length, dtype=torch.int64))


def test_short_rows_in_bfloat16_attend_as_in_float32():
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, heads, 20, 16, generator=generator) for heads in (4, 2, 2))
    grad = torch.randn(3, 4, 20, 16, generator=generator)
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        out = attention.causal_attention(inputs[0], inputs[1], inputs[2].to(dtype), scale=0.25)
        out.backward(grad.to(dtype))
        assert out.dtype == dtype
        results.append([out.detach().float(), *(x.grad for x in inputs)])
    for exact, rough in zip(*results, strict=True):
        assert (exact - rough).norm() < 0.01 * exact.norm()


def test_bfloat16_autocast_leaves_the_weights_alone():
    model = make_tiny()
    packed = pack(*rows_of((9, 12)))
    with torch.no_grad():
        exact = model.hidden(packed)
        with model.autocast("bfloat16"):
            rough = model.hidden(packed)
    assert 0 < (exact - rough).norm() < 0.03 * exact.norm()
    assert all(x.dtype == torch.float32 for x in model.module.parameters())


def test_a_saved_model_is_a_plain_hugging_face_folder(tmp_path):
    folder = save_tiny(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    assert config["eos_token_id"] == EOS
    assert "auto_map" not in config
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(tokenizer.encode("12+7=", add_special_tokens=False)) == "12+7="
    ours = LanguageModel.load(folder)
    tokens, length = rows_of((11,))
    with torch.no_grad():
        logits = ours.logits(ours.hidden(pack(tokens, length)))
        torch.testing.assert_close(logits, plain(input_ids=tokens[None]).logits[0], atol=1e-5, rtol=1e-5)


def test_every_source_of_end_tokens_counts(tmp_path):
    module = tiny_module(eos_token_id=[7, 8])
    module.generation_config.eos_token_id = 9
    model = LanguageModel(module, character_tokenizer())
    assert model.eos_ids == (7, 8, 9, EOS)
    model.save(tmp_path)
    assert LanguageModel.load(tmp_path).eos_ids == (7, 8, 9, EOS)


def test_a_model_that_neither_way_runs_right_is_refused_with_the_differences(tmp_path):
    transformers.RecurrentGemmaConfig(num_hidden_layers=3, hidden_size=64).save_pretrained(tmp_path)
    with pytest.raises(
        ModelError, match=r"RecurrentGemmaConfig is run right by neither way: .*\(packed .*e-.*, own .*e-"
    ):
        LanguageModel.load(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no model folder"):
        LanguageModel.load(tmp_path / "absent")
    with pytest.raises(ModelError, match="no model that transformers can read"):
        LanguageModel.load(tmp_path)
    tiny_config("qwen3").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot load the model"):
        LanguageModel.load(tmp_path)


def test_a_call_without_a_layout_is_refused():
    with pytest.raises(ModelError, match="without a layout"):
        make_tiny().module(input_ids=torch.tensor([[5, 6]]))
