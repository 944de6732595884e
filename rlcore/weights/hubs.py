"""Models from the two hubs, through the hubs' own clients (which keep their own cache and know their own mirrors)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlcore.errors import ModelError

# Weights as safetensors only: a pickle runs whatever its author put into it. No code files: rlcore runs no remote code.
PATTERNS = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


def fetch_hf(repository: str, revision: str | None = None, *, report: Callable[[str], None]) -> Path:
    """Return the local snapshot of a Hugging Face model; the client reads `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_OFFLINE`.

    Raises:
        ModelError: it cannot be fetched (with the client's reason), or it has no safetensors weights.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    report(f"fetching {repository} from the Hugging Face hub")
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=PATTERNS)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise fetch_error("hf", repository, revision, error, "set HF_ENDPOINT for a mirror") from error
    return require_weights(Path(folder), f"hf:{repository}")


def fetch_modelscope(repository: str, revision: str | None = None, *, report: Callable[[str], None]) -> Path:
    """Return the local snapshot of a ModelScope model, through the optional package `modelscope`.

    Raises:
        ModelError: the package is missing, the model cannot be fetched, or it has no safetensors weights.
    """
    try:
        from modelscope import snapshot_download
    except ImportError as error:
        raise ModelError(
            f"model 'modelscope:{repository}' needs the package 'modelscope', which is not installed"
            f" ({error}): pip install modelscope"
        ) from error
    report(f"fetching {repository} from ModelScope")
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=PATTERNS)
    except Exception as error:  # the client's errors share no base and are not documented
        raise fetch_error("modelscope", repository, revision, error, "set MODELSCOPE_DOMAIN for a mirror") from error
    return require_weights(Path(folder), f"modelscope:{repository}")


def fetch_error(hub: str, repository: str, revision: str | None, error: Exception, mirror: str) -> ModelError:
    """Return the error for a model that could not be fetched: the model, the client's own reason, how to do without."""
    asked = f"{hub}:{repository}" + (f"@{revision}" if revision else "")
    reason = " ".join(str(error).split())[:400]
    return ModelError(
        f"model {asked!r} could not be fetched: {type(error).__name__}: {reason}."
        f" Without a network give a local folder instead; {mirror}"
    )


def require_weights(folder: Path, asked: str) -> Path:
    """Return the same folder, if it has safetensors weights. Raises ModelError with what it has."""
    if not any(folder.glob("*.safetensors")):
        found = ", ".join(sorted(child.name for child in folder.iterdir())) or "nothing"
        raise ModelError(f"model {asked!r} has no *.safetensors weights, the only kind that is loaded; found: {found}")
    return folder
