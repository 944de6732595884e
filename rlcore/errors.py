"""Every error of rlcore: one base class; each child is also the builtin that it refines: `except ValueError` works.

All take one message, so they can be pickled between processes. A message says what is wrong, what was found, what is
allowed, and which name is the nearest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class RLCoreError(Exception):
    """The base of every error that rlcore raises on purpose."""


class UnknownNameError(RLCoreError, LookupError):
    """A name that is not registered, declared or installed."""


class RegistryError(RLCoreError, ValueError):
    """Two owners of one name, or a plugin that does not keep the rules of registration."""


class ComponentError(RLCoreError, TypeError):
    """A component whose signature, options or result break its contract."""


class GraphError(RLCoreError, ValueError):
    """A graph that cannot be resolved: a gap, a cycle, a rewrite that the column table does not allow."""


class ConfigError(RLCoreError, ValueError):
    """A setting that is unknown, of the wrong type, or contradicts another one."""


class DataError(RLCoreError, ValueError):
    """Data that is missing, empty, of an unknown layout, or a row that cannot be used."""


class ModelError(RLCoreError, ValueError):
    """A model that cannot be found, loaded or used."""


class RewardError(RLCoreError, RuntimeError):
    """Rewards that failed beyond what a run may tolerate."""


class CheckpointError(RLCoreError, RuntimeError):
    """A checkpoint that is missing, incomplete or belongs to another configuration."""


class RunError(RLCoreError, RuntimeError):
    """A run that had to stop: a bound was passed, updates stayed non-finite, nothing was left to train on."""


def printable(text: str) -> str:
    """Return the text with control characters as Python spells them: what data holds must not steer a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 step", "3 steps"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest allowed name, or an empty string if none is close."""
    match = closest(name, allowed)
    return f" Did you mean {match!r}?" if match else ""


def closest(name: str, allowed: Iterable[str]) -> str:
    """Return the allowed name that a slip may have made `name` of, or an empty string if none is close."""
    candidates = list(allowed)
    # Letters that changed places are the likeliest slip: "gpro" is grpo, though gspo is as close by the ratio.
    match = [c for c in candidates if sorted(c.lower()) == sorted(name.lower())]
    match = match or difflib.get_close_matches(name, candidates, n=1, cutoff=0.75)
    # Few slip at the first letter: without it in common, "lora" would be "floor" and "brief" would be "prime".
    match = match or [c for c in difflib.get_close_matches(name, candidates, n=9, cutoff=0.6) if c[:1] == name[:1]]
    if not match:
        # A name cut short or with a prefix is close to a reader but not to the ratio; two letters in common are chance.
        match = [c for c in candidates if min(len(c), len(name)) > 2 and (_holds(c, name) or _holds(name, c))]
    return match[0] if match else ""


def _holds(long: str, short: str) -> bool:
    """Tell whether a name begins or ends with another one, or has it inside as a word between `_`, `-`, `.` or `/`."""
    long, short = long.lower(), short.lower()
    return long.startswith(short) or long.endswith(short) or short in re.split(r"[-_./]", long)


def unknown(kind: str, name: str, allowed: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown `name` of a `kind`: the nearest match, then what is known."""
    names = sorted(allowed)
    known = ", ".join(names) if names else "none"
    return UnknownNameError(f"unknown {kind} {name!r}.{nearest(name, names)} Known: {known}")
