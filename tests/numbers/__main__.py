"""Numbers that must not move while code is redrawn: recorded on one state, compared on another.

    python -m tests.numbers record FILE [--default-run]
    python -m tests.numbers compare FILE [--renames docs/renames.json] [--default-run] [--only WORD]

Run from the repository's root; it is no part of the tests.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.numbers import cases, comparing, inputs, recording
from tests.numbers.renames import Renames

SHOWN = 6
"""Lines of a case that are printed; the number of the others is."""


def main() -> int:
    """Record, or compare and return 1 if anything moved."""
    parser = argparse.ArgumentParser(prog="python -m tests.numbers", description=__doc__)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--renames", type=Path, help="a file of what names became")
    parser.add_argument("--default-run", action="store_true", help="also `rlcore train seed=0`: two minutes")
    parser.add_argument("--only", default="", help="only what has this in its name: 'loss ', 'algorithm ppo'")
    parser.add_argument("--all-lines", action="store_true", help="print every difference")
    args = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.process_time()
    status = record(args) if args.command == "record" else compare(args)
    print(f"{time.process_time() - begin:.0f} CPU seconds")
    return status


def record(args: argparse.Namespace) -> int:
    """Record everything; a case that cannot run is an error."""
    names, runs, failed = Renames(), {}, []
    listed = [*cases.cases(), *([cases.DEFAULT_RUN] if args.default_run else [])]
    for case in (c for c in listed if args.only in c.name):
        print(f"{time.process_time():.0f} s: {case.name}", flush=True)
        try:
            runs[case.name] = _record_run(case, names)
        except Exception as error:
            failed.append(f"{case.name}: {type(error).__name__}: {error}")
            print("FAILED", failed[-1], flush=True)
    parts = {}
    for kind, name, component in recording.components(names):
        for shape in inputs.SHAPES:
            label = f"component {kind} {name} {shape}"
            if args.only in label:
                try:
                    parts[label] = {"kind": kind, "name": name, "shape": shape}
                    parts[label]["outputs"] = recording.outputs(kind, name, component, shape, names)
                except Exception as error:
                    failed.append(f"{label}: {type(error).__name__}: {error}")
                    print("FAILED", failed[-1], flush=True)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "machine": platform.machine()}
    tree = {"versions": versions, "files": cases.digest_of_files(), "runs": runs, "components": parts}
    args.file.parent.mkdir(parents=True, exist_ok=True)
    args.file.write_text(json.dumps(tree, indent=0), encoding="utf-8")
    print(f"recorded {len(runs)} runs and {len(parts)} outputs of components in {args.file}; {len(failed)} failed")
    return 1 if failed else 0


def _record_run(case: cases.Case, names: Renames) -> dict[str, Any]:
    """Return a case with what it left behind, with the wished settings where the algorithm takes them."""
    stages = [{**stage, **case.wished} if case.wished else stage for stage in case.stages]
    try:
        return {"stages": stages, "left": recording.run(stages, names)}
    except RuntimeError as error:
        if not case.wished or "minibatches" not in str(error):
            raise
    return {"stages": case.stages, "left": recording.run(case.stages, names)}


def compare(args: argparse.Namespace) -> int:
    """Run what was recorded under the names of today and say what moved."""
    tree, names = json.loads(args.file.read_text(encoding="utf-8")), Renames.read(args.renames)
    report = Report(args.all_lines)
    if tree["files"] != cases.digest_of_files():
        report.moved("files", ["the data files of the runs are not those that were recorded"])
    for label, run in tree["runs"].items():
        if args.only in label and (label != cases.DEFAULT_RUN.name or args.default_run):
            report.compared(label, lambda run=run: _run_lines(run, names))
    found = {(kind, name): component for kind, name, component in recording.components(names)}
    for label, old in tree["components"].items():
        if args.only in label:
            report.compared(label, lambda old=old: _component_lines(old, found, names))
    if not args.only:
        report.moved("components", list(_come(tree, found, names)))
    return report.end()


def _run_lines(run: dict[str, Any], names: Renames) -> list[str]:
    return list(comparing.run_differences(run["left"], recording.run(run["stages"], names), names))


def _component_lines(old: dict[str, Any], found: dict[tuple[str, str], Any], names: Renames) -> list[str]:
    kind = old["kind"]
    name = names.component(kind, old["name"])
    if name is None:
        raise recording.Gone(f"{kind} {old['name']}")
    if (kind, name) not in found:
        return [f"{kind} {name} was recorded and is not registered now"]
    # The options that it was recorded with stand under its old name.
    now = recording.outputs(kind, old["name"], found[kind, name], old["shape"], names)
    return list(comparing.component_differences(old["outputs"], now, names))


def _come(tree: dict[str, Any], found: dict[tuple[str, str], Any], names: Renames) -> list[str]:
    """Return the components and algorithms that are registered now and were not recorded."""
    recorded = {(old["kind"], names.component(old["kind"], old["name"])) for old in tree["components"].values()}
    runs = {run["stages"][0].get("algorithm") for run in tree["runs"].values()}
    algorithms = {names.component("algorithm", name) for name in runs if name}
    now = [case.stages[0]["algorithm"] for case in cases.cases() if case.name.startswith("algorithm ")]
    come = [("algorithm", name) for name in now if name not in algorithms] + [k for k in found if k not in recorded]
    return [
        f"{kind} {name} is registered now and was not recorded"
        for kind, name in come
        if not names.is_new("components", name) and not names.is_new("components", f"{kind}:{name}")
    ]


class Report:
    """What was compared so far, printed as it comes."""

    def __init__(self, all_lines: bool) -> None:
        self.limit = None if all_lines else SHOWN
        self.same: list[str] = []
        self.different: list[str] = []
        self.gone: list[str] = []

    def compared(self, label: str, lines: Any) -> None:
        """Compare one case; one that does not run any more is a difference."""
        try:
            self.moved(label, lines())
        except recording.Gone as gone:
            self.gone.append(f"{label}: {gone}")
        except Exception as error:
            self.moved(label, [f"does not run: {type(error).__name__}: {error}"])

    def moved(self, label: str, lines: list[str]) -> None:
        """Count a case, and print what differs."""
        (self.different if lines else self.same).append(label)
        if lines:
            more = len(lines) - len(lines[: self.limit])
            print("\n    ".join([f"DIFFERS {label}", *lines[: self.limit], *([f"and {more} more"] if more else [])]))
            sys.stdout.flush()

    def end(self) -> int:
        """Print the sums; return 1 if anything moved."""
        for line in self.gone:
            print("GONE ON PURPOSE", line)
        print(f"{len(self.same)} equal bit for bit, {len(self.different)} differ, {len(self.gone)} gone on purpose")
        return 1 if self.different else 0


sys.exit(main())
