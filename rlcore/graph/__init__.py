"""A graph is a list of nodes that read and write columns, and the list is the program.

A column is read from the nearest earlier node that writes it; a node that reads and writes a column rewrites it for
those after it. Which nodes are needed follows from what they read; a missing column is found before a model loads.
"""

from __future__ import annotations

from rlcore.graph.graph import Graph
from rlcore.graph.node import NO_COLUMNS, NODE_KINDS, Node, NodeKind
from rlcore.graph.plan import Plan

__all__ = ["NODE_KINDS", "NO_COLUMNS", "Graph", "Node", "NodeKind", "Plan"]
