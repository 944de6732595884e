"""Executors: what runs the graph of an algorithm. They name no algorithm and no column but the structural ones."""
