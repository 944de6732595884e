"""`rlcore reward NAME FILE`: a reward tried on completions, and on fakes of them."""

from __future__ import annotations

import argparse
import ast
import contextlib
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rlcore.cli.shared import as_json, number
from rlcore.errors import ConfigError, RewardError, nearest, printable

if TYPE_CHECKING:
    from rlcore.component import Component
    from rlcore.config.overrides import Override
    from rlcore.protocols import Sample
    from rlcore.run.audit import Fake
    from rlcore.run.trial import Trial, Tried

ACCEPTED = 0.5
GROUPS = ("reward", "reward_manager")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "name", metavar="NAME", help="a registered reward, path/to/file.py:function, or {name: NAME, option: value}"
    )
    parser.add_argument("file", metavar="FILE", help="jsonl, json or parquet: rows of any layout with a `completion`")
    parser.add_argument(
        "words", nargs="*", metavar="option=value", help="options of the reward, or reward_manager.option=value"
    )
    parser.add_argument("--answer-key", default="", metavar="COLUMN", help="where the answer is: a column or a path")
    parser.add_argument("--completion-key", default="", metavar="COLUMN", help="where the completion is, likewise")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a row, in the file's order, then one summary; nothing else"
    )
    parser.add_argument(
        "--audit", action="store_true", help="grade fakes made from each row instead, and say which are accepted"
    )
    parser.add_argument(
        "--accepted", type=float, default=ACCEPTED, help=f"with --audit: what counts as accepted (default {ACCEPTED})"
    )
    parser.add_argument("--workers", type=int, default=1, help="how many samples to grade at once (default 1)")
    parser.add_argument("--count", type=int, default=20, help="how many rows to show (default 20)")


def run(args: argparse.Namespace) -> int:
    """Grade and print; the status is 0 whatever the scores."""
    from rlcore.run.audit import fakes
    from rlcore.run.trial import Trial, samples_of

    if math.isnan(args.accepted):
        raise ConfigError("--accepted nan: expected a number, which scores are compared with")
    with results_alone() as out:
        reward, manager = parts_of(args.name, args.words)
        samples = samples_of(args.file, answer_key=args.answer_key, completion_key=args.completion_key)
        with Trial(reward, manager, workers=args.workers) as trial:
            check(trial, samples)
            if args.audit:
                made = [fake for row, sample in enumerate(samples) for fake in fakes(row, sample)]
                tried = trial.grade([fake.sample for fake in made])
                lines = (audit_lines if args.json else audit_table)(args, made, tried)
            else:
                lines = (json_lines if args.json else table)(args, samples, trial.grade(samples))
            for one in lines:
                print(one, file=out, flush=True)
    return 0


def check(trial: Trial, samples: Sequence[Sample]) -> None:
    """Raise RewardError for a column that no row has; where no answer was found, with how to name it."""
    try:
        trial.check(samples)
    except RewardError as error:
        if any("target" in sample.data or "ground_truth" in sample.data for sample in samples):
            raise
        raise RewardError(f"{error} If one of these is the answer, name it with --answer-key") from None


@contextlib.contextmanager
def results_alone() -> Iterator[TextIO]:
    """The standard output, for results alone: what a reward or its module writes there goes to standard error."""
    with contextlib.ExitStack() as opened:
        nowhere = opened.enter_context(Path(os.devnull).open("w"))
        out, noise = sys.stdout or nowhere, sys.stderr or nowhere  # a stream that was closed before the start is None
        opened.enter_context(contextlib.redirect_stdout(noise))
        try:
            descriptor, errors = out.fileno(), noise.fileno()
        except (OSError, ValueError):  # no files: nothing below Python can write to them
            yield out
            return
        out.flush()
        kept = os.dup(descriptor)
        try:
            os.dup2(errors, descriptor)  # libraries, and processes that a reward starts, write there past Python
            with open(kept, "w", encoding=out.encoding, closefd=False) as results:
                yield results
        finally:
            with contextlib.suppress(OSError, ValueError):  # what was written to sys.__stdout__ meanwhile
                out.flush()
            os.dup2(kept, descriptor)
            os.close(kept)


def parts_of(name: str, words: Sequence[str]) -> tuple[Component, Component]:
    """The reward of a name and the manager, with their options. Raises ConfigError for a setting of neither.

    Failures stop a run; here each row says its own, unless somebody sets a share.
    """
    from rlcore.config.overrides import parse_override, parse_value
    from rlcore.config.specs import configured, find_component, named_spec, options_of

    if name.endswith(".py"):
        raise ConfigError(f"{name}: which function of the file? {name}:FUNCTION{functions_of(Path(name))}")
    value = parse_value(name).value if name.lstrip().startswith("{") else name
    spec = named_spec("reward", value, "reward")
    known = options_of(find_component("reward", spec["name"], "reward"), "reward")
    overrides = [of_group(parse_override(word), known) for word in words]
    never = parse_override("reward_manager.max_failed_share=null")
    return configured("reward", value, overrides), configured("reward_manager", "default", [never, *overrides])


def of_group(override: Override, known: Iterable[str]) -> Override:
    """An override with its group: a bare option is the reward's. Raises ConfigError if it is no option."""
    first = override.path[0]
    if first in GROUPS:
        return override
    if first in known:
        return replace(override, key=f"reward.{override.key}")
    near = nearest(first, GROUPS) or nearest(f"reward.{first}", [f"reward.{option}" for option in known])
    raise ConfigError(
        f"{override.key}: there is nothing to set but options of the reward ({', '.join(known) or 'it has none'}) and "
        f"of the reward manager: OPTION=VALUE or reward.OPTION=VALUE, reward_manager.OPTION=VALUE.{near}"
    )


def functions_of(path: Path) -> str:
    """What a file of rewards has, for a message. The file is read, not run."""
    if not path.is_file():
        return "; and there is no such file"
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        return f"; and it is no Python: {error}"
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [one.name for one in body if isinstance(one, kinds) and not one.name.startswith("_")]
    return f"; it has: {', '.join(named) or 'none'}"


def json_lines(args: argparse.Namespace, samples: Sequence[Sample], tried: Iterable[Tried]) -> Iterator[str]:
    """One object a row as it is graded, then the summary."""
    every = []
    for row, one in enumerate(tried):
        yield as_json({"row": row, **as_row(one)}, ascii_only=True)
        every.append(one)
    yield as_json({"reward": args.name, "file": args.file, **summary(every)}, ascii_only=True)


def as_row(one: Tried) -> dict[str, Any]:
    """What one sample got; `error` only where there is one."""
    graded = one.graded
    found = {
        "score": float(graded.score),
        "parts": {name: float(value) for name, value in graded.parts.items()},
        "extracted": graded.extracted,
        "seconds": round(one.seconds, 6),
    }
    return {**found, "error": graded.error} if graded.error is not None else found


def summary(tried: Sequence[Tried]) -> dict[str, Any]:
    """The figures of all rows: means over the scored ones."""
    scores = [one.graded.score for one in tried if not math.isnan(one.graded.score)]
    parts: dict[str, list[float]] = {}
    for one in tried:
        for name, value in one.graded.parts.items():
            parts.setdefault(name, []).append(value)
    seconds = [one.seconds for one in tried]
    return {
        "rows": len(tried),
        "scored": len(scores),
        "unscored": len(tried) - len(scores),
        "failed": sum(one.graded.error is not None for one in tried),
        "score": math.fsum(scores) / len(scores) if scores else None,
        "parts": {name: math.fsum(values) / len(values) for name, values in parts.items()},
        "seconds": round(math.fsum(seconds), 6),
        "slowest": max(range(len(seconds)), key=seconds.__getitem__),
    }


def table(args: argparse.Namespace, samples: Sequence[Sample], graded: Iterable[Tried]) -> Iterator[str]:
    """The rows, the slowest, the failing ones, and the figures."""
    tried = list(graded)
    yield f"{'row':>5} {'score':>7} {'seconds':>8}  {'extracted':<20} {'parts':<30} completion"
    for row in range(min(len(tried), max(args.count, 0))):
        yield line(row, tried[row], samples[row])
    if len(tried) > args.count:
        yield f"  ... and {len(tried) - args.count} more"
    order = sorted(range(len(tried)), key=lambda row: -tried[row].seconds)[:3]
    yield "slowest: " + ", ".join(f"row {row} ({tried[row].seconds:.3g} s)" for row in order)
    failed = [row for row, one in enumerate(tried) if one.graded.error is not None]
    for row in failed[: max(args.count, 0)]:
        yield f"failed: row {row}: {printable(tried[row].graded.error or '')}"
    found = summary(tried)
    parts = "".join(f", {name} {number(value)}" for name, value in found["parts"].items())
    yield (
        f"score {number(found['score'])}{parts}: {found['scored']} of {found['rows']} rows scored, "
        f"{found['unscored']} unscored, {found['failed']} of them failed, in {found['seconds']:.3g} s"
    )


def line(row: int, one: Tried, sample: Sample) -> str:
    """One row of the table."""
    parts = " ".join(f"{name}={value:.3g}" for name, value in one.graded.parts.items())
    read = one.graded.extracted
    score = "-" if math.isnan(one.graded.score) else f"{one.graded.score:.3f}"
    return (
        f"{row:>5} {score:>7} {one.seconds:>8.3g}  {short('-' if read is None else read, 20):<20} "
        f"{short(parts, 30):<30} {short(sample.completion, 40)}"
    ).rstrip()


def short(text: str, width: int) -> str:
    """The end of a text, on one line."""
    seen = printable(text[-width * 4 :].strip())
    return seen if len(seen) <= width and len(text) <= width * 4 else f"...{seen[-(width - 3) :]}"


def audit_lines(args: argparse.Namespace, made: Sequence[Fake], tried: Iterable[Tried]) -> Iterator[str]:
    """One object a fake, then the summary."""
    every = []
    for fake, one in zip(made, tried, strict=True):
        accepted = one.graded.score >= args.accepted
        about = {"row": fake.row, "fake": fake.kind, "completion": fake.sample.completion[:200], "accepted": accepted}
        yield as_json({**about, **as_row(one)}, ascii_only=True)
        every.append(one)
    yield as_json({"reward": args.name, "file": args.file, **audit_summary(args, made, every)}, ascii_only=True)


def audit_summary(args: argparse.Namespace, made: Sequence[Fake], tried: Sequence[Tried]) -> dict[str, Any]:
    """How many fakes of each kind there are and are accepted, and whether the target itself is."""
    from rlcore.run.audit import CONTROL, FAKES

    kinds = {}
    for kind in (*FAKES, CONTROL):
        scores = [one.graded.score for fake, one in zip(made, tried, strict=True) if fake.kind == kind]
        kinds[kind] = {"given": len(scores), "accepted": sum(score >= args.accepted for score in scores)}
    control = kinds.pop(CONTROL)
    return {
        "fakes": sum(found["given"] for found in kinds.values()),
        "wrongly_accepted": sum(found["accepted"] for found in kinds.values()),
        "kinds": kinds,
        "target_itself": control,
        "failed": sum(one.graded.error is not None for one in tried),
        "seconds": round(math.fsum(one.seconds for one in tried), 6),
    }


def audit_table(args: argparse.Namespace, made: Sequence[Fake], graded: Iterable[Tried]) -> Iterator[str]:
    """The kinds, every fake that is accepted, and what that says."""
    from rlcore.run.audit import FAKES

    tried = list(graded)
    found = audit_summary(args, made, tried)
    yield f"{'fake':<20} {'accepted':>8} {'of':>5}  what it is"
    for kind, what in FAKES.items():
        if found["kinds"][kind]["given"]:
            yield f"{kind:<20} {found['kinds'][kind]['accepted']:>8} {found['kinds'][kind]['given']:>5}  {what}"
    pairs = [(fake, one) for fake, one in zip(made, tried, strict=True) if fake.kind in FAKES]
    accepted = [(fake, one) for fake, one in pairs if one.graded.score >= args.accepted]
    for fake, one in accepted[: max(args.count, 0)]:
        yield (
            f"wrongly accepted: row {fake.row}, {fake.kind}, score {one.graded.score:.3f}: "
            f"{short(fake.sample.completion, 60)}"
        )
    if len(accepted) > args.count:
        yield f"  ... and {len(accepted) - args.count} more"
    for fake, one in [pair for pair in pairs if pair[1].graded.error is not None][: max(args.count, 0)]:
        yield f"failed: row {fake.row}, {fake.kind}: {printable(one.graded.error or '')}"
    control = found["target_itself"]
    yield (
        f"{found['wrongly_accepted']} of {found['fakes']} fakes accepted (a score of {args.accepted} or more), "
        f"{found['failed']} failed, in {found['seconds']:.3g} s"
    )
    if control["given"]:
        yield f"the target itself is accepted in {control['accepted']} of {control['given']} forms{said_of(control)}"


def said_of(control: dict[str, int]) -> str:
    """What it means if no form of the target is accepted."""
    if control["accepted"]:
        return ""
    return ": a reward that accepts nothing accepts no fake; does it read another form, or pay less?"
