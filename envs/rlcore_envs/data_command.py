"""`rlcore data inspect|convert|split`: look at a data set, convert its file, split it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore.cli.shared import as_json
from rlcore.errors import DataError, counted, printable, unknown

WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three commands and their arguments."""
    commands = parser.add_subparsers(dest="action", metavar="inspect|convert|split", required=True)
    inspect = commands.add_parser("inspect", help="show what is in a file or a registered data set")
    inspect.add_argument("data", help="a file, or the name of a data set")
    inspect.add_argument("options", nargs="*", metavar="key=value", help="options of a named data set")
    inspect.add_argument("--tokenizer", help="a model (as model= names it) whose tokens are counted")
    inspect.add_argument("--limit", type=int, default=0, help="count prompts over so many tokens (or characters)")
    inspect.add_argument("--rows", type=int, default=3, help="show so many rows (default 3)")
    inspect.add_argument("--json", action="store_true", help="print one JSON object instead")
    convert = commands.add_parser("convert", help="write a file in rlcore's layout, as .jsonl, .jsonl.gz or .parquet")
    split = commands.add_parser("split", help="write the parts of a file; no question stands in two of them")
    for command in (inspect, convert, split):
        command.add_argument(
            "--prompt-key", default="", help="the column with the prompt, for files of no known layout"
        )
        command.add_argument("--answer-key", default="", help="the column with the answer")
    convert.add_argument("source", help="a jsonl, json or parquet file")
    convert.add_argument("target", help="the file to write; never one that is there")
    convert.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="leave a column out")
    split.add_argument("source", help="a jsonl, json or parquet file; its rows are written as they are")
    split.add_argument("folder", help="where PART.jsonl (or .parquet, as the source) go; never over files")
    split.add_argument("shares", nargs="*", metavar="PART=SHARE", help="e.g. train=0.9 heldout=0.1")
    split.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    split.add_argument("--group", default="", metavar="COLUMN", help="rows of one value stay together")
    split.add_argument("--by", default="", metavar="COLUMN", help="a part for each value, in place of shares")
    split.add_argument("--by-digit", action="store_true", help="warm, train and heldout as rlcore's own data sets")


def run(args: argparse.Namespace) -> int:
    """Run `rlcore data inspect`, `convert` or `split`."""
    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "inspect": inspect_data,
        "convert": convert_file,
        "split": split_file,
    }
    actions[args.action](args)
    return 0


def inspect_data(args: argparse.Namespace) -> None:
    """Print what is in a file or data set."""
    from rlcore.data.layouts import RowMaker
    from rlcore_envs.data_report import DataReport

    if args.limit < 0:
        raise DataError(f"--limit {args.limit}: expected a number of tokens (or characters), or 0 for none")
    raw, is_file = open_rows(args.data, args.options)
    maker = RowMaker(prompt_key=args.prompt_key, answer_key=args.answer_key, where=repr(args.data))
    count = token_counter(args.tokenizer) if args.tokenizer else None
    report = DataReport(maker, count_tokens=count, limit=args.limit, first_rows=max(args.rows, 0))
    report.read(raw, ready=not is_file)
    if not report.rows:  # a figure of nothing would look like an answer
        raise DataError(next(iter(report.errors), f"{args.data!r} is empty (0 rows)"))
    if args.json:
        print(as_json({"data": args.data, **report.summary(), "first": report.first}, ascii_only=True), flush=True)
        return
    print_report(args.data, report.summary(), unit="tokens" if count else "characters")
    for number, row in enumerate(report.first):
        print(f"\nrow {number}")
        for name, value in row.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
            print(f"  {one_line(name)}: {one_line(text)}")


def open_rows(name: str, options: list[str]) -> tuple[Any, bool]:
    """Return the raw rows of a file, read one by one, or the rows of a data set, and whether it is a file."""
    from rlcore.component import bind
    from rlcore.data.readers import READERS, ending, iterate_rows
    from rlcore.registry import get, names

    if Path(name).exists() or ending(Path(name)) in READERS:
        if options:
            raise DataError(f"{name!r} is a file, which has no options; found {options[0]!r}")
        return iterate_rows(name), True
    if name not in names("dataset") and ":" not in name:
        raise unknown("data set or file", name, names("dataset"))
    return bind(get("dataset", name), **dict(map(parse_option, options)))(), False


def parse_option(word: str) -> tuple[str, Any]:
    """Return an option's name and its value, read as YAML. Raises DataError unless the word is key=value."""
    import yaml

    name, equals, value = word.partition("=")
    if not equals:
        raise DataError(f"{word!r} is no option; write key=value")
    return name, yaml.safe_load(value)


def token_counter(name: str) -> Callable[[dict[str, Any]], int]:
    """Return what counts a prompt's tokens as a run would."""
    from transformers import AutoTokenizer

    from rlcore.data import encode_prompt, template_options
    from rlcore.weights import resolve_model

    tokenizer = AutoTokenizer.from_pretrained(str(resolve_model(name)))
    return lambda row: len(encode_prompt(tokenizer, row["prompt"], **template_options(row)))


def print_report(name: str, found: Mapping[str, Any], *, unit: str) -> None:
    """Print a report's figures."""
    layouts = ", ".join(f"{layout} ({count})" for layout, count in found["layouts"].items()) or "a registered data set"
    print(f"{one_line(name)}   {counted(found['rows'], 'row')}\nlayout: {layouts}\ncolumns:")
    for column, types in found["columns"].items():
        several = len(types) > 1 or sum(types.values()) < found["rows"] - found["unusable"]
        said = "; ".join(f"{kind} x{count}" if several else kind for kind, count in types.items())
        print(f"  {one_line(column)}: {one_line(said)}")
    if found["sources"]:
        listed = ", ".join(f"{one_line(source)} ({count})" for source, count in found["sources"].items())
        more = found["sources_found"] - len(found["sources"])
        print(f"sources: {listed}{f', and {more} more' if more else ''}")
    print(f"without an answer: {found['without_answer']}")
    other = found["repeated_with_another_answer"]
    print(f"repeating an earlier question: {found['repeated_questions']}, with another answer: {other}")
    for what in ("characters", "tokens"):
        if found[f"prompt_{what}"]:
            print(f"{what} of a prompt: " + "  ".join(f"{k} {v}" for k, v in found[f"prompt_{what}"].items()))
    if found["limit"]:
        print(f"over {found['limit']} {unit}: {found['over_limit']}")
    if found["unusable"] or found["errors"]:
        print(f"rows that cannot be used: {found['unusable']}")
        for error in found["errors"]:
            print(f"  {one_line(error, 400)}")


def one_line(text: Any, width: int = WIDTH) -> str:
    """Return a text on one line of at most `width` characters, without control or direction characters."""
    shown = printable(str(text)[: width + 1])
    return shown if len(shown) <= width else shown[: width - 3] + "..."


def convert_file(args: argparse.Namespace) -> None:
    """Write a file in our layout, and read it back."""
    from rlcore.data.layouts import RowMaker
    from rlcore.data.readers import iterate_rows
    from rlcore.data.writers import difference, write_rows

    columns: set[str] = set()

    def rows(path: str, **keys: str) -> Iterator[dict[str, Any]]:
        maker = RowMaker(where=f"data file {path!r}", **keys)
        for index, raw in enumerate(iterate_rows(path)):
            row = maker.row(index, raw)
            columns.update(row)
            yield {name: value for name, value in row.items() if name not in args.drop}
        maker.check()

    keys = {"prompt_key": args.prompt_key, "answer_key": args.answer_key}
    count = write_rows(args.target, rows(args.source, **keys))
    try:
        if left := set(args.drop) - columns:
            raise unknown("column to drop", left.pop(), columns)
        pairs = zip(rows(args.source, **keys), rows(args.target), strict=True)
        for index, (one, other) in enumerate(pairs):
            if wrong := difference(one, other):
                raise DataError(
                    f"row {index} would not read back as it is ({wrong}): its other columns belong to another layout."
                    f" Leave those out with --drop COLUMN; columns: {', '.join(one)}"
                )
    except BaseException:
        Path(args.target).unlink()
        raise
    print(f"{counted(count, 'row')} written to {args.target}, and read back equal")


def split_file(args: argparse.Namespace) -> None:
    """Write the parts of a file."""
    from rlcore.data import read_rows, to_rows, write_rows
    from rlcore.data.readers import ending
    from rlcore_envs import division

    raw = read_rows(args.source)
    rows = to_rows(raw, prompt_key=args.prompt_key, answer_key=args.answer_key, where=f"data file {args.source!r}")
    ways = [bool(args.shares), bool(args.by), args.by_digit]
    if sum(ways) != 1:
        raise DataError("split in one way: give PART=SHARE ..., --by COLUMN, or --by-digit")
    if args.by:
        found = division.split_by_column(rows, args.by)
    elif args.by_digit:
        found = division.split_by_last_digit(rows)
    else:
        found = division.split_by_share(rows, parse_shares(args.shares), seed=args.seed, group=args.group)
    folder = Path(args.folder)
    suffix = ".parquet" if ending(Path(args.source)) == ".parquet" else ".jsonl"
    targets = {name: folder / f"{check_file_name(name)}{suffix}" for name in found.parts}
    there = [str(target) for target in targets.values() if target.exists()]
    if there:
        raise DataError(f"{', '.join(there)} is there already; nothing was written. Choose another folder")
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"folder {args.folder!r} cannot be made: {error.strerror}") from error
    try:
        for name, target in targets.items():
            write_rows(target, (raw[place] for place in found.parts[name]))
    except BaseException:
        # All parts or none: one of them alone could be taken for the whole split.
        for target in targets.values():
            target.unlink(missing_ok=True)
        if made:
            folder.rmdir()
        raise
    for name, target in targets.items():
        print(f"{one_line(name)}: {counted(len(found.parts[name]), 'row')} in {target}")
    rest = len(rows) - sum(map(len, found.parts.values())) - found.left_out
    if found.left_out:
        print(f"left out: {counted(found.left_out, 'row')} whose question stands in another part")
    if rest:
        print(f"in no part: {counted(rest, 'row')}")


def parse_shares(words: list[str]) -> dict[str, float]:
    """Return the share of each part by its name. Raises DataError for a malformed word or a repeated part."""
    shares: dict[str, float] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name in shares:
            raise DataError(f"part {name!r} is named twice")
        try:
            shares[name] = float(value)
        except ValueError:
            wanted = "a number" if equals else "PART=SHARE"
            raise DataError(f"{word!r}: expected {wanted}, such as train=0.9") from None
    return shares


def check_file_name(name: str) -> str:
    """Return a part's name, if it can be a file's. Raises DataError otherwise."""
    if not name or name.startswith(".") or not name.isprintable() or any(c in name for c in "/\\"):
        raise DataError(f"part {one_line(repr(name))} cannot be the name of a file")
    return name
