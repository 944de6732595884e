"""A tiny vision-language model with images trains: by the trainer and by what the sampler draws."""

import math

import pytest
import torch
from transformers import AutoModelForImageTextToText, Qwen3VLConfig

from rlcore import Batch, Run
from rlcore.errors import DataError, ModelError, RunError
from rlcore.protocols import Request, SamplingParams
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.train.model import LanguageModel
from rlcore.train.trainer import TrainerConfig
from rlcore_algorithms import grpo, sft
from tests.run import small
from tests.tiny import character_tokenizer

TOKENIZER = character_tokenizer()
IMAGE, BEGIN, END = len(TOKENIZER), len(TOKENIZER) + 1, len(TOKENIZER) + 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(TOKENIZER) + 8, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
            "rope_parameters": {"rope_type": "default", "mrope_section": [4, 2, 2], "rope_theta": 10000.0},
            "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0,
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4, "in_channels": 3, "patch_size": 4,
            "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32, "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=IMAGE, video_token_id=END + 1, vision_start_token_id=BEGIN, vision_end_token_id=END,
        tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    module = AutoModelForImageTextToText.from_config(config).float()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    place = tmp_path_factory.mktemp("vl") / "tiny"
    module.save_pretrained(place)
    TOKENIZER.save_pretrained(place)
    return place


def row(number, *, wide=4):
    """A prompt with an image of 4 x `wide` patches, and what a processor would make of it."""
    generator = torch.Generator().manual_seed(number)
    seen = 4 * wide // 4  # two by two patches make a token
    prompt = [BEGIN, *[IMAGE] * seen, END, *TOKENIZER(f"{number}=").input_ids]
    inputs = {
        "pixel_values": torch.randn(4 * wide, 3 * 2 * 4 * 4, generator=generator).tolist(),
        "image_grid_thw": [[1, 4, wide]],
        "mm_token_type_ids": [int(token == IMAGE) for token in prompt],
    }
    return {"prompt": prompt, "target": str(number), "completion": str(number), "model_inputs": inputs}


ROWS = [row(number, wide=4 + 4 * (number % 2)) for number in range(4)]


def alone(module, tokens, inputs):
    """The model's own logits over one row."""
    kinds = torch.tensor([*inputs["mm_token_type_ids"], *[0] * (len(tokens) - len(inputs["mm_token_type_ids"]))])
    pixels, grid = torch.tensor(inputs["pixel_values"]), torch.tensor(inputs["image_grid_thw"])
    return module(
        input_ids=torch.tensor([tokens]), pixel_values=pixels, image_grid_thw=grid, mm_token_type_ids=kinds[None]
    ).logits[0]


def batch_of(rows, drawn):
    tokens = [[*r["prompt"], *extra] for r, extra in zip(rows, drawn, strict=True)]
    return Batch(
        {
            "length": [len(t) for t in tokens],
            "tokens": [i for t in tokens for i in t],
            "sampled": [i >= len(r["prompt"]) for r, t in zip(rows, tokens, strict=True) for i in range(len(t))],
            "prompt_length": [len(r["prompt"]) for r in rows],
            "group": list(range(len(rows))),
            "model_inputs": [r["model_inputs"] for r in rows],
        }
    )


def test_the_trainer_reads_images_as_the_model_does_and_they_have_a_gradient(folder):
    model = LanguageModel.load(folder)
    assert model.takes_inputs
    assert model.proof.way == "own"
    trainer = TrainerConfig(precision="float32", device="cpu").start(model)
    drawn = [[5, 6, 7], [8], [9, 10], [5, 5, 5, 5]]
    found = trainer.forward(batch_of(ROWS, drawn), {"old_logprob": "logprob"})["old_logprob"]
    module = AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="eager").eval()
    expected = []
    for each, extra in zip(ROWS, drawn, strict=True):
        tokens = [*each["prompt"], *extra]
        logprob = alone(module, tokens, each["model_inputs"]).log_softmax(-1)[:-1]
        after = logprob[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]
        expected += [*[0.0] * len(each["prompt"]), *after[len(each["prompt"]) - 1 :].tolist()]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-5)
    other = batch_of([{**ROWS[0], "model_inputs": ROWS[2]["model_inputs"]}, *ROWS[1:]], drawn)
    moved = trainer.forward(other, {"old_logprob": "logprob"})["old_logprob"]
    assert (moved - found).abs().max() > 1e-3, "the image matters"
    from rlcore import Update
    from rlcore.protocols import Term
    from rlcore_algorithms.losses import nll
    from rlcore_algorithms.reductions import token_mean

    gradients = trainer.gradient(batch_of(ROWS, drawn), Update((Term(nll, token_mean),)), seed=0)
    tower = {name: g for name, g in gradients.items() if "visual" in name}
    assert tower
    assert max(float(g.abs().max()) for g in tower.values()) > 1e-4


def test_the_sampler_draws_from_what_the_trainer_computes(folder):
    model = LanguageModel.load(folder)
    sampler = EmbeddedSampler(model)
    params = SamplingParams(max_new_tokens=5, ignore_eos=True)
    requests = [Request(tuple(r["prompt"]), params, n, n, inputs=r["model_inputs"]) for n, r in enumerate(ROWS)]
    drawn = sampler.generate(requests)
    trainer = TrainerConfig(precision="float32", device="cpu").start(model)
    batch = batch_of(ROWS, [completion.tokens for completion in drawn])
    found = trainer.forward(batch, {"old_logprob": "logprob"})["old_logprob"][batch.flat("sampled")]
    reported = torch.tensor([value for completion in drawn for value in completion.logprob])
    torch.testing.assert_close(found, reported, rtol=0, atol=1e-5)


def make(folder, where, algorithm, rows=ROWS, **settings):
    return Run(
        algorithm=algorithm, model=str(folder), data=rows, quiet=True, device="cpu", tracker=("jsonl",), prompts=2,
        max_new_tokens=4, learning_rate=1e-2, run={"folder": str(where), "name": algorithm.name}, **settings
    )  # fmt: skip


def test_a_run_with_images_trains_and_goes_on(folder, tmp_path):
    run = make(folder, tmp_path, grpo(group_size=2), reward=small.digits, steps=3, save={"every": 1})
    run.check()
    run.train()
    assert all(abs(values["policy/kl"]) < 0.05 for values in run.history)
    assert all(values["update/gradient_norm"] >= 0 for values in run.history)
    again = AutoModelForImageTextToText.from_pretrained(run.folder / "model")
    assert type(again).__name__ == "Qwen3VLForConditionalGeneration"
    supervised = make(folder, tmp_path, sft(), steps=6).train()
    losses = supervised.history.column("update/loss")
    assert losses[-1] < losses[0]
    assert all(math.isfinite(loss) for loss in losses)


def test_images_in_place_of_what_a_processor_makes_of_them_are_refused(folder, tmp_path):
    rows = [{**ROWS[0], "images": ["a.png"]}, *ROWS[1:]]
    with pytest.raises(DataError, match="row 0 has images beside its prompt, and the model is given what its own proc"):
        make(folder, tmp_path, grpo(group_size=2), rows, reward=small.digits).check()


def test_inputs_for_a_model_or_a_sampler_that_reads_none_are_refused(folder, tmp_path):
    texts = small.save_model(tmp_path / "texts")
    plain = {"prompt": "1=", "target": "1", "model_inputs": ROWS[0]["model_inputs"]}
    with pytest.raises(DataError, match="row 0 has model_inputs beside its prompt, and the model reads text alone"):
        make(texts, tmp_path, grpo(group_size=2), [plain] * 2, reward=small.digits).check()
    with pytest.raises(ModelError, match="reads ids alone"):
        TrainerConfig(device="cpu").start(LanguageModel.load(texts)).forward(
            batch_of([{**plain, "prompt": [4, 5]}], [[6]]), {"old_logprob": "logprob"}
        )

    class Blind(EmbeddedSampler):
        """Draws from ids alone."""

        reads_inputs = False

    with pytest.raises(RunError, match="sampler Blind does not give them to the model"):
        make(folder, tmp_path, grpo(group_size=2), reward=small.digits, sampler=Blind, steps=1).train()
