import math
from functools import partial

import pytest

from rlcore.testing import conform
from rlcore.testing.laws.rewards import HOSTILE
from rlcore_rewards.form import tagged_form
from rlcore_rewards.lengths import length_penalty, overlong_penalty, repetition_penalty
from rlcore_rewards.structure import JsonFields, JsonSchema, tool_call
from rlcore_rewards.text import exact_match, token_f1

BLOCKS = ("<tool_call>", "</tool_call>", "<tool_call></tool_call>", "<answer>", "</answer>", "</answer><answer>")
VALUES = (
    '{"a": ' + "9" * 3000 + "}",
    "{}",
    "[]",
    "[[]]",
    '{"a": 1e999}',
    '{"a": ' + "9" * 299 + "}",
    '{"a": "\\ud800"}',
    '{"a": {"a": {}}}',
)
TEXTS = (
    *HOSTILE,
    *(block * 300 for block in BLOCKS),
    *VALUES,
    *(f"<tool_call>{value}</tool_call>" for value in VALUES),
    '<tool_call>{"name": "a", "arguments": "' + "[" * 5000 + '"}</tool_call>',
    "```json\n" * 300,
)
ANY = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
LARGE = {
    "type": "object",
    "properties": {"a": {"type": "number", "multipleOf": 1e-20, "minimum": 1}},
    "required": ["a"],
}
REWARDS = {
    "json_schema": partial(JsonSchema(), schema=LARGE),
    "json_fields": partial(JsonFields(sums={"b": "a"}), target={"a": 7, "b": 7}),
    "tool_call": partial(tool_call, tools=[{"name": "a", "parameters": ANY}]),
    "tool_call in json": partial(tool_call, tools=[{"name": "a", "parameters": ANY}], form="json"),
    "exact_match": partial(exact_match, target="7", tag="answer"),
    "token_f1": partial(token_f1, target="7", tag="answer"),
}


@pytest.mark.parametrize("name", REWARDS)
def test_whatever_a_policy_writes_gets_a_score(name):
    for text in TEXTS:
        graded = REWARDS[name](text)
        assert graded["score"] == 0.0, text[:60]
        assert all(math.isfinite(value) for part, value in graded.items() if part != "extracted")


test_exact_match_keeps_the_contract = conform("reward", exact_match)
test_token_f1_keeps_the_contract = conform("reward", token_f1)
test_tagged_form_keeps_the_contract = conform("reward", tagged_form)
test_length_penalty_keeps_the_contract = conform("reward", length_penalty)
test_overlong_penalty_keeps_the_contract = conform("reward", overlong_penalty)
test_repetition_penalty_keeps_the_contract = conform("reward", repetition_penalty)
