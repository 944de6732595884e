"""Checkpoints that are complete or absent: written to a temporary folder, flushed, marked as complete, then renamed.

A checkpoint is a folder `step_N` with one file per entry of the state, a folder for each role that writes its own state
(`step_N/trainer`), and the marker `complete.json`, which lists every file with its size and SHA-256. So weights and
moments are written where they live and need not pass through the process of the run. A process killed at any moment
leaves whole checkpoints and at most a folder `step_N.tmp-*`, which the next save removes. Nothing is unpickled freely:
entries of plain values are JSON, those with tensors are read with `weights_only`, and what could not be read back so is
refused before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlcore.errors import CheckpointError, RLCoreError
from rlcore.protocols import SavesItself, Trainer

MARKER = "complete.json"
FORMAT = 2
_NAME = re.compile(r"step_(\d+)(\.old-\w+)?")
_LEFT_OVER = re.compile(r"step_\d+\.(tmp|old)-\w+")
_ENTRY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_log = logging.getLogger(__name__)


def save(
    folder: str | Path,
    step: int,
    state: Mapping[str, Any],
    *,
    writers: Mapping[str, Callable[[Path], None]] | None = None,
    keep: int | None = None,
) -> Path:
    """Write a checkpoint and return its path `folder/step_N`; it comes back bit for bit.

    Args:
        folder: where checkpoints stand; made if it is missing.
        step: how many steps are done; a checkpoint of the same step is replaced.
        state: named entries, each a tree of dicts, lists, tuples, sets, tensors, strings, bytes, numbers and None.
        writers: by role what fills the role's own folder, wherever the role lives; the folder is made before.
        keep: how many whole checkpoints to keep, this one among them; older ones go once this one is whole. None keeps
            all. What is not a whole checkpoint of ours is never touched.

    Raises:
        CheckpointError: for a value that could not be read back safely, a bad name or `keep`, or a disk that refuses;
            nothing of an earlier checkpoint is lost then, nor where a writer raises.
    """
    if step < 0 or (keep is not None and keep < 1):
        raise CheckpointError(f"a checkpoint needs step >= 0 and keep >= 1 (or None), not step={step}, keep={keep}")
    writers = dict(writers or {})
    for name in (*state, *writers):
        if not _ENTRY.fullmatch(name) or f"{name}.json" == MARKER:
            raise CheckpointError(
                f"{name!r} cannot name an entry: letters, digits, '_', '-' and '.' can, but not 'complete'"
            )
    entries = {name: _native(value, name) for name, value in state.items()}
    folder = Path(folder)
    target, tag = folder / f"step_{step}", secrets.token_hex(4)
    aside, replaced = folder / f"step_{step}.tmp-{tag}", folder / f"step_{step}.old-{tag}"
    try:
        aside.mkdir(parents=True)
        _write_entries(aside, entries)
        for role, write in writers.items():
            (aside / role).mkdir()
            try:
                write(aside / role)
            except (RLCoreError, OSError):
                raise
            except Exception as error:
                raise CheckpointError(
                    f"role {role!r} could not write its part: {type(error).__name__}: {error}"
                ) from error
        _complete(aside, step)
        if target.exists():
            target.rename(replaced)
        aside.rename(target)
        _sync_folder(folder)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        refused = isinstance(error, CheckpointError) or not isinstance(error, RLCoreError)
        if not (refused and isinstance(error, OSError | RuntimeError)):  # torch reports a full disk as RuntimeError
            raise
        raise CheckpointError(f"the checkpoint of step {step} could not be written to {folder}: {error}") from error
    _tidy(folder, step, keep)
    return target


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write named entries into a role's folder, a file each. Raises CheckpointError for what could not be read back."""
    _write_entries(folder, {name: _native(value, name) for name, value in state.items()})


def save_trainer(trainer: Trainer, folder: Path) -> None:
    """Write a trainer's state into a folder: by itself where it can, else an entry of its `state_dict` to a file."""
    if isinstance(trainer, SavesItself):
        trainer.save_state(folder)
    else:
        write_state(folder, trainer.state_dict())


def load_trainer(trainer: Trainer, folder: Path) -> None:
    """Restore what `save_trainer` wrote into a folder that is known to be whole."""
    if isinstance(trainer, SavesItself):
        trainer.load_state(folder)
    else:
        trainer.load_state_dict(load_state(folder))


def load(path: str | Path) -> dict[str, Any]:
    """Return the entries of a checkpoint but for those of roles, tensors on the CPU.

    Raises:
        CheckpointError: if it is not whole, with what is wrong with it.
    """
    path = Path(path)
    reason = fault(path)
    if reason is not None:
        raise CheckpointError(f"{path} is not a whole checkpoint: {reason}")
    return load_state(path)


def load_state(folder: Path) -> dict[str, Any]:
    """Return the entries of a folder that is known to be whole: of a checkpoint, or of a role in it."""
    return {file.stem: _entry(file) for file in _entry_files(folder)}


def load_entry(folder: str | Path, name: str) -> Any:
    """Return one entry of a folder that is known to be whole, without reading the others; None if it has none."""
    return next((_entry(file) for file in _entry_files(Path(folder)) if file.stem == name), None)


def roles(path: str | Path) -> tuple[str, ...]:
    """Return the roles that wrote a folder of their own into a checkpoint."""
    return tuple(sorted({name.partition("/")[0] for name in _marker(Path(path))["files"] if "/" in name}))


def newest(folder: str | Path) -> Path | None:
    """Return the whole checkpoint of the highest step, or None; warn of a newer one that is not whole."""
    for path in reversed(candidates(Path(folder))):
        reason = fault(path)
        if reason is None:
            return path
        _log.warning("checkpoint %s is skipped: %s", path, reason)
    return None


def checkpoint_step(path: str | Path) -> int:
    """Return how many steps a checkpoint had done.

    Raises:
        CheckpointError: if the path is not named like a checkpoint.
    """
    match = _NAME.fullmatch(Path(path).name)
    if match is None:
        raise CheckpointError(f"{path} is no checkpoint: its name is not step_N")
    return int(match.group(1))


def fault(path: str | Path, *, read: bool = True) -> str | None:
    """Return what keeps a folder from being a whole checkpoint, or None if it is one.

    `read=False` compares sizes only, which costs nothing; otherwise every file's SHA-256 is compared too.
    """
    path = Path(path)
    if not path.is_dir():
        return "there is no such folder"
    try:
        marker = _marker(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its marker {MARKER} is missing or unreadable ({type(error).__name__})"
    if marker["format"] != FORMAT:
        return f"its format is {marker['format']}, and this version of rlcore reads {FORMAT} alone"
    if not marker["files"]:
        return f"its marker {MARKER} lists no file"
    if _NAME.fullmatch(path.name) and marker["step"] != checkpoint_step(path):
        return f"its marker is that of step {marker['step']}"
    for name, (size, digest) in marker["files"].items():
        file = path / name
        if not file.is_file():
            return f"its file {name} is missing"
        if file.stat().st_size != size:
            return f"its file {name} has {file.stat().st_size} bytes instead of {size}"
        if read and _digest(file) != digest:
            return f"its file {name} was altered (SHA-256 differs)"
    return None


def _entry_files(folder: Path) -> list[Path]:
    """Return the files of a folder's entries: those that the marker lists, not what somebody laid beside them."""
    whole = folder if (folder / MARKER).is_file() else folder.parent
    if (whole / MARKER).is_file():
        files = [whole / name for name in sorted(_marker(whole)["files"])]
    else:
        files = sorted(folder.iterdir())
    return [file for file in files if file.parent == folder and file.suffix in (".json", ".pt")]


def _entry(file: Path) -> Any:
    if file.suffix == ".json":
        return json.loads(file.read_text(encoding="utf-8"))
    return torch.load(file, map_location="cpu", weights_only=True)


def _marker(path: Path) -> dict[str, Any]:
    marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
    files = {str(name): (int(size), str(digest)) for name, (size, digest) in marker["files"].items()}
    return {"format": marker["format"], "step": int(marker["step"]), "files": files}


def candidates(folder: Path) -> list[Path]:
    """Return the folders that are named like checkpoints, by step; one that was being replaced precedes its new one."""
    if not folder.is_dir():
        return []
    folders = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(folders, key=lambda path: (checkpoint_step(path), path.suffix == ""))


def _write_entries(folder: Path, entries: Mapping[str, Any]) -> None:
    """Write every entry to a file of its own."""
    for name, value in entries.items():
        text = _as_json(value)
        file = folder / f"{name}.{'pt' if text is None else 'json'}"
        if text is None:
            torch.save(value, file)
        else:
            file.write_text(text, encoding="utf-8")


def _complete(folder: Path, step: int) -> None:
    """Write the marker when all other files, at any depth, are flushed to the disk."""
    files = {}
    for file in sorted(folder.rglob("*")):
        if file.is_dir():
            _sync_folder(file)
        else:
            _sync(file)
            files[file.relative_to(folder).as_posix()] = (file.stat().st_size, _digest(file))
    _sync_folder(folder)
    marker = folder / MARKER
    marker.write_text(json.dumps({"format": FORMAT, "step": step, "files": files}, indent=1), encoding="utf-8")
    _sync(marker)
    _sync_folder(folder)


def _tidy(folder: Path, step: int, keep: int | None) -> None:
    """Remove leftovers of killed saves, then the oldest whole checkpoints until `keep` are left."""
    for path in folder.iterdir():
        if path.is_dir() and _LEFT_OVER.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
    if keep is None:
        return
    older = [path for path in candidates(folder) if checkpoint_step(path) < step and fault(path, read=False) is None]
    for path in older[: max(0, len(older) - (keep - 1))]:
        try:
            # Under a name that the next save tidies away, and without its marker no checkpoint any more: a kill in the
            # middle leaves nothing that looks whole, and nothing for good.
            gone = folder / f"step_{checkpoint_step(path)}.old-{secrets.token_hex(4)}"
            path.rename(gone)
            (gone / MARKER).unlink()
            shutil.rmtree(gone)
        except OSError as error:
            _log.warning("the old checkpoint %s could not be removed: %s", path, error)


def _native(value: Any, where: str) -> Any:
    """Return the tree with Python's scalars for NumPy's. Raises CheckpointError for what could not be read back."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or type(value) in (bool, int, float, complex, str, bytes, torch.device, torch.dtype, torch.Size):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return value.detach()
    if isinstance(value, Mapping):
        return {_native(key, f"{where}: a key"): _native(item, f"{where}[{key!r}]") for key, item in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_native(item, f"{where}[{i}]") for i, item in enumerate(value))
    raise CheckpointError(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold; "
        "tensors, numbers, strings, bytes, bools, None and dicts, lists, tuples and sets of them can"
    )


def _as_json(value: Any) -> str | None:
    """Return the value as JSON if it comes back equal (no tensors, tuples, integer keys, NaN), else None."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        return text if json.loads(text) == value else None
    except (TypeError, ValueError):
        return None


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    """Flush the names of a folder's files to the disk, where the system lets a folder be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
