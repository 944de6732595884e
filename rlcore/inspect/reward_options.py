"""A reward and its manager from the words of `rlcore reward`: the one place here that knows how a run is configured."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rlcore.component import Component, options
from rlcore.config.overrides import Override, parse_override
from rlcore.config.specs import configured, find_component, named_spec
from rlcore.errors import ConfigError, nearest

REWARD_GROUPS = ("reward", "reward_manager")


def bind_reward(name: str, words: Sequence[str]) -> tuple[Component, Component]:
    """Return the reward of a name and the factory of its manager, with their options bound as a run binds them.

    name: a registered reward, `path/to/file.py:function` or `{name: NAME, option: value}`. words: `option=value` of
    the reward, or `reward_manager.option=value`. Failures stop a run; here each row says its own, unless somebody sets
    `reward_manager.max_failed_share`.

    Raises what a run's configuration raises: UnknownNameError, RegistryError, ComponentError, ConfigError.
    """
    if name.endswith(".py"):
        raise ConfigError(f"{name}: which function of the file? {name}:FUNCTION{list_functions(Path(name))}")
    value = parse_override(f"reward={name}").value if name.lstrip().startswith("{") else name
    spec = named_spec("reward", value, "reward")
    known = options(find_component("reward", spec["name"], "reward"))
    overrides = [with_group(parse_override(word), known) for word in words]
    never = parse_override("reward_manager.max_failed_share=null")
    return configured("reward", value, overrides), configured("reward_manager", "default", [never, *overrides])


def with_group(override: Override, known: Iterable[str]) -> Override:
    """Return an override with its group: a bare option is the reward's. Raises ConfigError if it is no option."""
    first = override.key.partition(".")[0]
    if first in REWARD_GROUPS:
        return override
    if first in known:
        return replace(override, key=f"reward.{override.key}")
    near = nearest(first, REWARD_GROUPS) or nearest(f"reward.{first}", [f"reward.{option}" for option in known])
    raise ConfigError(
        f"{override.key}: there is nothing to set but options of the reward ({', '.join(known) or 'it has none'}) and "
        f"of the reward manager: OPTION=VALUE or reward.OPTION=VALUE, reward_manager.OPTION=VALUE.{near}"
    )


def list_functions(path: Path) -> str:
    """Return what a file of rewards has, for a message. The file is read, not run."""
    if not path.is_file():
        return "; and there is no such file"
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        return f"; and it is no Python: {error}"
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [one.name for one in body if isinstance(one, kinds) and not one.name.startswith("_")]
    return f"; it has: {', '.join(named) or 'none'}"
