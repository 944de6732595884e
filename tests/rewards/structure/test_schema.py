import json

import numpy as np
import pytest

from rlcore.errors import ConfigError
from rlcore_rewards.structure import JsonSchema

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"$ref": "#/$defs/count"}},
    "required": ["name", "count"],
    "additionalProperties": False,
    "$defs": {"count": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("completion", "score", "found"),
    [
        ('{"name": "x", "count": 2}', 1.0, 1.0),
        ('Here:\n```json\n{"name": "x", "count": 2}\n```', 1.0, 1.0),
        ('{"name": "x", "count": -1}', 0.0, 1.0),
        ('{"name": "x", "count": true}', 0.0, 1.0),
        ('{"name": "x"}', 0.0, 1.0),
        ('{"name": "x", "count": 2, "more": 1}', 0.0, 1.0),
        ('{"name": "x", "count": 2} no: {"name": 1, "count": 2}', 0.0, 1.0),
        ('{"name": "x", "count": 2', 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_a_completion_is_right_if_its_json_is_what_the_schema_allows(completion, score, found):
    for schema in (SCHEMA, json.dumps(SCHEMA)):
        graded = JsonSchema()(completion, schema)
        assert (graded["score"], graded["found"]) == (score, found)
        assert (graded["extracted"] is None) == (found == 0.0)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "no schema"),
        ("{", "no JSON"),
        ('"text"', "an object, true or false"),
        ({"type": "whatever"}, r"invalid at \$.type"),
        ({"$ref": "#/$defs/none"}, "refers to '#/\\$defs/none'"),
        ({"properties": {"a": {"$ref": "https://example.invalid/schema.json"}}}, "refers to"),
        ({"$ref": "#"}, "itself without end"),
        ({"type": np.float32}, "not to be written as JSON"),
    ],
)
def test_a_schema_that_is_none_is_found_before_any_completion(schema, said):
    with pytest.raises(ValueError, match=said):
        JsonSchema().check_row({"schema": schema})
    with pytest.raises(ValueError, match=said):
        JsonSchema()("{}", schema)


def test_a_file_gives_the_schema_of_all_rows(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    reward = JsonSchema(file=str(file))
    reward.check_row({})
    assert reward('{"name": "x", "count": 2}')["score"] == 1.0
    # A row's own comes first.
    assert reward("[1]", {"type": "array"})["score"] == 1.0


def test_a_file_that_is_no_schema_is_an_error_of_the_configuration(tmp_path):
    (tmp_path / "schema.json").write_text('{"type": 1}')
    for name in ("schema.json", "missing.json"):
        with pytest.raises(ConfigError, match=name):
            JsonSchema(file=str(tmp_path / name))


def test_an_older_draft_is_read_as_it_says():
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    reward = JsonSchema(where="whole")
    assert (reward("1", schema)["score"], reward("2", schema)["score"]) == (0.0, 1.0)


def test_a_value_too_deep_for_a_schema_that_refers_to_itself_is_not_allowed():
    schema = {"type": "array", "items": {"$ref": "#"}}
    assert JsonSchema()("[[], [[]]]", schema)["score"] == 1.0
    assert JsonSchema()("[" * 100 + "7" + "]" * 100, schema)["score"] == 0.0
