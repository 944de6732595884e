"""Models on disk: where they come from, and how they are kept."""

from rlcore.weights.cache import cache_folder, whole_folder
from rlcore.weights.smollm2 import smollm2
from rlcore.weights.sources import resolve_model

__all__ = ["cache_folder", "resolve_model", "smollm2", "whole_folder"]
