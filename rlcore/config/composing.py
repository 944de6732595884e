"""Nodes into one tree, by Hydra: every part that a run uses stands in the ConfigStore as an option of its group.

`compose` is used and `@hydra.main` is not: that one owns the command line and the working directory, and breaks on
newer Pythons. Names are checked before, so what is composed exists; values are laid over the tree afterwards (see
`notation`), so no text of a person's is ever read as Hydra's grammar or as an interpolation.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rlcore.errors import ConfigError

_lock = threading.Lock()  # Hydra's store and its global state belong to the process
ROOT = "rlcore_experiment"


def compose_nodes(slots: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the nodes of each group as Hydra composes them.

    Raises ConfigError for a default value that OmegaConf refuses.
    """
    tree = json.loads(_composed(json.dumps(slots)))
    return {group: [tree[_slot(group, place)] for place in range(len(nodes))] for group, nodes in slots.items()}


@functools.lru_cache(maxsize=64)  # as text, so that nobody can change what is kept
def _composed(text: str) -> str:
    from hydra import compose, initialize
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    store = ConfigStore.instance()
    defaults: list[Any] = []
    try:
        with _lock:
            for group, nodes in json.loads(text).items():
                for place, node in enumerate(nodes):
                    option = f"{place}_{re.sub(r'[^A-Za-z0-9_]', '_', str(node['name']))}"
                    store.store(group=f"rlcore/{group}", name=option, node=node, provider="rlcore")
                    defaults.append({f"/rlcore/{group}@{_slot(group, place)}": option})
            store.store(name=ROOT, node={"defaults": [*defaults, "_self_"]}, provider="rlcore")
            with initialize(version_base="1.3", config_path=None):
                return json.dumps(OmegaConf.to_container(compose(ROOT), resolve=False))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"the parts cannot be composed: {error}") from error


def _slot(group: str, place: int) -> str:
    return f"{group}__{place}"
