"""Selects, one a file: which tokens an optimizer update trains on, decided once over all of its rows."""
