"""The table of kinds is what everything else says of kinds."""

import dataclasses
import re
from pathlib import Path

import pytest

from rlcore.algorithm import Algorithm
from rlcore.cli import main
from rlcore.config.specs import configuration_groups
from rlcore.kinds import GROUPS, KINDS
from rlcore.registry import names
from rlcore.services import kind_protocol
from rlcore.testing.laws import LAWS

GUIDE = (Path(__file__).parents[2] / "docs/guide.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_laws_and_a_row_in_the_guide_and_something_registered(kind):
    assert kind in LAWS or kind == "algorithm"
    first_cells = " ".join(line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("|"))
    assert kind in re.findall(r"\w+", first_cells)
    assert names(kind)


@pytest.mark.parametrize("key", GROUPS)
def test_every_configuration_group_can_be_chosen_and_its_default_is_registered(key):
    kind, group = GROUPS[key]
    assert key in configuration_groups()
    for default in group.default if isinstance(group.default, tuple) else (group.default,):
        assert default is None or default in names(kind.name)
    assert group.slot == (key in {field.name for field in dataclasses.fields(Algorithm)})


def test_every_service_has_a_protocol_and_nothing_else_has():
    for name, kind in KINDS.items():
        assert (kind_protocol(name) is not None) == (kind.form == "service")


def test_info_says_what_a_kind_is_for_and_by_which_keys_it_is_chosen(capsys):
    assert main(["info", "clipped", "--kind", "loss"]) == 0
    shown = capsys.readouterr().out
    assert KINDS["loss"].meaning in shown
    assert "chosen by loss=clipped, value_loss=clipped" in shown
