"""Write docs/models.md: how each model class of transformers for causal language modelling is run, by proof.

It knows no name of a family: it goes through the table of the installed transformers. `python docs/make_models.py`
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from rlcore.errors import ModelError
from rlcore.protocols import Request, SamplingParams
from rlcore.sample.decoder import decoding_of
from rlcore.sample.embedded import EmbeddedSampler
from rlcore.train.model import LanguageModel, pack
from rlcore.train.proof import Proof, prove
from rlcore.train.small_copy import small_config, small_copy

PAGE = Path(__file__).parent / "models.md"
WHY = 150


def names() -> list[str]:
    """Return the names of transformers' table of causal language models."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def line(name: str) -> tuple[str, str]:
    """Return how a model is run ("packed", "own", "refused", "not built") and its line of the page."""
    from transformers import CONFIG_MAPPING

    try:
        config = CONFIG_MAPPING[name]()
        proof = prove(config)
        gap, how = sampler_gap(config, proof)
    except ModelError as error:
        how = "refused" if "neither way" in str(error) else "not built"
        return how, f"| `{name}` | {how} | | | | {_short(str(error))} |"
    except Exception as error:  # noqa: BLE001 - a default configuration of others may be unusable
        return "not built", f"| `{name}` | not built | | | | {_short(f'{type(error).__name__}: {error}')} |"
    difference = proof.packed if proof.way == "packed" else proof.own
    why = "" if proof.way == "packed" else _packed_reason(proof)
    return proof.way, f"| `{name}` | {proof.way} | {how} | {difference:.0e} | {gap:.0e} | {why} |"


def sampler_gap(config: Any, proof: Proof) -> tuple[float, str]:
    """Return the largest difference of the sampler's log-probabilities from the trainer's, and how it draws."""
    module = small_copy(small_config(config))
    model = LanguageModel(module, SimpleNamespace(eos_token_id=None), proof=proof)
    params = SamplingParams(max_new_tokens=12, ignore_eos=True)
    requests = [Request((3 + i, 5, 7, 11)[: 1 + i], params, seed=i, group=i) for i in range(4)]
    drawn = EmbeddedSampler(model).generate(requests)
    rows = [torch.tensor([*r.prompt, *c.tokens]) for r, c in zip(requests, drawn, strict=True)]
    packed = pack(torch.cat(rows), torch.tensor([len(row) for row in rows]))
    with torch.no_grad():
        logprob = model.logits(model.hidden(packed)).log_softmax(-1)
    largest, begin = 0.0, 0
    for request, completion, row in zip(requests, drawn, rows, strict=True):
        places = torch.arange(len(request.prompt) - 1, len(row) - 1)
        expected = logprob[begin + places, row[places + 1]]
        largest = max(largest, float((expected - torch.tensor(completion.logprob)).abs().max()))
        begin += len(row)
    return largest, decoding_of(model)


def page() -> str:
    """Return the whole page."""
    import transformers

    lines, counts = [], dict.fromkeys(("packed", "own", "refused", "not built"), 0)
    for name in names():
        how, text = line(name)
        counts[how] += 1
        lines.append(text)
        print(text, file=sys.stderr, flush=True)
    return f"""# Models

No list of names decides which models run. Before its weights are read a small copy of a model (the same class and
options, few layers, small widths, every length cut to 8, all parameters drawn anew) is run beside its own eager forward
pass, values and gradients, and the result is kept in `~/.cache/rlcore/proofs`.

- **packed**: all rows as one sequence, attention by rlcore, prompts shared.
- **own**: the model's own forward pass over padded rows. It is right, and slower: a shared prompt is computed for each
  row.
- **refused**: neither is right, it is not causal, or its logits are not made by a head of hidden states.
- **not built**: the default configuration cannot be built small, for the reason that is given. A checkpoint's own may
  well be.

The sampler draws with a **fused** step, or through the **modules**, from kept keys and values; where neither gives what
the trainer gives, it computes **whole rows** anew for each token.

This table is made by `python docs/make_models.py` from the default configurations of transformers
{transformers.__version__}: {counts["packed"]} packed, {counts["own"]} own, {counts["refused"]} refused,
{counts["not built"]} not built. `trainer` is the largest difference of values and gradients from the model alone, over
the largest value; `sampler` that of log-probabilities (nats) from the trainer's.

| `model_type` | way | drawn | trainer | sampler | why |
|---|---|---|---|---|---|
{chr(10).join(lines)}
"""


def _packed_reason(proof: Proof) -> str:
    if proof.packed is None:
        return _short(proof.why.removeprefix("packed: "))
    return "packed leaves a parameter out" if proof.packed == float("inf") else f"packed differs by {proof.packed:.0e}"


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "/")[:WHY]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        # What was proven by an earlier state of the code is not taken over.
        os.environ["XDG_CACHE_HOME"] = cache
        PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
