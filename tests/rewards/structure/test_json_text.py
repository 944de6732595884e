import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore_rewards.structure import extract_json
from rlcore_rewards.structure.json_text import DEEPEST, LONGEST_TEXT


def value(text, **options):
    found = extract_json(text, **options)
    return found and found.value


@pytest.mark.parametrize(
    ("text", "last", "first"),
    [
        ('{"a": 1}', {"a": 1}, {"a": 1}),
        ('So it is {"a": {"b": [1, 2]}}. Done', {"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}),
        ('First {"a": 1}, no, {"a": 2}', {"a": 2}, {"a": 1}),
        ('```json\n{"a": 1}\n```\nas [1] says', {"a": 1}, {"a": 1}),
        ('```\n{"a": 1}\n```\n```json\n{"a": 2}\n```', {"a": 2}, {"a": 1}),
        ('```json\n{"a": 1}', {"a": 1}, {"a": 1}),
        ('```python\nx\n```\n{"a": 1}', {"a": 1}, {"a": 1}),
        ('{"a": "}{ \\" ["} x', {"a": '}{ " ['}, {"a": '}{ " ['}),
        ('{ he said "so" {"a": 1} }', {"a": 1}, {"a": 1}),
        ('[{"a": 1}, oops', {"a": 1}, {"a": 1}),
        ('{"a": 1} {"a": 2', {"a": 1}, {"a": 1}),
        ("[1, 2.5e3, -0, true, null]", [1, 2500.0, 0, True, None], [1, 2500.0, 0, True, None]),
        ("[1,]", None, None),
        ("[01]", None, None),
        ("{'a': 1}", None, None),
        ('{"a": NaN}', None, None),
        ('{"a": 1, "a": 2}', None, None),
        ('{"a": [1}', None, None),
        ("[" + "9" * 5000 + "]", None, None),
        ("no brackets", None, None),
        ("", None, None),
    ],
)
def test_json_is_found_wherever_it_stands(text, last, first):
    assert value(text) == last
    assert value(text, where="first") == first


def test_the_whole_text_may_be_asked_to_be_json():
    assert value(' {"a": 1}\n', where="whole") == {"a": 1}
    assert value("7", where="whole") == 7
    assert value('so {"a": 1}', where="whole") is None


def test_only_objects_or_only_lists_may_be_asked_for():
    text = '{"a": [1]} and [2]'
    assert value(text, of=dict) == {"a": [1]}
    assert value(text, of=list) == [2]
    assert value("7", where="whole", of=dict) is None


def test_depth_and_length_are_bounded():
    assert extract_json("[" * DEEPEST + "]" * DEEPEST).text == "[" * DEEPEST + "]" * DEEPEST
    assert extract_json("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)).text == "[]"
    assert value('{"a": 1}' + " " * LONGEST_TEXT) is None


@pytest.mark.parametrize(
    "piece", ["[", '{"', '{"\\"{\\"', '{"a":[1,2,', "[1,", '[{"a":1}]', "[ ", "```\n", '["x', "[" * 100 + "]" * 100]
)
def test_b52_no_text_makes_the_search_slow(piece):
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    extract_json(text)
    # A quarter of a second at most as measured; anything that is not linear takes minutes.
    assert time.process_time() - start < 5


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ).filter(lambda value: isinstance(value, dict | list)),
    st.text(alphabet="ab \n\"'`.,", max_size=20),
    st.booleans(),
)
def test_what_json_writes_is_found_again_in_prose(written, prose, ascii_only):
    found = extract_json(f"{prose}\n{json.dumps(written, ensure_ascii=ascii_only)}\n{prose}", of=type(written))
    assert found is not None
    assert found.value == written
