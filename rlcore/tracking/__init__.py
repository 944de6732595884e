"""Where metrics go: console, a JSON-lines file, SwanLab, Weights & Biases, TensorBoard, or all at once."""

from rlcore.tracking.console import Console
from rlcore.tracking.jsonl import SCHEMA, Jsonl, JsonLines
from rlcore.tracking.remote import SwanLab, TensorBoard, WandB
from rlcore.tracking.trackers import Trackers, started_trackers

BUILTIN: dict[str, type] = {
    "console": Console,
    "jsonl": Jsonl,
    "swanlab": SwanLab,
    "tensorboard": TensorBoard,
    "wandb": WandB,
}
"""Name on the command line -> class, all of whose options have defaults."""

__all__ = [
    "BUILTIN",
    "SCHEMA",
    "Console",
    "JsonLines",
    "Jsonl",
    "SwanLab",
    "TensorBoard",
    "Trackers",
    "WandB",
    "started_trackers",
]
