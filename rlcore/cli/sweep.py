"""A sweep: several runs of one command, each a whole run folder, and one file that lists them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.cli.shared import number, strict
from rlcore.errors import CheckpointError, ConfigError, RLCoreError, counted, nearest

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rlcore.config.overrides import Override
    from rlcore.experiment import Experiment

LIST = "sweep.json"
DIRECTIONS = {"optuna": "hydra.sweeper.direction=maximize"}
"""What a sweeper is told unless somebody tells it: more of `success_after` is better, and Optuna minimises."""


def sweep(words: Sequence[str], file: Path | None, folders: Sequence[Path]) -> int:
    """Train every run of a sweep and print what came of each; return 1 if one of them failed.

    The runs of a grid are bound before the first one trains. With `resume=FOLDER` the runs of that sweep which did not
    finish are trained, or go on, and the others are left alone.
    """
    from rlcore.config import compose
    from rlcore.config.load import read_source
    from rlcore.config.overrides import parse_overrides, single_quoted

    overrides, resumed = without_resume(words)
    line = parse_overrides(overrides)
    source = read_source(line, file, folders)
    sweeper = compose.sweeper_of(source, line)
    jobs = jobs_of(source, line) if sweeper == "basic" else []
    folder = resumed or new_folder(source, line)
    folder.mkdir(parents=True, exist_ok=True)
    own = [f"hydra.sweep.dir={single_quoted(str(folder))}"]
    direction = DIRECTIONS.get(sweeper, "")
    if direction and not any(word.startswith(direction.partition("=")[0]) for word in overrides):
        own += [] if "direction" in ((source.tree.get("hydra") or {}).get("sweeper") or {}) else [direction]
    with listed(folder) as runs:
        for job in jobs:
            if find(runs, job) is None:
                runs.append({"overrides": job, "folder": None, "status": None, "error": None, "summary": {}})
    compose.sweep(source, line, train_one, own)
    runs = json.loads((folder / LIST).read_text(encoding="utf-8"))["runs"]
    rows = [("run", "overrides", "success after")]
    for run in runs:
        state = f"failed: {run['error']}" if run["status"] else number(run["summary"].get("success_after"))
        rows.append((str(run["folder"]), " ".join(run["overrides"]), state))
    width = [max(len(row[place]) for row in rows) for place in (0, 1)]
    for name, words_of_run, state in rows:
        print(f"{name:<{width[0]}}  {words_of_run:<{width[1]}}  {state}")
    print(f"sweep: {folder}/{LIST}")
    return int(any(run["status"] != 0 for run in runs))


def without_resume(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the overrides without `resume=SWEEP`, and that sweep's folder. Raises CheckpointError for none."""
    rest = [word for word in words if word.partition("=")[0] != "resume"]
    for word in words:
        key, _, value = word.partition("=")
        if key == "resume" and value not in ("", "null"):
            folder = Path(value).expanduser().resolve()
            if not (folder / LIST).is_file():
                near = [p.parent.name for p in folder.parent.glob(f"*/{LIST}")] if folder.parent.is_dir() else []
                raise CheckpointError(f"{word}: there is no {folder / LIST}.{nearest(folder.name, near)}")
            return rest, folder
    return rest, None


def new_folder(source: Any, line: Sequence[Override]) -> Path:
    """Return the folder of a new sweep: run.folder, and run.name or the project and the time."""
    from rlcore.run.run_folder import check_place
    from rlcore.settings import RunNames

    values = source.tree.get("run")
    values = dict(values) if isinstance(values, Mapping) else {}
    values |= {o.key.removeprefix("run."): o.text for o in line if o.key.startswith("run.")}
    names = RunNames(**{key: value for key, value in values.items() if value != "null"})
    name = names.name or f"{names.project}-{time.strftime('%Y%m%d-%H%M%S')}"
    base = check_place(names.folder, None)
    if (base / name / LIST).is_file() or (base / name / "config.yaml").is_file():
        raise ConfigError(
            f"{str(base / name)!r} is already there: go on with resume={base / name}, or choose another run.name"
        )
    return base / name


def check_sweep(words: Sequence[str], file: Path | None, folders: Sequence[Path]) -> int:
    """Check every run of a grid without training one, and print a line for each. Raises ConfigError as `sweep` does."""
    from rlcore.config import compose
    from rlcore.config.load import read_source
    from rlcore.config.overrides import parse_overrides
    from rlcore.run import Run

    line = parse_overrides(without_resume(words)[0])
    source = read_source(line, file, folders)
    sweeper = compose.sweeper_of(source, line)
    if sweeper != "basic":
        raise ConfigError(f"hydra/sweeper={sweeper} chooses each run after the one before it; check one run without -m")
    jobs = jobs_of(source, line, lambda experiment: Run.of(experiment, quiet=True).check())
    for i, job in enumerate(jobs):
        print(f"{i}_{slug(job)}  {' '.join(job)}  ok")
    return 0


def jobs_of(
    source: Any, line: Sequence[Override], check: Callable[[Experiment], Any] = lambda experiment: None
) -> list[list[str]]:
    """Return the overrides of every run of a grid, each bound and checked.

    Raises ConfigError that names each run that cannot be trained, with what is wrong in it.
    """
    from rlcore.config import compose
    from rlcore.config.overrides import single_quoted

    jobs: list[list[str]] = []
    wrong: list[str] = []

    def bind_one(config: DictConfig) -> None:
        """Bind one run, and train nothing."""
        jobs.append(compose.overrides_of_job(config))
        try:
            check(_experiment(config, None))
        except RLCoreError as error:
            wrong.append(f"{' '.join(jobs[-1]) or 'the run'}: {error}")

    with tempfile.TemporaryDirectory() as aside:
        own = [f"hydra.sweep.dir={single_quoted(aside)}", "hydra/launcher=basic"]
        plain = [override for override in line if not override.key.startswith(("hydra/launcher", "hydra.launcher"))]
        compose.sweep(without_launcher(source), plain, bind_one, own)
    if wrong:
        head = f"{len(wrong)} of {counted(len(jobs), 'run')} of the sweep cannot be trained; none was begun:"
        raise ConfigError("\n".join([head, *wrong]))
    return jobs


def without_launcher(source: Any) -> Any:
    """Return a source that says nothing of the launcher: binding needs none."""
    tree = dict(source.tree)
    if isinstance(tree.get("hydra"), Mapping):
        tree["hydra"] = {key: value for key, value in tree["hydra"].items() if key != "launcher"}
    if isinstance(tree.get("defaults"), list):
        tree["defaults"] = [e for e in tree["defaults"] if "hydra/launcher" not in str(e)]
    return replace(source, tree=tree)


def train_one(config: DictConfig) -> float:
    """Train one run of a sweep; return the number that a sweeper optimises, NaN for a run that failed."""
    from hydra.core.hydra_config import HydraConfig

    from rlcore.config.compose import overrides_of_job

    folder = Path(HydraConfig.get().sweep.dir)
    shown = overrides_of_job(config)
    with listed(folder) as runs:
        known = find(runs, shown) or {}
    place = known.get("folder") or f"{HydraConfig.get().job.num}_{slug(shown)}"
    entry: dict[str, Any] = {"overrides": shown, "folder": place, "status": None, "error": None, "summary": {}}
    try:
        experiment = _experiment(config, folder / place)
        metric = experiment.settings.sweep.metric
        if known.get("status") == 0:
            return measured(known["summary"], metric)
        record(folder, entry)
        from rlcore.run import Run

        entry["summary"] = dict(Run.of(experiment, quiet=True).train().summary)
        result = measured(entry["summary"], metric)
        entry["status"] = 1 if entry["summary"].get("stopped") else 0
        entry["error"] = "stopped by a signal" if entry["status"] else None
    except Exception as error:  # noqa: BLE001 - one run that fails does not stop the others
        if os.environ.get("RLCORE_TRACEBACK", "") not in ("", "0"):
            traceback.print_exc()
        entry |= {
            "status": 1,
            "error": str(error) if isinstance(error, RLCoreError) else f"{type(error).__name__}: {error}",
        }
        result = math.nan
    record(folder, entry)
    return result


def measured(summary: Mapping[str, Any], metric: str) -> float:
    """Return a number of a run's summary. Raises ConfigError naming those that there are."""
    numbers = {k: v for k, v in summary.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    if metric in numbers:
        return float(numbers[metric])
    if metric in summary:
        return math.nan  # such as the success of a run without held-out problems
    raise ConfigError(
        f"sweep.metric={metric} is no number of a run's summary: {', '.join(numbers)}.{nearest(metric, numbers)}"
    )


def _experiment(config: DictConfig, place: Path | None) -> Experiment:
    """Return the experiment of a job, kept in a folder; a run that began there goes on."""
    from rlcore.config.bind import bind_request
    from rlcore.config.compose import request_of_job

    request = request_of_job(config)
    if place is not None:
        request.tree["run"] = {**request.tree.get("run", {}), "folder": str(place.parent), "name": place.name}
        if (place / "config.yaml").is_file():
            request.tree["resume"] = str(place)
    return bind_request(request)


def slug(overrides: Sequence[str]) -> str:
    """Return a folder's name for some overrides: the last word of each key, and its value."""
    words = [f"{key.rpartition('.')[2]}={value}" for key, _, value in (word.partition("=") for word in overrides)]
    return "_".join(re.sub(r"[^\w.=-]+", "-", word).strip("-.") for word in words)[:80] or "run"


@contextlib.contextmanager
def listed(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Give the list of a sweep's runs, and write it again, while no other process does."""
    path = folder / LIST
    with (folder / f".{LIST}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []
        yield runs
        aside = path.with_suffix(".tmp")
        aside.write_text(json.dumps({"runs": strict(runs)}, indent=1), encoding="utf-8")
        aside.replace(path)


def find(runs: Sequence[dict[str, Any]], overrides: Sequence[str]) -> dict[str, Any] | None:
    """Return the run of a list that has these overrides."""
    return next((run for run in runs if run["overrides"] == list(overrides)), None)


def record(folder: Path, entry: Mapping[str, Any]) -> None:
    """Put what is known of a run into the list."""
    with listed(folder) as runs:
        before = find(runs, entry["overrides"])
        if before is None:
            runs.append(dict(entry))
        else:
            before.update(entry)
