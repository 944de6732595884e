"""Comparison of recorded cases of a peer with our results, and the reasons that explain a difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Case = Mapping[str, Any]
TOLERANCE = 2e-5
"""|ours - theirs| <= TOLERANCE x max(1, |theirs|)."""
ALLOWED_SHARE = 0.03
"""The largest share of a file that may differ for a reason."""

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def tensor(value: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a recorded value, nested lists with `nan`, `inf` and `-inf` as words, as a tensor."""
    return torch.tensor(_numbers(value), dtype=dtype)


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return _WORDS[value] if isinstance(value, str) else value


@dataclass(frozen=True)
class CaseResult:
    """What we get for a case: its outputs by their recorded names, and the gradient; `at`: where [B, T] count."""

    out: Mapping[str, Any]
    grad: Tensor | None = None
    at: Tensor | None = None


@dataclass(frozen=True)
class Difference:
    """One output that is not as recorded."""

    key: str
    ours: Tensor
    theirs: Tensor

    @property
    def text(self) -> str:
        """Return the entry that differs most, or the shapes, in words."""
        if self.ours.shape != self.theirs.shape:
            return f"{self.key}: shape {tuple(self.ours.shape)} instead of {tuple(self.theirs.shape)}"
        worst = int((self.ours - self.theirs).abs().nan_to_num(math.inf, math.inf).argmax())
        ours, theirs = float(self.ours.flatten()[worst]), float(self.theirs.flatten()[worst])
        return f"{self.key}: {ours:.7g} instead of {theirs:.7g}"


@dataclass(frozen=True)
class Verdict:
    """What became of a case: "matched", "reasoned" with its predicate, or "failed" with what differs."""

    id: str
    state: str
    predicate: str = ""
    detail: str = ""


@dataclass(frozen=True)
class ComparedCase:
    """Both sides of a case, as a predicate sees them."""

    case: Case
    ours: CaseResult | None
    error: Exception | None
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()
    theirs: Mapping[str, Tensor] = field(default_factory=dict)


def differences(case: Case, result: CaseResult) -> tuple[tuple[Difference, ...], tuple[str, ...], dict[str, Tensor]]:
    """Return every recorded output that is not as ours, the names of those that we lack, and all recorded ones."""
    recorded: dict[str, Tensor] = {name: tensor(value) for name, value in (case.get("out") or {}).items()}
    ours = {name: _tensor(value) for name, value in result.out.items()}
    if case.get("grad") is not None:
        recorded["grad"] = tensor(case["grad"])
        if result.grad is not None:
            ours["grad"] = result.grad.float()
    different = []
    for name, theirs in recorded.items():
        if name not in ours:
            continue
        kept = _on_mask(name, ours[name], theirs, result.at)
        if kept.ours.shape != theirs.shape or not _agree(kept.ours, kept.theirs):
            different.append(kept)
    return tuple(different), tuple(name for name in recorded if name not in ours), recorded


def _tensor(value: Any) -> Tensor:
    return value.detach().float() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float32)


def _on_mask(name: str, ours: Tensor, theirs: Tensor, at: Tensor | None) -> Difference:
    """Return both with 0 where a [B, T] output does not count; a gradient counts everywhere."""
    if at is None or name == "grad" or ours.shape != at.shape or theirs.shape != at.shape:
        return Difference(name, ours, theirs)
    return Difference(name, torch.where(at, ours, 0), torch.where(at, theirs, 0))


def _agree(ours: Tensor, theirs: Tensor) -> bool:
    near = (ours - theirs).abs() <= TOLERANCE * theirs.abs().clamp(min=1)
    return bool((near | (ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def is_finite(value: Tensor) -> bool:
    """Return whether every entry is a number."""
    return bool(value.isfinite().all())


@dataclass(frozen=True)
class Reason:
    """A difference that is meant: a name, one sentence, and whether it explains all that differs in a case."""

    name: str
    sentence: str
    explains: Callable[[ComparedCase], bool]


def judge(case: Case, run: Callable[[Case], CaseResult], reasons: tuple[Reason, ...]) -> Verdict:
    """Run a case and return what became of it."""
    result: CaseResult | None = None
    error: Exception | None = None
    try:
        result = run(case)
    except Exception as caught:  # noqa: BLE001 whatever a component raises is its answer to the case
        error = caught
    identity = str(case.get("id", "?"))
    if error is not None and case.get("raises"):
        return Verdict(identity, "matched")
    compared = ComparedCase(case, result, error)
    if result is not None and not case.get("raises"):
        different, missing, theirs = differences(case, result)
        if not different and not missing:
            return Verdict(identity, "matched")
        compared = ComparedCase(case, result, error, different, missing, theirs)
    for reason in reasons:
        if reason.explains(compared):
            return Verdict(identity, "reasoned", reason.name)
    return Verdict(identity, "failed", detail=_detail(compared))


def _detail(compared: ComparedCase) -> str:
    if compared.error is not None:
        return f"we raise {type(compared.error).__name__}: {compared.error}"
    if compared.case.get("raises"):
        return f"the peer raises {compared.case['raises']}, we do not"
    parts = [difference.text for difference in compared.differences]
    if compared.missing:
        parts.append("we have no " + ", ".join(compared.missing))
    return "; ".join(parts)
