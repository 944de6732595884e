import json
import math
import os
import pickle
import signal
from dataclasses import replace

import pytest
import torch

from rlcore.cli import main
from rlcore.component import bind
from rlcore.errors import ConfigError, ModelError, RewardError
from rlcore_algorithms import grpo
from rlcore_rewards.reward_model import RewardModel, batches, unused_id
from tests.rewards.reward_models import SUMS, classifier, pairs, rewards_of, save, trained
from tests.run.small import make, read
from tests.tiny import EOS, byte_tokenizer, character_tokenizer, save_tiny

CHAT = "<bos>{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}"
TEXTS = ["1+1=2", "1+1=", "", "2", "a long one, " * 8, "3*(4+5)=27", "?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random classifier."""
    return save(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A reward model of sums."""
    return save(tmp_path_factory.mktemp("learnt"), *trained())


def here(path, **options):
    return RewardModel(path=str(path), workers=0, device="cpu", **options)


def alone(model, texts=TEXTS):
    return [model([text], ["."])[0] for text in texts]


# -- scores


@pytest.mark.parametrize("pad_is_eos", [False, True])
@pytest.mark.parametrize("padding_id", [0, EOS, None])
def test_padding_changes_no_score(tmp_path, padding_id, pad_is_eos):
    tokenizer = character_tokenizer(pad_is_eos=pad_is_eos)
    model = here(save(tmp_path, classifier(pad_token_id=padding_id), tokenizer))
    texts = [*TEXTS, "ends with<eos>"]
    together = model(texts, ["."] * len(texts))
    assert max(abs(a - b) for a, b in zip(together, alone(model, texts), strict=True)) < 1e-5
    assert len(set(together)) == len(texts)


def test_scores_are_those_of_the_classifier(folder):
    from transformers import AutoModelForSequenceClassification

    module, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), character_tokenizer()
    with torch.no_grad():
        wanted = [float(rewards_of(module, tokenizer, [text + "."])) for text in TEXTS]
    assert here(folder)(TEXTS, ["."] * len(TEXTS)) == pytest.approx(wanted, abs=1e-5)


def test_a_model_of_another_make_grades_too(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = character_tokenizer()
    sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, num_labels=1, **sizes)
    model = here(save(tmp_path, BertForSequenceClassification(config).eval(), tokenizer))
    together = model(TEXTS, ["."] * len(TEXTS))
    assert max(abs(a - b) for a, b in zip(together, alone(model), strict=True)) < 1e-5


def test_batches_hold_so_many_padded_tokens_and_every_row_once():
    rows = {row: [0] * length for row, length in enumerate([3, 9, 1, 4, 4, 40, 2])}
    made = list(batches(rows, 12))
    assert sorted(row for batch in made for row in batch) == sorted(rows)
    assert made == [[5], [1], [3, 4, 0], [6, 2]]
    assert list(batches({}, 12)) == []
    assert unused_id([[0, 1, 3], [2]]) == 4


def test_small_batches_give_the_same_scores(folder):
    one, other = here(folder), here(folder, batch_tokens=20)
    assert one(TEXTS, ["."] * len(TEXTS)) == pytest.approx(other(TEXTS, ["."] * len(TEXTS)), abs=1e-5)


def test_one_of_several_labels_is_the_score(tmp_path):
    module = classifier(labels=3)
    module.config.id2label = {0: "bad", 1: "fair", 2: "good"}
    path = save(tmp_path, module)
    logits = [here(path, label=label)(["1+1="], ["2"])[0] for label in ("bad", 1, "2")]
    assert len(set(logits)) == 3
    shares = [here(path, label=label, output="probability")(["1+1="], ["2"])[0] for label in range(3)]
    assert shares == pytest.approx(torch.tensor(logits).softmax(0).tolist(), abs=1e-6)
    with pytest.raises(ModelError, match=r"has 3 labels: 0 \(bad\), 1 \(fair\), 2 \(good\); choose reward.label"):
        here(path)
    with pytest.raises(ModelError, match="Did you mean 'good'"):
        here(path, label="god")


def test_the_probability_of_a_single_label_is_its_sigmoid(folder):
    (logit,), (share,) = here(folder)(["1"], ["2"]), here(folder, output="probability")(["1"], ["2"])
    assert share == pytest.approx(1 / (1 + math.exp(-logit)))


# -- text


def test_messages_are_written_by_the_models_own_template(tmp_path):
    tokenizer = character_tokenizer()
    tokenizer.chat_template = CHAT
    model = here(save(tmp_path, tokenizer=tokenizer))
    messages, reply = [{"role": "user", "content": "1+1?"}], [{"role": "assistant", "content": "2"}]
    as_chat = model([messages], [reply])
    assert as_chat == model([messages], ["2"])
    assert as_chat == here(tmp_path, text="plain")(["user:1+1?\nassistant:2\n"], [""])
    assert as_chat == here(tmp_path, text="chat")(["1+1?"], ["2"])
    assert as_chat != model(["1+1?"], ["2"])
    assert here(tmp_path, text="plain")([messages], [reply], ["1+1?"]) == model(["1+1?"], ["2"])


def test_messages_without_a_template_are_refused(folder):
    with pytest.raises(ModelError, match="has no chat template; reward.text=plain"):
        here(folder)([[{"role": "user", "content": "1+1?"}]], ["2"])


def test_a_row_that_is_too_long_is_an_error_of_its_own_or_cut(folder):
    long = "9" * 300
    good, bad = here(folder)(["1", long], ["2", "3"])
    assert isinstance(good, float)
    assert isinstance(bad, RewardError)
    assert "have 302 tokens, the reward model" in str(bad) and "takes 256" in str(bad)
    ids = character_tokenizer()(long + "3")["input_ids"]
    for too_long, kept in (("left", ids[-20:]), ("right", ids[:20])):
        (cut,) = here(folder, max_tokens=20, too_long=too_long)([long], ["3"])
        module = classifier()
        with torch.no_grad():
            assert cut == pytest.approx(float(module(input_ids=torch.tensor([kept])).logits), abs=1e-5)


def test_a_row_without_a_token_is_an_error_of_its_own(tmp_path):
    tokenizer = byte_tokenizer()
    model = here(save(tmp_path, classifier(tokenizer=tokenizer), tokenizer))
    empty, good = model(["", "1"], ["", "2"])
    assert "no tokens" in str(empty)
    assert isinstance(good, float)


def test_a_number_that_is_not_finite_is_an_error_of_its_row(tmp_path):
    module = classifier()
    with torch.no_grad():
        module.get_input_embeddings().weight[character_tokenizer().convert_tokens_to_ids("7")] = math.nan
    bad, good = here(save(tmp_path, module))(["7", "1"], ["7", "2"])
    assert isinstance(bad, RewardError) and "gave nan" in str(bad)
    assert isinstance(good, float)


# -- what is refused before anything is graded


def test_folders_that_hold_no_reward_model_are_refused_at_once(tmp_path, folder):
    with pytest.raises(ConfigError, match="reward.path must be set"):
        RewardModel()
    with pytest.raises(ModelError, match="reward.path=nowhere"):
        RewardModel(path="nowhere")
    with pytest.raises(ModelError, match=r"Qwen3ForCausalLM; a reward model is one of a class \.\.\.ForSeq"):
        RewardModel(path=str(save_tiny(tmp_path / "policy")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="has no config.json"):
        RewardModel(path=str(tmp_path / "empty"))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    classifier().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has no tokenizer"):
        here(tmp_path)


def test_a_head_that_was_not_saved_is_an_error_and_not_a_random_one(tmp_path):
    from safetensors.torch import load_file, save_file

    path = save(tmp_path)
    weights = load_file(path / "model.safetensors")
    head = weights.pop("score.weight")
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lack 1 parameters .* score\.weight"):
        RewardModel(path=str(path))
    save_file({**weights, "score.weight": torch.cat([head, head])}, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"in another shape: score\.weight"):
        RewardModel(path=str(path))
    weights.pop("model.norm.weight")
    save_file({**weights, "score.weight": head}, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"model\.norm\.weight"):
        here(path)(["1"], ["2"])


def test_a_policy_whose_config_says_classifier_is_refused(tmp_path):
    path = save_tiny(tmp_path / "policy")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "architectures": ["Qwen3ForSequenceClassification"]}))
    with pytest.raises(ModelError, match=r"score\.weight"):
        RewardModel(path=str(path), label=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(workers=-1), "workers=-1"),
        (dict(batch_tokens=0), "batch_tokens=0"),
        (dict(max_tokens=-1), "max_tokens=-1"),
        (dict(seconds=math.nan), "seconds=nan"),
        (dict(device="gpu"), "'gpu' is none of"),
    ],
)
def test_options_that_cannot_be_are_refused(folder, options, said):
    with pytest.raises(ConfigError) as raised:
        RewardModel(path=str(folder), **options)
    assert said in str(raised.value)


def test_a_check_says_what_is_wrong_with_a_reward_model(folder, tmp_path, capsys):
    words = ["check", f"model={folder}", "data=countdown", "data.rows=16", "reward=reward_model"]
    for given, said in (
        ([], "reward.path must be set"),
        ([f"reward.path={folder}s"], f"Did you mean '{folder.name}'"),
        ([f"reward.path={tmp_path}"], "has no config.json"),
        ([f"reward.path={folder}", "reward.worker=0"], "Did you mean 'workers'"),
        ([f"reward.path={folder}", "reward.label=good"], "has the labels 0 (LABEL_0)"),
    ):
        assert main([*words, *given]) == 1
        assert said in capsys.readouterr().err


# -- where it runs


class Deadly(RewardModel):
    """Ends its process where a row says so."""

    def score_rows(self, rows):
        if any("die" in row.prompt for row in rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().score_rows(rows)


def test_workers_give_the_same_scores_in_order_and_one_that_dies_is_replaced(folder, tmp_path):
    made = Deadly(path=str(folder), workers=2, device="cpu")
    assert made([], []) == []
    assert made._workers is None
    model = pickle.loads(pickle.dumps(made))
    try:
        assert model(TEXTS, ["."] * len(TEXTS)) == pytest.approx(here(folder)(TEXTS, ["."] * len(TEXTS)), abs=1e-5)
        found = model(["1", "2", "die", "4"], ["."] * 4)
        assert [isinstance(one, float) for one in found] == [True, True, False, False]
        assert "worker of the reward model" in str(found[2]) and "died" in str(found[2])
        assert all(isinstance(one, float) for one in model(["1", "2", "3", "4"], ["."] * 4))
    finally:
        model.close()
    assert model._workers is None


def test_what_no_row_can_help_is_an_error_of_the_whole(folder, tmp_path):
    model = RewardModel(path=str(folder), device="cpu")
    model.source = str(tmp_path)
    try:
        with pytest.raises(ModelError, match="has no config.json"):
            model(["1"], ["2"])
    finally:
        model.close()


def test_a_model_that_cannot_be_loaded_says_so(tmp_path):
    model = here(save(tmp_path))
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(ModelError, match="cannot load the reward model"):
        model(["1"], ["2"])


# -- one that has learnt


def test_a_model_trained_on_pairs_ranks_pairs_it_has_not_seen(learnt):
    held = pairs()[1]
    model = here(learnt)
    prompts = [prompt for prompt, _, _ in held]
    right = model(prompts, [answer for _, answer, _ in held])
    wrong = model(prompts, [answer for _, _, answer in held])
    assert len(held) > 300
    assert sum(a > b for a, b in zip(right, wrong, strict=True)) >= 0.9 * len(held)


def run_of(learnt, folder, *, steps, workers):
    """A run of a random policy on the sums, graded by a reward model alone: its own scores, and the share right."""
    model = save_tiny(
        folder / "policy",
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        head_dim=12,
        initializer_range=0.05,
    )
    algorithm = replace(grpo(group_size=16), entropy_coefficient=0.2)
    rows = [{"prompt": prompt, "target": target} for prompt, target in SUMS.items()]
    reward = bind(RewardModel, path=str(learnt), device="cpu", workers=workers)
    sizes = dict(steps=steps, prompts=25, max_new_tokens=1, learning_rate=5e-3)
    run = make(model, folder / "runs", algorithm=algorithm, data=rows, reward=reward, **sizes).train()
    rows = read(run.folder / "rollouts.jsonl")
    drawn = [[row for row in rows if row["step"] == step] for step in sorted({row["step"] for row in rows})]
    right = [sum(row["completion"] == row["target"] for row in step) / len(step) for step in drawn]
    return [row["score"] for row in run.history], right


def test_a_run_is_graded_by_a_reward_model_alone(learnt, tmp_path):
    scores, right = run_of(learnt, tmp_path, steps=2, workers=0)
    assert len(scores) == len(right) == 2
    assert all(map(math.isfinite, scores))
    assert max(right) < 0.1


@pytest.mark.slow
def test_a_policy_learns_what_is_right_from_a_reward_model_in_a_worker(learnt, tmp_path):
    scores, right = run_of(learnt, tmp_path, steps=60, workers=1)
    assert max(right[:3]) < 0.1
    assert min(right[-5:]) > 0.4
    assert scores[-1] > scores[0] + 3
