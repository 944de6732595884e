"""How a model may be run, decided by proof and not by its name: on a small copy of it, beside its own forward pass.

The packed way hands the modules all rows as one sequence and does the attention itself; it is fast, and right only
where the attention needs no more than what it is handed. The own way runs the model's own forward pass over padded
rows. Each is compared with the eager forward pass over each row alone: values, and gradients of every parameter.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rlcore.errors import ModelError
from rlcore.train.small_copy import own_code, reads_images, small_config, small_copy

TOLERANCE = 1e-4
ROWS = (5, 17, 40)
"""Lengths of the rows that are compared: below and past every length in a small copy's options, and more than its
positions in all: a packed sequence is longer than any row."""

FORMAT = 1
Way = Literal["packed", "own"]


@dataclass(frozen=True)
class Proof:
    """What was found on a small copy: largest differences from the model's own forward pass, by way.

    Attributes:
        way: "packed" where that is right, else "own".
        packed, own: largest difference of logits and of gradients, each over the largest value; None where it was not
            tried or could not be run, and `why` says what was raised.
    """

    way: Way
    packed: float | None
    own: float | None
    why: str = ""


def prove(config: Any) -> Proof:
    """Return how the model of a Hugging Face configuration may be run.

    The result is kept, by the small configuration and the versions of the libraries, in `~/.cache/rlcore/proofs`.

    Raises ModelError for a model that neither way runs right, with the differences, and for one that cannot be built
    small.
    """
    key = small_key(config)
    if key not in _proven:
        _proven[key] = _kept(key) or _keep(key, _prove(type(config).__name__, small_config(config)))
    return _proven[key]


_proven: dict[str, Proof] = {}


def small_key(config: Any) -> str:
    """Return what a proof depends on: libraries, class and small options."""
    import transformers

    versions = [transformers.__version__, torch.__version__, FORMAT]
    if own_code(config):
        place = Path(str(sys.modules[type(config).__module__].__file__)).parent
        versions += [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(place.glob("*.py"))]
    return json.dumps([versions, type(config).__name__, small_config(config).to_dict()], sort_keys=True, default=str)


def _file(key: str) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlcore" / "proofs"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _kept(key: str) -> Proof | None:
    try:
        return Proof(**json.loads(_file(key).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # not proven yet, or another version of this file


def _keep(key: str, proof: Proof) -> Proof:
    file = _file(key)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(asdict(proof)), encoding="utf-8")
        aside.replace(file)
    except OSError:
        pass  # a home that cannot be written to: it is proven again next time
    return proof


def _prove(name: str, small: Any) -> Proof:
    from rlcore.train.model import LanguageModel

    module: Any = small_copy(small)
    try:
        rows = _rows(int(module.get_output_embeddings().weight.shape[0]))
        module.set_attn_implementation("eager")
        expected = _run(module, lambda: torch.cat([module(input_ids=r[None], use_cache=False).logits[0] for r in rows]))
        _check_causal(name, module, rows[-1], expected[0][-len(rows[-1]) :])
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"a small copy of {name} cannot be run: {type(error).__name__}: {error}") from error
    found: dict[Way, float | None] = {}
    why = []
    # Images are read by the model's own forward pass alone.
    ways: tuple[Way, ...] = ("own",) if reads_images(small) else ("packed", "own")
    for way in ways:
        try:
            model = LanguageModel(module, None, proof=Proof(way, None, None))
            found[way] = _difference(expected, _run(module, partial(_logits, model, rows)))
        except Exception as error:  # noqa: BLE001 - a module of others may raise anything
            found[way] = None
            why.append(f"{way}: {type(error).__name__}: {error}")
        difference = found[way]
        if difference is not None and difference < TOLERANCE:
            return Proof(way, found.get("packed"), found.get("own"), "; ".join(why))
    differences = ", ".join(f"{way} {'could not be run' if d is None else f'{d:.1e}'}" for way, d in found.items())
    raise ModelError(
        f"{name} is run right by neither way: a small copy differs from its own forward pass by ({differences}), of "
        f"{TOLERANCE:g} allowed{'. ' if why else ''}{'; '.join(why)[:300]}"
    )


def _check_causal(name: str, module: Any, row: Tensor, logits: Tensor) -> None:
    """Raise ModelError for a model whose predictions depend on what comes after them."""
    cut = len(row) // 2
    with torch.no_grad():
        before = module(input_ids=row[None, :cut], use_cache=False).logits[0]
    difference = float((before - logits[:cut]).abs().max() / logits.abs().max())
    if not difference < TOLERANCE:
        raise ModelError(
            f"{name} is run right by neither way: what it predicts from a text changes by {difference:.1e} when the "
            f"text goes on, so it is no causal language model (an option such as is_decoder may make it one)"
        )


def _rows(vocabulary: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, max(vocabulary - 8, 4), (length,), generator=generator) for length in ROWS]


def _logits(model: Any, rows: list[Tensor]) -> Tensor:
    from rlcore.train.model import pack

    packed = pack(torch.cat(rows), torch.tensor([len(row) for row in rows]))
    logits: Tensor = model.logits(model.hidden(packed))
    return logits


def _run(module: Any, forward: Callable[[], Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return logits, and the gradient of a fixed mixture of them by every parameter."""
    module.zero_grad(set_to_none=True)
    with torch.enable_grad():
        logits = forward().float()
        mixture = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2))
        (logits * mixture).sum().backward()
    gradients = {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}
    module.zero_grad(set_to_none=True)
    return logits.detach(), gradients


def _difference(one: tuple[Tensor, dict[str, Tensor]], other: tuple[Tensor, dict[str, Tensor]]) -> float:
    """Return the largest difference of values and gradients, each over the largest magnitude of its own tensor."""
    if one[0].shape != other[0].shape or one[1].keys() != other[1].keys():
        return float("inf")
    largest = max((float(g.abs().max()) for g in one[1].values()), default=1.0)
    pairs = [(one[0], other[0], float(one[0].abs().max()))]
    pairs += [(one[1][n], other[1][n], max(float(one[1][n].abs().max()), 1e-3 * largest)) for n in one[1]]
    differences = [float((a - b).abs().max()) / max(scale, 1e-12) for a, b, scale in pairs]
    return float("inf") if any(d != d for d in differences) else max(differences)
