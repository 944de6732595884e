"""The weight transfer within one process: the trainer's tensors are given to the sampler as they are."""

from __future__ import annotations

from rlcore.protocols import Sampler, Trainer


class DirectTransfer:
    """Gives the sampler every parameter of the trainer, by name; whether anything is copied is the sampler's affair."""

    def sync(self, source: Trainer, target: Sampler) -> int:
        """Return the version that the sampler has after it was given the trainer's weights."""
        target.update_weights(source.weights().items(), source.version)
        return target.version
