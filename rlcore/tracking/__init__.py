"""Where metrics go: console, a JSON-lines file, SwanLab, Weights & Biases, TensorBoard, or all at once."""

from rlcore.tracking.console import Console
from rlcore.tracking.jsonl import SCHEMA, Jsonl, JsonLines
from rlcore.tracking.remote import SwanLab, TensorBoard, WandB
from rlcore.tracking.trackers import Trackers

__all__ = ["SCHEMA", "Console", "JsonLines", "Jsonl", "SwanLab", "TensorBoard", "Trackers", "WandB"]
