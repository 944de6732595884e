"""The sum over a constant: no bias by length (Liu et al. 2025, Dr.GRPO, arXiv:2503.20783, section 3.2)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from rlcore.errors import ConfigError
from rlcore.math import Counts


def constant(mask: Bool[Tensor, "B T"], counts: Counts, *, length: int | None = None) -> Float[Tensor, "B T"]:
    """Return token weights [B, T]: 1 / (rows of the update x length); 0 off the mask.

        L = sum_i sum_t loss_it / (rows length)

    length: a constant number of tokens, above 0; None takes the run's bound on new tokens. Never the width of a batch,
    which would change with padding and with the rows that happen to stand together.

    Raises ConfigError if there is neither a length nor such a bound, or it is not above 0.
    Source: the unbiased form of section 3.2. What differs: nothing; rows without a trained token are not counted.
    """
    divisor = counts.max_new_tokens if length is None else length
    if divisor is None or divisor <= 0:
        raise ConfigError(
            f"the reduction constant divides by a fixed number of tokens and found length={length}, "
            f"max_new_tokens={counts.max_new_tokens}; set length to a whole number above 0"
        )
    return mask.float() / (max(counts.rows, 1) * divisor)
