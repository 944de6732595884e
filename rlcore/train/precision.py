"""Defaults that depend on device and model: the precision of matrix products, and the tokens of a microbatch."""

from __future__ import annotations

from typing import Any, Literal

import torch

from rlcore.errors import ConfigError, nearest

Precision = Literal["auto", "float32", "bfloat16"]
PRECISIONS = ("auto", "float32", "bfloat16")


def fast_bfloat16(device: torch.device) -> bool:
    """Return whether matrix products in bfloat16 are clearly faster than in float32 on a device.

    True on CUDA with bfloat16, and on CPUs with AVX512-BF16 or AMX instructions (4.3 times measured on an AVX512-BF16
    core; a CPU without them emulates bfloat16 and is slower).
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return any(_cpu_has(name) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return False


def _cpu_has(probe: str) -> bool:
    # The probes are private to torch: one that a later version lacks counts as "no", never as a failure.
    function = getattr(torch.cpu, probe, None)
    return bool(function is not None and function())


def choose_precision(name: str, device: torch.device) -> Literal["float32", "bfloat16"]:
    """Return the precision of matrix products on `device`; "auto" is bfloat16 where that is fast, else float32.

    Raises:
        ConfigError: an unknown name.
    """
    if name == "auto":
        return "bfloat16" if fast_bfloat16(device) else "float32"
    if name == "float32":
        return "float32"
    if name == "bfloat16":
        return "bfloat16"
    raise ConfigError(f"precision {name!r} is unknown; allowed: {', '.join(PRECISIONS)}.{nearest(name, PRECISIONS)}")


ACTIVATION_BYTES = 4 * 2**30
"""About how much memory the activations of a microbatch may take, where `token_budget` is not set."""


def choose_token_budget(model_config: Any) -> int:
    """Return how many tokens of this model's activations fit into 4 GiB, between 512 and 16,384.

    An estimate from width and depth (measured: 1.3 MB a token for 30 layers of width 576, 0.14 MB for 6 of 256, in
    bfloat16). Few large microbatches are faster: each casts every weight and adds to every gradient once.
    """
    width = int(getattr(model_config, "hidden_size", 0)) or 1024
    inner = int(getattr(model_config, "intermediate_size", 0)) or 4 * width
    layers = int(getattr(model_config, "num_hidden_layers", 0)) or 1
    per_token = 4 * layers * (12 * width + 4 * inner)
    return max(512, min(16384, ACTIVATION_BYTES // per_token))
