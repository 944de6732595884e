"""Laws of shaping: rewards and masks of the rows' shape, and both forms of the reward changed alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.columns import TOKEN
from rlcore.component import invoke
from rlcore.registry import registry
from rlcore.testing.laws.inputs import (
    Columns,
    Component,
    assert_close,
    shaping_columns,
    take_rows,
)


def _written_columns(component: Component, columns: Columns) -> dict[str, Any]:
    result = invoke(component, columns)
    return {name: x for name, x in result._asdict().items() if isinstance(x, Tensor) and name != "metrics"}


def shaped_rows_are_finite_and_shaped(component: Component) -> None:
    """Columns of the rows' own shape, finite, 0 off the sampled tokens; a mask only narrows."""
    columns = shaping_columns()
    written = _written_columns(component, columns)
    assert written, "nothing is written"
    for name, x in written.items():
        of_tokens = registry().columns[name].dims == TOKEN if name in registry().columns else x.dim() == 2
        expected = columns["sampled"].shape if of_tokens else columns["sampled"].shape[:1]
        assert x.shape == expected, f"{name} has shape {tuple(x.shape)}, expected {tuple(expected)}"
        assert x.isfinite().all(), f"{name} is not finite"
        assert not of_tokens or not x[~columns["sampled"]].any(), f"{name} is not 0 off the sampled tokens"
    if "mask" in written:
        assert not (written["mask"].bool() & ~columns["mask"]).any(), "the mask turns tokens on"


def both_forms_of_the_reward_agree(component: Component) -> None:
    """Over a session, `reward` and `token_reward` have one sum."""
    columns = shaping_columns(1)
    written = _written_columns(component, columns)
    if not {"reward", "token_reward"} & written.keys():
        return
    assert {"reward", "token_reward"} <= written.keys(), "one form of the reward is changed and the other is not"
    for session in columns["session"].unique():
        rows = columns["session"] == session
        of_rows, of_tokens = written["reward"][rows].sum(), written["token_reward"][rows].sum()
        assert_close(of_rows, of_tokens, f"reward and token_reward of session {int(session)}", scale=1.0)


def shaping_follows_the_rows(component: Component) -> None:
    """Another order of the rows gives the same in that order."""
    columns = shaping_columns(2)
    order = torch.randperm(len(columns["session"]), generator=torch.Generator().manual_seed(1))
    expected = _written_columns(component, columns)
    for name, x in _written_columns(component, take_rows(columns, order)).items():
        assert_close(x.float(), expected[name][order].float(), f"{name} in another order")
