"""What is recorded of a run and of a component: floats and tensors to the last bit, as hexadecimal text."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tests.numbers import cases, inputs, product
from tests.numbers.renames import Renames

CLOCKS = ("seconds", "per_second", "mib")
"""Endings of what a clock or the machine's memory made, wherever it stands."""

GROUP_KINDS = {"selects": "select", "kl_in_reward": "kl", "value_loss": "loss", "data": "dataset"}
"""Configuration groups whose kind has another name."""

CHOICES = ("algorithm", "advantage", "loss", "reduction", "kl", "kl_in_reward", "filter", "correction", "shaping")
CHOICES = (*CHOICES, "selects", "controller", "reward", "order", "data", "model", "tracker")
VIEWS = {"advantage": "estimator"}
KINDS = ("advantage", "loss", "reduction", "kl", "correction", "shaping", "filter", "select", "controller")
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("advantage", "clip"): {"high": 0.5},
    ("advantage", "scale"): {"factor": 0.5},
    ("shaping", "soft_overlong"): {"max_length": 20, "buffer": 10},
    ("shaping", "weighted_components"): {"weights": (1.0, 0.5, 0.25)},
}
"""Options of those whose defaults do nothing here."""


class Gone(Exception):
    """Something of a case is gone on purpose."""


# -- runs


def words_of(stage: Mapping[str, Any], names: Renames, places: Mapping[str, str]) -> list[str]:
    """Return the words of a command line, under the names of today. Raises Gone."""
    words = []
    for old, value in stage.items():
        key = names.name("options", old)
        if key is None:
            raise Gone(f"option {old}")
        if old in CHOICES:
            kind = GROUP_KINDS.get(old, old)
            values = value if isinstance(value, list) else [value]
            chosen = [v if str(v).startswith("{") else names.component(kind, v) for v in values]
            if None in chosen:
                raise Gone(f"{kind} {value}")
            value = chosen if isinstance(value, list) else chosen[0]
        words.append(f"{key}={_text(value, places)}")
    return words


def _text(value: Any, places: Mapping[str, str]) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(one, places) for one in value) + "]"
    if isinstance(value, str) and value.startswith("{"):
        place, _, after = value[1:].partition("}")
        return places[place] + after
    return "'+'" if value == "+" else str(value)


def run(stages: list[cases.Stage], names: Renames) -> dict[str, Any]:
    """Run the commands of a case in folders of their own; return what the last one left behind."""
    with tempfile.TemporaryDirectory() as home:
        places = {name: str(path) for name, path in cases.FILES.items()}
        folder = Path(home)
        for number, stage in enumerate(stages):
            own = {} if "seed" in stage and len(stage) == 1 else cases.BASE
            if "resume" not in stage:
                folder = Path(home, f"run{number}")
                stage = {**own, **stage, "run.folder": home, "run.name": folder.name}
            product.command_line(["train", "--quiet", *words_of(stage, names, places)])
            places[str(number)] = str(folder)
        return _left_behind(folder, names)


def _left_behind(folder: Path, names: Renames) -> dict[str, Any]:
    columns = [names.name("columns", old) for old in ("tokens", "stop", "score", "reward", "advantage")]
    rollouts = product.rollouts_of(folder)
    texts = [row.get("completion") for row in rollouts]
    return {
        "metrics": [_hex(row) for row in product.metrics_of(folder)],
        "evaluations": [_hex(row) for row in product.metrics_of(folder, "evaluations.jsonl")],
        "weights": {name: _digest(tensor) for name, tensor in product.weights_of(folder)},
        "completions": {"rows": len(texts), "sha256": hashlib.sha256(repr(texts).encode()).hexdigest()},
        "rollouts": {name: _column(rollouts, name) for name in columns if name is not None},
    }


def _column(rollouts: list[dict[str, Any]], name: str) -> str:
    values = [_number(row.get(name)) for row in rollouts]
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _hex(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in row.items() if not name.endswith(CLOCKS)}


def _number(value: Any) -> Any:
    return float(value).hex() if isinstance(value, int | float) and not isinstance(value, bool) else value


def _digest(tensor: torch.Tensor) -> str:
    raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{tensor.dtype} {list(tensor.shape)} {hashlib.sha256(raw).hexdigest()}"


# -- components


def components(names: Renames) -> Iterator[tuple[str, str, Any]]:
    """Give kind, name and component of everything registered whose outputs are recorded."""
    for kind in KINDS:
        for name, component in product.registered(kind).items():
            yield kind, name, component


def outputs(kind: str, name: str, component: Any, shape: str, names: Renames) -> dict[str, Any]:
    """Return what a component gives on a shape of batch, with its gradients; an error as the name of its class."""
    columns = inputs.columns_of(shape, VIEWS.get(kind, "rows"))
    for old, new in names.tables.get("columns", {}).items():
        if new is not None and old in columns:
            columns[new] = columns[old]
    leaves = {}
    if kind in ("loss", "kl"):
        leaves = {c: columns[c].clone().requires_grad_() for c in inputs.DIFFERENTIATED}
        columns |= leaves
    # Under its recorded name, or under the one that it has where this file was renamed too.
    if options := OPTIONS.get((kind, name)) or OPTIONS.get((kind, str(names.component(kind, name)))):
        component = product.bind(component, **options)
    found: dict[str, Any] = {}
    _flatten("", product.invoke(component, columns), found)
    recorded = {place: _bits(value) for place, value in found.items()}
    total = sum(
        (value * _slopes(value)).sum()
        for value in found.values()
        if isinstance(value, torch.Tensor) and value.requires_grad
    )
    if isinstance(total, torch.Tensor):
        gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        for column, gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                recorded[f"gradient of {column}"] = _bits(gradient)
    return recorded


def _slopes(value: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, max(value.numel(), 1))[: value.numel()].view_as(value)


def _flatten(place: str, value: Any, found: dict[str, Any]) -> None:
    """Lay tensors and numbers of nested results side by side, by the path to each."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif hasattr(value, "_fields"):
        pairs = list(zip(value._fields, value, strict=True))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif isinstance(value, list | tuple):
        pairs = list(enumerate(value))
    else:
        found[place or "result"] = value
        return
    for name, inner in pairs:
        _flatten(f"{place}/{name}" if place else str(name), inner, found)


def _bits(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return _number(value)
    plain = value.detach().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return {"dtype": str(plain.dtype), "shape": list(plain.shape), "bytes": raw.hex()}
