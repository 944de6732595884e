"""A small copy of a model: the same class and options, few layers, small widths, short lengths, weights drawn anew.

What is proven of it holds for the model, since code and options are the same. It knows names of options, never of
model families: a size is recognised by what configurations call it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from rlcore.errors import ModelError

VOCABULARY, LENGTH, LONGEST = 96, 8, 48
HEADS, HEAD_WIDTH = 4, 16
WIDTH = HEADS * HEAD_WIDTH
MOST = 20_000_000
"""Parameters of a small copy: one with more has a size whose name is not known here."""
# First match wins. A value is set only where the option is a whole number above it.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"vocab_size(_per_layer_input)?", VOCABULARY),
    (r"(max_position_embeddings|n_positions|n_ctx|max_seq_len|max_sequence_length|seq_length)", LONGEST),
    (r".*(sliding_window|window_size|chunk_size|original_max_position_embeddings|attention_window).*", LENGTH),
    (
        r"(qk_nope_head_dim|v_head_dim|head_dim|kv_channels|attention_head_dim|d_kv|swa_head_dim|global_head_dim)",
        HEAD_WIDTH,
    ),
    (r"(qk_rope_head_dim|rotary_dim)", HEAD_WIDTH // 2),
    (r"qk_head_dim", HEAD_WIDTH + HEAD_WIDTH // 2),
    (r"(q_lora_rank|kv_lora_rank|.*_rank|.*_rank_.*)", 16),
    (r"(num_experts_per_tok|moe_top_?k|top_?k_experts?|moe_k|num_experts_per_token|topk_group)", 2),
    (r"(n_group|num_expert_group)", 2),
    (r"(.*num_.*experts|.*n_routed_experts|moe_num_experts|num_experts.*|n_experts)", 4),
    (r".*(shared_experts|shared_expert)$", 1),
    (r".*(intermediate|ffn|mlp|inner|feed_forward|shared_expert).*(size|dim|width|hidden|n_inner)?", 96),
    (r"(num_key_value_heads|num_kv_heads|n_kv_heads|num_key_value_groups|.*_key_value_heads|multi_query_group_num)", 2),
    (r"(linear_num_key_heads|linear_num_value_heads|mamba_n_heads|mamba_num_heads|n_mamba_heads)", HEADS),
    (r"(.*num_.*heads|n_heads?|num_attention_heads|.*_n_heads|encoder_attention_heads|decoder_attention_heads)", HEADS),
    (
        r"(hidden_size|n_embd|d_model|dim|embedding_size|.*hidden_dim|model_dim|emb_dim|word_embed_proj_dim|hidden_size_per_layer_input|lru_width|attention_hidden_size)",
        WIDTH,
    ),
    (r"(num_hidden_layers|n_layers?|num_layers|decoder_layers|encoder_layers|num_decoder_layers)", 2),
)


def small_config(config: Any) -> Any:
    """Return a copy of a configuration with small sizes."""
    small = copy.deepcopy(config)
    kinds = getattr(small, "layer_types", None)
    for text in {id(x): x for x in (small, _text_of(small))}.values():
        _shrink(text)
    for name in getattr(small, "sub_configs", None) or ():
        tower = getattr(small, name, None)
        if tower is not None and tower is not _text_of(small) and hasattr(tower, "to_dict"):
            _shrink_tower(tower)
    _shrink_layers(_text_of(small), kinds)
    return small


def _shrink_tower(config: Any) -> None:
    """Shrink what reads images: its depth and widths, and the places of layers that it names."""
    sizes = {"depth": 2, "num_hidden_layers": 2, "hidden_size": WIDTH, "embed_dim": WIDTH, "out_hidden_size": WIDTH}
    sizes |= {"intermediate_size": 96, "num_heads": HEADS, "num_attention_heads": HEADS, "num_position_embeddings": 64}
    for name, size in sizes.items():
        if isinstance(getattr(config, name, None), int):
            setattr(config, name, size)
    for name, value in list(vars(config).items()):
        if name.endswith("_indexes") and isinstance(value, list) and value:
            setattr(config, name, [0])


def _text_of(config: Any) -> Any:
    return config.get_text_config()


def _shrink(config: Any) -> None:
    before = dict(vars(config))
    heads = getattr(config, "num_attention_heads", None)
    held = getattr(config, "num_key_value_heads", None)
    for name, value in list(vars(config).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, Mapping):
            setattr(config, name, _shrunk_mapping(value))
        elif name.endswith("token_id") and isinstance(value, int) and value >= VOCABULARY:
            setattr(config, name, VOCABULARY - 1 - len(name) % 5)
        elif name.endswith("token_id") and isinstance(value, list):
            setattr(config, name, [min(int(v), VOCABULARY - 1) for v in value])
        else:
            small = _small(name, value)
            if small is not None:
                setattr(config, name, small)
    # What is left open follows from the rest: some classes do that themselves, some only in their checkpoints.
    follows = {"head_dim": HEAD_WIDTH, "num_key_value_heads": HEADS, "num_experts_per_tok": 2}
    for name, size in follows.items():
        if name in before and before[name] is None:
            setattr(config, name, size)
    if isinstance(heads, int) and isinstance(held, int):
        config.num_key_value_heads = HEADS if heads == held else 1 if held == 1 else 2
    rotated, plain = before.get("qk_rope_head_dim"), before.get("qk_nope_head_dim")
    if isinstance(rotated, int) and isinstance(plain, int):
        # The rotated part of a head is apart from the rest, and other options are the one or the sum.
        for name in ("head_dim", "qk_head_dim"):
            if before.get(name) in (rotated, rotated + plain):
                small = config.qk_rope_head_dim + (0 if before[name] == rotated else config.qk_nope_head_dim)
                setattr(config, name, small)
    _shrink_state_space(config, before)


def _shrink_state_space(config: Any, before: Mapping[str, Any]) -> None:
    """Heads of a state-space layer share `expand` times the width."""
    expand = before.get("mamba_expand", before.get("expand"))
    if not isinstance(expand, (int, float)):
        return
    inner = int(expand * WIDTH)
    sizes = {"mamba_n_heads": inner // HEAD_WIDTH, "mamba_num_heads": inner // HEAD_WIDTH, "mamba_d_ssm": inner}
    sizes |= {"n_mamba_heads": inner // HEAD_WIDTH, "mamba_d_head": HEAD_WIDTH, "mamba_headdim": HEAD_WIDTH}
    sizes |= {"mamba_head_dim": HEAD_WIDTH, "mamba_n_groups": 1, "n_groups": 1, "mamba_ngroups": 1}
    if "num_attention_heads" not in before:
        sizes |= {"num_heads": inner // HEAD_WIDTH, "head_dim": HEAD_WIDTH, "intermediate_size": inner}
    for name, size in sizes.items():
        if before.get(name) is not None:
            setattr(config, name, size)


def _small(name: str, value: Any) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    for pattern, most in _SIZES:
        if re.fullmatch(pattern, name):
            return min(value, most) if value > 0 else None
    return None


def _shrunk_mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name, each in value.items():
        small = _small(str(name), each)
        made[name] = _shrunk_mapping(each) if isinstance(each, Mapping) else each if small is None else small
    return made


def _shrink_layers(config: Any, kinds: Any) -> None:
    """Keep one layer of each kind, two where there are; lists with a value for each layer are cut alike."""
    kinds = kinds or getattr(config, "layer_types", None)
    if not isinstance(kinds, list):
        return
    kept = sorted({kinds.index(kind) for kind in kinds})
    if kept == [0] and len(kinds) > 1:
        kept = [0, 1]
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == len(kinds) and not name.startswith("_"):
            setattr(config, name, [value[i] for i in kept])
    config.num_hidden_layers = len(kept)


def small_copy(small: Any, *, seed: int = 0) -> nn.Module:
    """Return the model of a small configuration, in float32 and evaluation mode, every parameter drawn anew.

    Raises ModelError where its class cannot be built small.
    """
    kind = auto_class(small)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            small.dtype = torch.float32
            trusted = own_code(small)
            with torch.device("meta"):
                meta = kind.from_config(small, trust_remote_code=trusted)
                count = sum(p.numel() for p in meta.parameters())
            if count > MOST:
                raise ModelError(f"its small copy still has {count:,} parameters")
            module = kind.from_config(small, trust_remote_code=trusted).float().eval()
            draw_anew(module, seed)
    except Exception as error:
        raise ModelError(f"{type(small).__name__} cannot be built small: {type(error).__name__}: {error}") from error
    return module


def auto_class(config: Any) -> Any:
    """Return the class of transformers that makes a configuration's model: of texts, or of images and texts."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    of_texts, of_images = (each._model_mapping for each in (AutoModelForCausalLM, AutoModelForImageTextToText))  # noqa: SLF001
    with_images = type(config) in of_images and type(config) not in of_texts
    return AutoModelForImageTextToText if with_images else AutoModelForCausalLM


def reads_images(config: Any) -> bool:
    """Return whether a configuration is of a model of images and texts."""
    from transformers import AutoModelForCausalLM

    return auto_class(config) is not AutoModelForCausalLM


def own_code(config: Any) -> bool:
    """Return whether a configuration is of a model's own code, which was trusted when it was read."""
    return type(config).__module__.startswith("transformers_modules.")


@torch.no_grad()
def draw_anew(module: nn.Module, seed: int) -> None:
    """Draw every parameter: what starts as 0 or 1 would hide what a forward pass leaves out."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            parameter.copy_(noise * (0.7 / max(parameter.shape[-1], 1) ** 0.5))
        else:
            parameter.copy_(1.0 + 0.3 * noise if bool((parameter.float() - 1).abs().mean() < 0.5) else 0.3 * noise)
