"""Laws of shaping nodes: changes of graded rows before the advantage is estimated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcore.columns import COLUMNS, TOKEN
from rlcore.component import invoke
from rlcore.testing.laws.inputs import (
    Columns,
    Component,
    _equal,
    assert_close,
    leaves_no_trace,
    take_rows,
)


def _rows(seed: int = 0, *, rows: int = 10, width: int = 8) -> Columns:
    """Return whole rows, 0 off the sampled tokens; some sessions have two rows, the reward stands on the last token."""
    random = torch.Generator().manual_seed(seed)
    sampled = torch.rand(rows, width, generator=random) < 0.6
    sampled[:, 1] = True
    session = torch.arange(rows) + 40
    session[1], session[5] = session[0], session[4]
    part = torch.zeros(rows, dtype=torch.int64)
    part[1] = part[5] = 1
    score = torch.randn(rows, generator=random)
    columns: Columns = {
        "sampled": sampled,
        "mask": sampled & (torch.rand(rows, width, generator=random) < 0.9),
        "session": session,
        "segment": part,
        "group": torch.div(session, 4, rounding_mode="floor"),
        "tokens": torch.randint(0, 3, (rows, width), generator=random),
        "length": torch.full((rows,), width),
        "prompt_length": torch.ones(rows, dtype=torch.int64),
        "stop": torch.arange(rows) % 2,
        "score_components": torch.randn(rows, 3, generator=random),
        "score": score,
        "kl_coefficient": 0.1,
        "kl_in_reward_coefficient": 0.1,
        "progress": 0.5,
        "seed": 3,
    }
    token_reward = torch.zeros(rows, width)
    last = width - 1 - sampled.flip(1).float().argmax(1)
    token_reward[torch.arange(rows), last] = score
    columns["token_reward"], columns["reward"] = token_reward, token_reward.sum(1)
    for name, column in COLUMNS.items():
        if column.dims == TOKEN and column.dtype == "float" and name not in columns:
            columns[name] = torch.where(sampled, -torch.rand(rows, width, generator=random), 0)
    return columns


def _written_columns(component: Component, columns: Columns) -> dict[str, Any]:
    result = invoke(component, columns)
    return {name: x for name, x in result._asdict().items() if isinstance(x, Tensor) and name != "metrics"}


def shaped_rows_are_finite_and_shaped(component: Component) -> None:
    """Columns of the rows' own shape, finite, 0 off the sampled tokens; a mask only narrows."""
    columns = _rows()
    written = _written_columns(component, columns)
    assert written, "nothing is written"
    for name, x in written.items():
        of_tokens = COLUMNS[name].dims == TOKEN if name in COLUMNS else x.dim() == 2
        expected = columns["sampled"].shape if of_tokens else columns["sampled"].shape[:1]
        assert x.shape == expected, f"{name} has shape {tuple(x.shape)}, expected {tuple(expected)}"
        assert x.isfinite().all(), f"{name} is not finite"
        assert not of_tokens or not x[~columns["sampled"]].any(), f"{name} is not 0 off the sampled tokens"
    if "mask" in written:
        assert not (written["mask"].bool() & ~columns["mask"]).any(), "the mask turns tokens on"


def both_forms_of_the_reward_agree(component: Component) -> None:
    """Over a session, `reward` and `token_reward` have one sum."""
    columns = _rows(1)
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
    columns = _rows(2)
    order = torch.randperm(len(columns["session"]), generator=torch.Generator().manual_seed(1))
    expected = _written_columns(component, columns)
    for name, x in _written_columns(component, take_rows(columns, order)).items():
        assert_close(x.float(), expected[name][order].float(), f"{name} in another order")


def shaping_leaves_no_trace(component: Component) -> None:
    """What is handed in is not changed, nothing else is read, a second call and a copy give the same."""
    columns = _rows(3)
    leaves_no_trace(component, columns)
    assert all(_equal(x, columns[n]) for n, x in _rows(3).items()), "an input was changed"
