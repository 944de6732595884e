"""Worker processes for calls that can be stopped: `Workers`, and what stopped a call, `Stopped`."""

from rlcore_workers.dispatch import Stopped
from rlcore_workers.pool import ProcessState, Workers

__all__ = ["ProcessState", "Stopped", "Workers"]
