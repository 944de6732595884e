"""A graph is a list of nodes that read and write columns, and the list is the program.

A reader takes the nearest earlier writer; a node that reads and writes one column rewrites it for those after it.
Edges, pruning and what may run side by side are derived; a gap is found before a model loads.
"""

from __future__ import annotations

from rlcore.graph.graph import Graph
from rlcore.graph.node import NO_COLUMNS, NODE_KINDS, Node, NodeKind
from rlcore.graph.plan import Plan

__all__ = ["NODE_KINDS", "NO_COLUMNS", "Graph", "Node", "NodeKind", "Plan"]
