"""Checks that a wheel holds exactly the files of the import packages: `python .ci/wheel_contents.py rlcore-*.whl`.

Exactly: so no data file is missing, no test has crept in, and no generic name reaches site-packages.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "rlcore",
    "algorithms/rlcore_algorithms",
    "rewards/rlcore_rewards",
    "rewards/rlcore_answers",
    "rewards/rlcore_sandbox",
    "rewards/rlcore_workers",
    "envs/rlcore_envs",
)


def expected() -> set[str]:
    """Return the installed paths of every file of the packages: those in git, or all where there is no git."""
    files: set[str] = set()
    for package in PACKAGES:
        parent = PurePosixPath(package).parent
        files |= {str(PurePosixPath(name).relative_to(parent)) for name in _files(package)}
    return files


def _files(package: str) -> list[str]:
    command = ["git", "ls-files", "-z", "--", package]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name]
    found = (path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [path.relative_to(ROOT).as_posix() for path in found]


def faults(wheel: Path) -> list[str]:
    """Return what is wrong with the wheel's contents, one line each."""
    names = set(zipfile.ZipFile(wheel).namelist())
    found = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    lines = [f"missing from the wheel: {name}" for name in sorted(expected() - found)]
    lines += [f"in the wheel, but in no package: {name}" for name in sorted(found - expected())]
    markers = [f"{PurePosixPath(package).name}/py.typed" for package in PACKAGES]
    lines += [f"missing: {marker}" for marker in markers if marker not in found]
    lines += [f"a test: {name}" for name in sorted(found) if PurePosixPath(name).name.startswith(("test_", "conftest"))]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        lines.append("no LICENSE")
    return lines


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print("\n".join(wrong) if wrong else f"{len(expected())} files, as in the repository")
    sys.exit(bool(wrong))
