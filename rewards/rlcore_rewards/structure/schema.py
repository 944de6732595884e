"""JSON that a schema allows."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.data import native
from rlcore.errors import ConfigError
from rlcore_rewards.structure.json_text import Where, extract_json


class JsonSchema:
    """1.0 if the JSON in a completion is what a schema allows, else 0.0; without JSON 0.0.

    The schema is the row's `schema` (an object, or its JSON text), else the one of `file`. It is read as the draft
    that its `$schema` names, else as draft 2020-12; `format` asserts nothing, and a `$ref` never leaves the schema.
    Component `found`: whether there is JSON at all.

    Args:
        file: a schema for the rows that have none.
        where: which JSON of the completion counts (`extract_json`).

    Raises ConfigError for a `file` that is no schema.
    """

    def __init__(self, *, file: str | None = None, where: Where = "last") -> None:
        self.where: Where = where
        self.schema: str | None = None
        if file is not None:
            try:
                self.schema = Path(file).expanduser().read_text(encoding="utf-8")
                validator(self.schema)
            except (OSError, ValueError) as error:
                raise ConfigError(f"json_schema: file={file!r} cannot be used: {error}") from error

    def check_row(self, data: Mapping[str, Any]) -> None:
        """Raise ValueError if the row has no schema, or one that is none."""
        self._validator(data.get("schema"))

    def __call__(self, completion: str, schema: Any = None) -> dict[str, Any]:
        """Return the score of one completion. Raises ValueError as `check_row` does."""
        allowed = self._validator(schema)
        found = extract_json(completion, where=self.where)
        if found is None:
            return {"score": 0.0, "found": 0.0, "extracted": None}
        return {"score": float(allows(allowed, found.value)), "found": 1.0, "extracted": found.text}

    def _validator(self, schema: Any) -> Any:
        schema = self.schema if schema is None else schema
        if schema is None:
            raise ValueError("there is no schema: the row's column 'schema' is missing, and no file is given")
        return validator(as_text(schema))


def as_text(value: Any) -> str:
    """Return a value as JSON text; a text is taken to be that already. Raises ValueError for what JSON cannot hold."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(native(value))
    except TypeError as error:
        raise ValueError(f"not to be written as JSON: {error}") from error


@functools.lru_cache(maxsize=256)
def validator(schema: str) -> Any:
    """Return what validates by a schema, given as JSON text: `is_valid(value)`, `iter_errors(value)`.

    Raises:
        ValueError: the text is no JSON, no schema of its draft, or refers to what is not in it.
    """
    import jsonschema
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    try:
        contents = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the schema is no JSON: {error}; found {schema[:80]!r}") from error
    if not isinstance(contents, dict | bool):
        raise ValueError(f"a schema is an object, true or false; found {schema[:80]!r}")  # noqa: TRY004 - a row's fault
    validator_class = jsonschema.validators.validator_for(contents, default=jsonschema.Draft202012Validator)
    try:
        validator_class.check_schema(contents)
    except jsonschema.SchemaError as error:
        raise ValueError(f"the schema is invalid at {error.json_path}: {error.message[:200]}") from error
    # With this registry it looks for nothing in the network.
    resource = specification_with(validator_class.META_SCHEMA["$schema"]).create_resource(contents)
    check_references(resource, REGISTRY.resolver_with_root(resource))
    schema_validator = validator_class(contents, registry=REGISTRY)
    try:
        schema_validator.is_valid(None)
    except RecursionError as error:
        raise ValueError("the schema refers to itself without end") from error
    return schema_validator


def allows(schema: Any, value: Any) -> bool:
    """Return whether a validator allows a value; not if it is too deep or too large for its arithmetic."""
    try:
        return bool(schema.is_valid(value))
    except (RecursionError, OverflowError):
        return False


def check_references(resource: Any, resolver: Any) -> None:
    """Raise ValueError for a `$ref` of a schema, or of one inside it, that leads nowhere."""
    from referencing.exceptions import Unresolvable

    if isinstance(resource.contents, Mapping) and isinstance(reference := resource.contents.get("$ref"), str):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise ValueError(f"the schema refers to {reference!r}, which is not in it") from error
    for inner in resource.subresources():
        check_references(inner, resolver.in_subresource(inner))
