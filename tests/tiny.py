"""Tiny random models and tokenizers, made in code: what tests use where a real checkpoint would be needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rlcore.train.model import LanguageModel

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
CHARACTERS = "0123456789+-*/=()., :;?!<>'\"\n" + "abcdefghijklmnopqrstuvwxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PAD, BOS, EOS, UNK = range(4)
FAMILIES = ("qwen3", "qwen2", "llama", "gemma2", "deepseek_v3", "deepseek_v2")


def character_tokenizer(*, pad_is_eos: bool = False) -> Any:
    """A tokenizer of one token per character; `<bos>` comes first, `<eos>` is 2, `<pad>` 0 (or `<eos>`)."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate((*SPECIALS, *CHARACTERS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<eos>" if pad_is_eos else "<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )


def byte_tokenizer() -> Any:
    """A tokenizer of one token per UTF-8 byte, so that a character may be split over tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate((*SPECIALS, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )


def tiny_config(family: str, *, tied: bool = True, **overrides: Any) -> Any:
    """The configuration of a model of about 0.1M parameters of that family; `overrides` go into it."""
    import transformers

    shared: dict[str, Any] = dict(
        vocab_size=len(SPECIALS) + len(CHARACTERS),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.2,
        tie_word_embeddings=tied,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    own: dict[str, tuple[str, dict[str, Any]]] = {
        "qwen3": ("Qwen3Config", dict(head_dim=16)),
        "qwen2": ("Qwen2Config", {}),
        # Llama 3.1's own scaling of the rotary frequencies, with positions short enough for tests to reach all bands.
        "llama": (
            "LlamaConfig",
            dict(
                rope_parameters=dict(
                    rope_type="llama3",
                    rope_theta=10000.0,
                    factor=8.0,
                    low_freq_factor=1.0,
                    high_freq_factor=4.0,
                    original_max_position_embeddings=64,
                )
            ),
        ),
        # The window is short, so that tests reach past it.
        "gemma2": (
            "Gemma2Config",
            dict(
                head_dim=16,
                sliding_window=8,
                query_pre_attn_scalar=16,
                attn_logit_softcapping=5.0,
                final_logit_softcapping=6.0,
                hidden_activation="gelu_pytorch_tanh",
            ),
        ),
        "deepseek_v3": ("DeepseekV3Config", _mla() | dict(n_group=2, topk_group=1, num_experts_per_tok=2)),
        "deepseek_v2": (
            "DeepseekV2Config",
            _mla() | dict(n_group=None, topk_group=None, num_experts_per_tok=2, topk_method="greedy"),
        ),
    }
    name, special = own[family]
    return getattr(transformers, name)(**(shared | special | overrides))


def _mla() -> dict[str, Any]:
    return dict(
        num_key_value_heads=4,
        q_lora_rank=24,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=12,
        n_routed_experts=4,
        n_shared_experts=1,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
    )


def tiny_module(family: str = "qwen3", *, tied: bool = True, seed: int = 0, **overrides: Any) -> Any:
    """A random Hugging Face causal LM; norms, biases and routers are random too: none can be left out unseen."""
    from transformers import AutoModelForCausalLM

    random_state = torch.get_rng_state()
    torch.manual_seed(seed)
    module = AutoModelForCausalLM.from_config(tiny_config(family, tied=tied, **overrides))
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif not parameter.any():
                parameter.normal_(0.0, 0.2)
    torch.set_rng_state(random_state)
    return module.eval()


def make_tiny(
    family: str = "qwen3", *, tied: bool = True, seed: int = 0, tokenizer: Any = None, **overrides: Any
) -> LanguageModel:
    """A random tiny model with a character tokenizer (or the one given), ready to train and to sample from."""
    tokenizer = tokenizer or character_tokenizer()
    overrides.setdefault("vocab_size", len(tokenizer))
    return LanguageModel(tiny_module(family, tied=tied, seed=seed, **overrides), tokenizer)


def save_tiny(folder: Path, family: str = "qwen3", *, tied: bool = True, seed: int = 0, **overrides: Any) -> Path:
    """Write such a model as a Hugging Face folder and return the folder."""
    make_tiny(family, tied=tied, seed=seed, **overrides).save(folder)
    return folder
