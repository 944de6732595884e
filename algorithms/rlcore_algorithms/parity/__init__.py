"""Recorded numbers of other frameworks, and whether ours agree: `python -m rlcore_algorithms.parity FILE.json`.

Every case is run through the preset of its peer and version (`verl-0.9/grpo`), by name from the registry. A file
holds `cases` and the peer's version; a case its arguments, settings and outputs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rlcore.errors import DataError
from rlcore_algorithms.parity import trl, verl
from rlcore_algorithms.parity.compare import ALLOWED_SHARE, Case, CaseResult, Verdict, judge
from rlcore_algorithms.parity.reasons import REASONS

_PEERS: dict[str, Callable[[Case, str], CaseResult]] = {"verl": verl.run, "trl": trl.run}
_DEFAULTS = {"verl": "verl-0.9", "trl": "trl-1.16"}


def read_cases(path: Path | str) -> tuple[list[Case], dict[str, str]]:
    """Return the cases of a file, and the preset family of each peer: its name with major and minor version.

    Raises DataError for a file in another format.
    """
    content: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    cases = content if isinstance(content, list) else content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list):
        raise DataError(f"{path}: expected a mapping with a list `cases`, or the list itself")
    families = dict(_DEFAULTS)
    for peer in _PEERS:
        if isinstance(content, dict) and peer in content:
            families[peer] = f"{peer}-{'.'.join(str(content[peer]).split('.')[:2])}"
    return cases, families


def judge_cases(cases: Iterable[Case], families: dict[str, str] | None = None) -> list[Verdict]:
    """Return what becomes of each case, in order."""
    names = {**_DEFAULTS, **(families or {})}

    def run(case: Case) -> CaseResult:
        peer = "trl" if "loss_type" in case else "verl"
        return _PEERS[peer](case, names[peer])

    return [judge(case, run, REASONS) for case in cases]


def format_report(verdicts: list[Verdict]) -> list[str]:
    """Return the lines to print: the three numbers, M for each predicate, and each failed case with what differs."""
    states = Counter(verdict.state for verdict in verdicts)
    lines = [f"matched {states['matched']}, reasoned {states['reasoned']}, failed {states['failed']}"]
    sentences = {reason.name: reason.sentence for reason in REASONS}
    for name, count in sorted(Counter(v.predicate for v in verdicts if v.state == "reasoned").items()):
        lines.append(f"  {name} {count}: {sentences[name]}")
    share = states["reasoned"] / max(len(verdicts), 1)
    if share > ALLOWED_SHARE:
        lines.append(f"  {share:.1%} of the file differ for a reason; at most {ALLOWED_SHARE:.0%} should")
    lines += [f"  failed {v.id}: {v.detail}" for v in verdicts if v.state == "failed"]
    return lines


def main(arguments: list[str]) -> int:
    """Print the report of each file; 1 if a case failed, 2 for wrong arguments."""
    if not arguments or any(name.startswith("-") for name in arguments):
        sys.stdout.write("usage: python -m rlcore_algorithms.parity FILE.json ...\n")
        return 2
    failed = False
    for path in arguments:
        verdicts = judge_cases(*read_cases(path))
        failed |= any(verdict.state == "failed" for verdict in verdicts)
        sys.stdout.write("\n".join(format_report(verdicts)) + "\n")
    return int(failed)
