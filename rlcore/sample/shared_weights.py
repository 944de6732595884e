"""The weight transfer of a sampler that draws from the trainer's own parameters: nothing is copied."""

from __future__ import annotations

from torch import Tensor

from rlcore.errors import ModelError
from rlcore.protocols import HoldsWeights, Sampler, Trainer


class SharedWeights:
    """Proves at each sync that sampler and trainer hold the same storage, so that an update is there at once."""

    def sync(self, source: Trainer, target: Sampler) -> int:
        """Return the sampler's version; nothing is moved.

        Raises ModelError where one of the two does not say which weights it holds, or where they are not the same.
        """
        for holder, role in ((source, "trainer"), (target, "sampler")):
            if not isinstance(holder, HoldsWeights):
                raise ModelError(
                    f"weight_transfer=shared: the {role} {type(holder).__name__} has no weights(), so nothing shows "
                    f"that trainer and sampler hold the same. Return its parameters by name from weights(), or choose "
                    f"another weight_transfer"
                )
        trained, drawn_from = source.weights(), target.weights()  # type: ignore[attr-defined]
        apart = [name for name, weight in drawn_from.items() if not _is_same(weight, trained.get(name))]
        if apart or not drawn_from:
            found = f"{len(apart)} of {len(drawn_from)} are others, the first {apart[0]}" if apart else "it holds none"
            raise ModelError(
                f"weight_transfer=shared: the sampler {type(target).__name__} does not draw from the trainer's "
                f"weights: {found}"
            )
        return target.version


def _is_same(one: object, other: object) -> bool:
    """Tell whether two tensors are one memory, seen alike."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()
