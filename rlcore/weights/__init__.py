"""Models on disk: where they come from, and how they are kept."""

from rlcore.weights.cache import cache_folder, whole_folder
from rlcore.weights.sources import resolve_model

__all__ = ["cache_folder", "resolve_model", "whole_folder"]
