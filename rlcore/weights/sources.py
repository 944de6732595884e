"""Where a model comes from: a folder, a hub id, or a registered name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlcore.errors import ModelError, nearest
from rlcore.registry import get, names
from rlcore.weights.cache import cache_folder, whole_folder
from rlcore.weights.hubs import fetch_hf, fetch_modelscope

HUBS: dict[str, Callable[..., Path]] = {"hf": fetch_hf, "modelscope": fetch_modelscope}
VOCABULARIES = ("tokenizer.json", "*.model", "*vocab*", "*.tiktoken")
"""Files that hold a tokenizer's words; a `tokenizer_config.json` alone holds none."""


def model_spellings() -> str:
    """Return the ways to name a model, for messages."""
    return "a model is a folder, hf:ORG/NAME, modelscope:ORG/NAME, or one of: " + ", ".join(names("model"))


def no_report(message: str) -> None:
    """Report nothing: the default for `report`."""


def resolve_model(source: str | Path, *, report: Callable[[str], None] = no_report) -> Path:
    """Return the local folder that holds a model, fetched or made if need be.

    `source` is a folder with a `config.json`, `hf:ORG/NAME` or `modelscope:ORG/NAME` (each with an optional
    `@REVISION`), or a registered name (`rlcore plugins` lists them). A folder of that name comes first. `report` gets a
    line before each piece of long work.

    Raises:
        ModelError: nothing of that name; it says which folder is near and how hub ids are written.
    """
    folder = Path(source).expanduser()
    if folder.exists():
        return model_folder(folder)
    name = str(source)
    hub, colon, identifier = name.partition(":")
    if colon and hub in HUBS:
        return model_folder(HUBS[hub](*split_revision(name, identifier), report=report))
    if name in names("model"):
        return model_folder(get("model", name)(report=report))
    if colon and "/" not in hub and len(hub) > 1:
        raise ModelError(f"model {name!r}: unknown hub {hub!r}; {model_spellings()}.{nearest(hub, HUBS)}")
    close = hub_hint(name) + nearest(name, names("model"))
    raise ModelError(f"model {name!r} is no folder{similar_folder(folder)}; {model_spellings()}.{close}")


def model_folder(folder: Path) -> Path:
    """Return the same folder, absolute, if a model lies in it. Raises ModelError saying what is there instead."""
    if not folder.is_dir():
        raise ModelError(f"model {str(folder)!r} is a file; {model_spellings()}")
    if not (folder / "config.json").is_file():
        inner = [child.name for child in sorted(folder.iterdir()) if (child / "config.json").is_file()]
        found = ", ".join(sorted(child.name for child in folder.iterdir())[:8]) or "nothing"
        hint = f" Did you mean {str(folder / inner[-1])!r}?" if inner else ""
        raise ModelError(f"model folder {str(folder)!r} has no config.json; found: {found}.{hint}")
    return folder.resolve()


def check_tokenizer(folder: Path) -> None:
    """Raise ModelError for a model's folder without a vocabulary: transformers would make a tokenizer of no words."""
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in VOCABULARIES):
        found = ", ".join(sorted(child.name for child in folder.iterdir())) or "nothing"
        raise ModelError(
            f"the model folder {str(folder)!r} has no tokenizer: none of {', '.join(VOCABULARIES)}; it has: {found}."
            " Copy the files of the model's tokenizer there (`tokenizer.save_pretrained(FOLDER)`)"
        )


def split_revision(name: str, identifier: str) -> tuple[str, str | None]:
    """Return the repository and revision of `ORG/NAME@REVISION`. Raises ModelError if it is not of that form."""
    repository, _, revision = identifier.partition("@")
    parts = repository.split("/")
    if len(parts) != 2 or not all(parts):
        raise ModelError(f"model {name!r}: {repository!r} is no hub id; {model_spellings()}")
    return repository, revision or None


def similar_folder(folder: Path) -> str:
    """Return the end of a sentence about the nearest folder beside the missing one, or an empty string."""
    parent = folder.parent
    if not parent.is_dir():
        return f" ({str(parent)!r} does not exist)"
    close = nearest(folder.name, [child.name for child in parent.iterdir() if child.is_dir()])
    return f" ({close.strip()})" if close else ""


def hub_hint(name: str) -> str:
    """Return how to write `name` as a hub id, if it looks like one."""
    parts = name.split("/")
    looks = len(parts) == 2 and all(parts) and parts[0] not in (".", "..", "~")
    return f" For the hub's model write hf:{name} or modelscope:{name}." if looks else ""


def given_model(module: Any, tokenizer: Any) -> Path:
    """Return a folder with a loaded transformers model and its tokenizer, which is written to the cache once.

    A run trains a copy: what it was given stays as it is. Raises ModelError for what is no such pair, and for a class
    that is not the one that transformers would load from the folder.
    """
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

    if not isinstance(module, PreTrainedModel) or not isinstance(tokenizer, PreTrainedTokenizerBase):
        found = f"({type(module).__name__}, {type(tokenizer).__name__})"
        raise ModelError(f"model={found}: a pair is a transformers model and its tokenizer, in this order")
    mapped = AutoModelForCausalLM._model_mapping.get(type(module.config), None)  # noqa: SLF001 - there is no other way
    if mapped is not type(module):
        made = getattr(mapped, "__name__", "model of no class")
        raise ModelError(
            f"model is a {type(module).__name__}, and transformers makes a {made} of its configuration, so a copy "
            f"would be another model. Save it with save_pretrained and its code, and give the folder with "
            f"model.trust_code=true"
        )
    digest = hashlib.sha256(module.config.to_json_string().encode())
    for name, weight in sorted(module.state_dict().items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    digest.update(repr((tokenizer.chat_template, tokenizer.special_tokens_map)).encode())
    target = cache_folder() / "given" / digest.hexdigest()[:24]
    if not target.is_dir():
        with whole_folder(target) as aside:
            module.save_pretrained(aside)
            tokenizer.save_pretrained(aside)
    return target
