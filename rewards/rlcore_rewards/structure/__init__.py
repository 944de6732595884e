"""Output with a structure: JSON found in text, by schema or by fields, and calls of tools."""

from rlcore_rewards.structure.fields import JsonFields
from rlcore_rewards.structure.json_text import FoundJson, extract_json
from rlcore_rewards.structure.schema import JsonSchema, ToolCall, parse_tool_calls, tool_call

__all__ = ["FoundJson", "JsonFields", "JsonSchema", "ToolCall", "extract_json", "parse_tool_calls", "tool_call"]
