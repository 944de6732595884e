"""Losses over pairs and labels against what TRL 1.16 computed on the same ids with the same weights."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from rlcore import Batch, Update, bind
from rlcore.protocols import Term
from rlcore.registry import registry
from rlcore.train.model import LanguageModel
from rlcore.train.trainer import TrainerConfig
from rlcore_algorithms import losses
from rlcore_algorithms.kto import measure_mismatch
from rlcore_algorithms.reductions import sequence_mean_token_mean
from tests.tiny import character_tokenizer

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded_trl_pairs.json").read_text())["cases"]
WEIGHTS = load_file(HERE / "recorded_trl_pairs.safetensors")
LOSSES = {
    "dpo": bind(losses.dpo, beta=0.1),
    "dpo_beta_1": bind(losses.dpo, beta=1.0),
    "ipo": bind(losses.ipo, beta=0.1),
    "simpo": bind(losses.simpo, beta=2.0, gamma=0.5),
    "kto": bind(losses.kto, beta=0.1, undesirable_weight=1.33),
    "bradley_terry": losses.bradley_terry,
}


def trainer(which, **config):
    tokenizer = character_tokenizer()
    module = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, head_dim=8, max_position_embeddings=64, tie_word_embeddings=True, pad_token_id=0,
            bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip
    own = {name.removeprefix(f"{which}."): x for name, x in WEIGHTS.items() if name.startswith(which)}
    missing, unexpected = module.load_state_dict(own, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    return TrainerConfig(precision="float32", device="cpu", **config).start(LanguageModel(module, tokenizer))


def batch_of(rows, *, scored):
    """The recorded rows; for a reward model one more token, before which its score stands."""
    tokens = [[*row["tokens"], row["tokens"][-1]] if scored else row["tokens"] for row in rows]
    sampled = [[False] * (len(t) - 1) + [True] if scored else r["sampled"] for t, r in zip(tokens, rows, strict=True)]
    columns = {
        "length": [len(t) for t in tokens],
        "tokens": [i for t in tokens for i in t],
        "sampled": [on for row in sampled for on in row],
        "mask": [on for row in sampled for on in row],
    }
    columns |= {name: [row[name] for row in rows] for name in rows[0] if name not in ("tokens", "sampled")}
    return Batch(columns, table=registry().columns)


@pytest.mark.parametrize("name", RECORDED)
def test_value_and_gradients_are_those_of_trl(name):
    case = RECORDED[name]
    scored = name == "bradley_terry"
    policy = trainer("policy", head="score" if scored else "policy")
    batch, scalars = batch_of(case["rows"], scored=scored), {}
    if scored:
        with torch.no_grad():
            policy.forward_pass.value_head.weight.copy_(WEIGHTS["score.weight"][0])
    elif name != "simpo":
        batch = batch.assign(trainer("reference", frozen=True).forward(batch, {"ref_logprob": "logprob"}))
    if name == "kto":
        old = policy.forward(batch, {"old_logprob": "logprob"})
        whole = batch.assign(old)
        measured = measure_mismatch(whole["old_logprob"], whole["ref_logprob"], whole["mask"], whole["mismatched"])
        batch, scalars = batch.assign({"mask": measured.mask}), {"mismatch_kl": measured.mismatch_kl}
        assert measured.mismatch_kl == pytest.approx(case["metrics"]["kl"], abs=1e-5)
    update = Update((Term(LOSSES[name], sequence_mean_token_mean),))
    measured = policy.measure(batch, update, seed=0, scalars=scalars)
    assert float(measured["loss"].value) == pytest.approx(case["loss"], abs=1e-5)
    for ours, theirs in (("accuracy", "rewards/accuracies"), ("accuracy", "accuracy"), ("margin", "rewards/margins"),
                         ("chosen_reward", "rewards/chosen"), ("desirable_reward", "rewards/chosen")):  # fmt: skip
        # TRL's rewards of IPO are sums over tokens, ours the means that its loss compares.
        if ours in measured and theirs in case["metrics"] and name != "ipo":
            assert measured[ours].value == pytest.approx(case["metrics"][theirs], abs=1e-4)
    gradients = policy.gradient(batch, update, seed=0, scalars=scalars)
    compared = 0
    for parameter, expected in case["gradients"].items():
        if parameter == "score.weight":
            continue
        found = gradients[parameter].flatten()
        torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-4)
        compared += 1
    assert compared >= 4
    assert max(abs(x) for gradient in case["gradients"].values() for x in gradient) > 1e-2
