"""Presets: settings of registered components that reproduce a named version of a peer; no tensor operation here."""
