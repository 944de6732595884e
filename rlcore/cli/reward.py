"""`rlcore reward NAME FILE`: a reward tried on completions, and on adversarial completions made from them."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rlcore.cli.shared import as_json, number
from rlcore.errors import ConfigError, counted, printable

if TYPE_CHECKING:
    from rlcore.inspect.adversarial import AdversarialCompletion
    from rlcore.inspect.reward_trial import TrialResult
    from rlcore.protocols import Sample

ACCEPTED = 0.5


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
        "--audit",
        action="store_true",
        help="grade adversarial completions made from each row, and say which are paid",
    )
    parser.add_argument(
        "--accepted", type=float, default=ACCEPTED, help=f"with --audit: what counts as accepted (default {ACCEPTED})"
    )
    parser.add_argument("--workers", type=int, default=1, help="how many samples to grade at once (default 1)")
    parser.add_argument("--count", type=int, default=20, help="how many rows to show (default 20)")


def run(args: argparse.Namespace) -> int:
    """Grade and print; the status is 0 whatever the scores."""
    from rlcore.inspect.adversarial import adversarial_completions
    from rlcore.inspect.reward_options import bind_reward
    from rlcore.inspect.reward_trial import RewardTrial
    from rlcore.inspect.samples import read_samples

    if math.isnan(args.accepted):
        raise ConfigError("--accepted nan: expected a number, which scores are compared with")
    with results_alone() as out:
        reward, manager = bind_reward(args.name, args.words)
        samples = read_samples(args.file, answer_key=args.answer_key, completion_key=args.completion_key)
        with RewardTrial(reward, manager, workers=args.workers) as trial:
            trial.check(samples)
            if args.audit:
                completions = [
                    each for row, sample in enumerate(samples) for each in adversarial_completions(row, sample)
                ]
                results = trial.grade([each.sample for each in completions])
                lines = (audit_json if args.json else audit_table)(args, completions, results)
            else:
                lines = (json_lines if args.json else table)(args, samples, trial.grade(samples))
            for line in lines:
                print(line, file=out, flush=True)
    return 0


@contextlib.contextmanager
def results_alone() -> Iterator[TextIO]:
    """Yield the standard output for results alone; all that a reward or its module prints goes to standard error."""
    with contextlib.ExitStack() as opened:
        nowhere = opened.enter_context(Path(os.devnull).open("w"))
        out, noise = sys.stdout or nowhere, sys.stderr or nowhere  # a stream that was closed before the start is None
        opened.enter_context(contextlib.redirect_stdout(noise))
        try:
            descriptor, errors = out.fileno(), noise.fileno()
        except (OSError, ValueError):  # they are no files, so only Python writes to them
            yield out
            return
        out.flush()
        kept = os.dup(descriptor)
        try:
            os.dup2(errors, descriptor)  # for libraries and processes, which write to the descriptor itself
            with open(kept, "w", encoding=out.encoding, closefd=False) as results:
                yield results
        finally:
            with contextlib.suppress(OSError, ValueError):  # what was written to sys.__stdout__ meanwhile
                out.flush()
            os.dup2(kept, descriptor)
            os.close(kept)


def json_lines(args: argparse.Namespace, samples: Sequence[Sample], graded: Iterable[TrialResult]) -> Iterator[str]:
    """Yield one object a row as it is graded, then the summary."""
    from rlcore.inspect.reward_trial import trial_summary

    results = []
    for row, result in enumerate(graded):
        yield as_json({"row": row, **result.as_dict()}, ascii_only=True)
        results.append(result)
    yield as_json({"reward": args.name, "file": args.file, **trial_summary(results)}, ascii_only=True)


def table(args: argparse.Namespace, samples: Sequence[Sample], graded: Iterable[TrialResult]) -> Iterator[str]:
    """Yield the rows, the slowest, the failing ones, and the figures."""
    from rlcore.inspect.reward_trial import trial_summary

    results = list(graded)
    yield f"{'row':>5} {'score':>7} {'seconds':>8}  {'extracted':<20} {'parts':<30} completion"
    for row in range(min(len(results), max(args.count, 0))):
        yield table_line(row, results[row], samples[row])
    if len(results) > args.count:
        yield f"  ... and {len(results) - args.count} more"
    order = sorted(range(len(results)), key=lambda row: -results[row].seconds)[:3]
    yield "slowest: " + ", ".join(f"row {row} ({results[row].seconds:.3g} s)" for row in order)
    failed = [row for row, result in enumerate(results) if result.graded.error is not None]
    for row in failed[: max(args.count, 0)]:
        yield f"failed: row {row}: {printable(results[row].graded.error or '')}"
    figures = trial_summary(results)
    parts = "".join(f", {name} {number(value)}" for name, value in figures["components"].items())
    yield (
        f"score {number(figures['score'])}{parts}: {figures['scored']} of {counted(figures['rows'], 'row')} scored, "
        f"{figures['unscored']} unscored, {figures['failed']} of them failed, in {figures['seconds']:.3g} s"
    )


def table_line(row: int, result: TrialResult, sample: Sample) -> str:
    """Return one row of the table."""
    parts = " ".join(f"{name}={value:.3g}" for name, value in result.graded.components.items())
    extracted = "-" if result.graded.extracted is None else result.graded.extracted
    score = f"{result.graded.score:.3f}" if result.scored else "-"
    return (
        f"{row:>5} {score:>7} {result.seconds:>8.3g}  {shorten(extracted, 20):<20} "
        f"{shorten(parts, 30):<30} {shorten(sample.completion, 40)}"
    ).rstrip()


def shorten(text: str, width: int) -> str:
    """Return the last `width` characters of a text, on one line."""
    seen = printable(text[-width * 4 :].strip())
    return seen if len(seen) <= width and len(text) <= width * 4 else f"...{seen[-(width - 3) :]}"


def audit_json(
    args: argparse.Namespace, completions: Sequence[AdversarialCompletion], graded: Iterable[TrialResult]
) -> Iterator[str]:
    """Yield one object an adversarial completion, then the summary."""
    from rlcore.inspect.reward_trial import audit_summary

    results = []
    for (row, kind, sample), result in zip(completions, graded, strict=True):
        accepted = result.graded.score >= args.accepted
        about = {"row": row, "kind": kind, "completion": sample.completion[:200], "accepted": accepted}
        yield as_json({**about, **result.as_dict()}, ascii_only=True)
        results.append(result)
    summary = audit_summary(completions, results, args.accepted)
    yield as_json({"reward": args.name, "file": args.file, **summary}, ascii_only=True)


def audit_table(
    args: argparse.Namespace, completions: Sequence[AdversarialCompletion], graded: Iterable[TrialResult]
) -> Iterator[str]:
    """Yield a line on each kind, on each adversarial completion that was accepted, and the totals."""
    from rlcore.inspect.adversarial import ADVERSARIAL_KINDS
    from rlcore.inspect.reward_trial import audit_summary

    results = list(graded)
    figures = audit_summary(completions, results, args.accepted)
    yield f"{'kind':<27} {'accepted':>8} {'of':>5}  what it is"
    for kind, meaning in ADVERSARIAL_KINDS.items():
        counts = figures["kinds"][kind]
        if counts["given"]:
            yield f"{kind:<27} {counts['accepted']:>8} {counts['given']:>5}  {meaning}"
    pairs = [pair for pair in zip(completions, results, strict=True) if pair[0].kind in ADVERSARIAL_KINDS]
    accepted = [pair for pair in pairs if pair[1].graded.score >= args.accepted]
    for (row, kind, sample), result in accepted[: max(args.count, 0)]:
        score = f"{result.graded.score:.3f}"
        yield f"wrongly accepted: row {row}, {kind}, score {score}: {shorten(sample.completion, 60)}"
    if len(accepted) > args.count:
        yield f"  ... and {len(accepted) - args.count} more"
    for (row, kind, _), result in [pair for pair in pairs if pair[1].graded.error is not None][: max(args.count, 0)]:
        yield f"failed: row {row}, {kind}: {printable(result.graded.error or '')}"
    yield (
        f"{figures['wrongly_accepted']} of {figures['adversarial']} adversarial completions accepted (a score of "
        f"{args.accepted} or more), {figures['failed']} failed, in {figures['seconds']:.3g} s"
    )
    control = figures["target_itself"]
    if control["given"]:
        hint = ": a reward that accepts nothing accepts no wrong answer; does it read another form, or pay less?"
        yield (
            f"the target itself is accepted in {control['accepted']} of {control['given']} forms"
            f"{'' if control['accepted'] else hint}"
        )
