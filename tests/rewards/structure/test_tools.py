import json
import time

import pytest

from rlcore_rewards.structure import parse_tool_calls, tool_call

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    },
    {"name": "stop"},
]


def block(name="search", **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_b52_many_blocks_and_one_that_was_cut():
    text = "\n".join(block(query=f"q{i}", count=i) for i in range(200)) + '\n<tool_call>\n{"name": "sea'
    start = time.process_time()
    calls = parse_tool_calls(text)
    assert time.process_time() - start < 1
    assert len([call for call in calls if call.complete and call.name == "search"]) == 200
    assert calls[-1] == ("", None, False)
    assert [call.arguments["count"] for call in calls[:-1]] == list(range(200))
    assert tool_call(text, TOOLS) | {"extracted": ""} == {"score": 0.0, "calls": 201.0, "valid": 200.0, "extracted": ""}


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        (block(query="x"), 1.0),
        (f"I look it up. {block(query='x')}{block('stop')}", 1.0),
        (block(query="x") + block(query=7), 0.0),
        (block(), 0.0),
        (block("find", query="x"), 0.0),
        (block(query="x", more=1), 0.0),
        ('<tool_call>{"name": "search", "arguments": "{\\"query\\": \\"x\\"}"}</tool_call>', 1.0),
        ('<tool_call>{"type": "function", "function": {"name": "stop"}}</tool_call>', 1.0),
        ('<tool_call>{"name": "search", "arguments": [1]}</tool_call>', 0.0),
        ('<tool_call>{"name": "stop", "arguments": null}</tool_call>', 0.0),
        ("<tool_call></tool_call>", 0.0),
        ("<tool_call>" + block(query="x"), 0.0),
        ("</tool_call>", 0.0),
        ('{"name": "stop"}', 0.0),
        ("", 0.0),
    ],
)
def test_every_call_must_be_one_of_the_tools(completion, score):
    assert tool_call(completion, TOOLS)["score"] == score
    assert tool_call(completion, json.dumps(TOOLS))["score"] == score


def test_calls_may_be_plain_json():
    one = '{"name": "search", "arguments": {"query": "x"}}'
    for text in (f"So: {one}", f"[{one}, {one}]", f'{{"tool_calls": [{{"type": "function", "function": {one}}}]}}'):
        assert tool_call(text, TOOLS, form="json")["score"] == 1.0
    for text in ("none", "[]", "[1]", '{"name": "other"}', block(query="x") + "[1]"):
        assert tool_call(text, TOOLS, form="json")["score"] == 0.0


def test_what_was_called_is_told():
    assert json.loads(tool_call(block(query="x"), TOOLS)["extracted"]) == [["search", {"query": "x"}]]
    assert tool_call("none", TOOLS)["extracted"] is None


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (None, "a list of tools"),
        ([], "a list of tools"),
        ("search", "a list of tools"),
        ({"name": "search"}, "a list of tools"),
        ([{"type": "function"}], "the tool's name"),
        ([{"name": "x", "parameters": {"type": "wrong"}}], "parameters of tool 'x'"),
    ],
)
def test_tools_that_are_none_are_found_before_any_completion(tools, said):
    with pytest.raises(ValueError, match=said):
        tool_call.check_row({"tools": tools})
    with pytest.raises(ValueError, match=said):
        tool_call("", tools)
