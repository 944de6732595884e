"""Filters, one a file: which of the drawn rows are trained on, as indices into the rows they were given."""

from rlcore_algorithms.filters.dynamic_sampling import dynamic_sampling as dynamic_sampling
