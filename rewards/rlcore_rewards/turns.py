"""What an environment itself gives for the turns of a session."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.protocols import Message
from rlcore_rewards.calling import bounded


@bounded
def environment_reward(conversation: Sequence[Message]) -> float | None:
    """Return the sum of the rewards that an environment gave to the turns of a session; None where it gave none."""
    given = [float(message["turn_reward"]) for message in conversation if "turn_reward" in message]
    return sum(given) if given else None
