"""How many hands a choice passes through: a reader who follows `loss=gspo` opens as many functions."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from omegaconf import OmegaConf

import rlcore
from rlcore import get
from rlcore.config import load
from rlcore.registry import Registry

CONFIGURATION = {file.name for file in (Path(rlcore.__file__).parent / "config").glob("*.py")} | {"experiment.py"}
HERE = str(Path(rlcore.__file__).parent)


def holds(value, name, loss, depth=1):
    """Tell whether a value is the name or the loss, or an object with one of them among its fields or items."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    if isinstance(value, str):
        return value == name
    if value is loss or getattr(value, "func", None) is loss:
        return True
    if depth == 0 or isinstance(value, type | Registry):
        return False
    if isinstance(value, Mapping):
        return any(holds(one, name, loss, depth - 1) for one in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(holds(one, name, loss, depth - 1) for one in value)
    if dataclasses.is_dataclass(value) or type(value).__module__.startswith("rlcore.config"):
        return any(holds(one, name, loss, depth - 1) for one in getattr(value, "__dict__", {}).values())
    return False


def holders(overrides, name, loss):
    """Return the functions of rlcore's files that hold a loss while it is loaded, and rlcore's types that do."""
    functions, types = set(), set()

    def watch(frame, event, result):
        code = frame.f_code
        if event != "return" or not code.co_filename.startswith(HERE) or code.co_name.startswith("<"):
            return
        values = [*frame.f_locals.values(), result]
        held = [value for value in values if holds(value, name, loss)]
        if held:
            functions.add((Path(code.co_filename).name, code.co_qualname))
            types.update(type(v).__name__ for v in held if type(v).__module__.startswith("rlcore"))

    sys.setprofile(watch)
    try:
        load(overrides)
    finally:
        sys.setprofile(None)
    return functions, types


def test_few_functions_and_types_hold_a_loss_on_its_way_from_the_command_line_to_the_experiment():
    # In a process of its own: what other tests have imported or loaded must not count, nor keep a function from it.
    ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    functions, types = json.loads(ran.stdout)
    assert {"find_component", "Algorithm.graph"} <= {name for _, name in functions}, "the measure sees the loss"
    assert len([one for one in functions if one[0] in CONFIGURATION]) <= 16, functions
    assert len(functions) <= 30, functions
    assert len(types) <= 4, types


if __name__ == "__main__":
    load([])  # what is imported once, whatever is chosen, is imported: watching that takes seconds
    print(json.dumps([sorted(kind) for kind in holders(["loss=gspo"], "gspo", get("loss", "gspo"))]))
