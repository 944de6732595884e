"""The rewards that come with rlcore, offered by the same hook as anyone's."""

from __future__ import annotations

from typing import Any

from rlcore.hooks import hookimpl
from rlcore_rewards.exact import exact_answer
from rlcore_rewards.expression import expression_answer
from rlcore_rewards.form import think_answer
from rlcore_rewards.managers import DefaultManager
from rlcore_rewards.numeric import numeric_answer

__all__ = ["DefaultManager", "exact_answer", "expression_answer", "numeric_answer", "register", "think_answer"]


@hookimpl
def register(add: Any) -> None:
    """Offer every reward and reward manager of this package."""
    add.reward("numeric_answer", numeric_answer)
    add.reward("exact_answer", exact_answer)
    add.reward("expression_answer", expression_answer)
    add.reward("think_answer", think_answer)
    add.reward("judge", "rlcore_rewards.judge:Judge")
    add.reward_manager("default", DefaultManager)
