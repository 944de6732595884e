"""Output with a structure: JSON found in text, by schema or by fields, and calls of tools."""

from rlcore_rewards.structure.fields import JsonFields as JsonFields
from rlcore_rewards.structure.json_text import FoundJson as FoundJson
from rlcore_rewards.structure.json_text import extract_json as extract_json
from rlcore_rewards.structure.schema import JsonSchema as JsonSchema
from rlcore_rewards.structure.tools import ToolCall as ToolCall
from rlcore_rewards.structure.tools import parse_tool_calls as parse_tool_calls
from rlcore_rewards.structure.tools import tool_call as tool_call
