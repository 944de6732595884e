"""Running code that nobody has read: on this machine, walled in, or on a service."""

from rlcore_rewards.sandbox.inside import LAYERS
from rlcore_rewards.sandbox.local import Sandbox
from rlcore_rewards.sandbox.protocol import Checked, Limits, Ran, Runner, SandboxError, Suite

__all__ = ["LAYERS", "Checked", "Limits", "Ran", "Runner", "Sandbox", "SandboxError", "Suite"]
