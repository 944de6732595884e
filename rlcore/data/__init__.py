"""Data: files into rows, rows into prompts, and the order in which they are drawn."""

from rlcore.data.chat import (
    Supervised,
    completion_text,
    encode_prompt,
    encode_supervised,
    prompt_string,
    reply_ids,
    template_options,
    use_chat_template,
)
from rlcore.data.curricula import BySuccess, Sequential, Staged
from rlcore.data.filters import Duplicates, Sieve, describe_counts, filter_rows
from rlcore.data.layouts import columns_of, load_rows, to_rows
from rlcore.data.lazy import LazyRows
from rlcore.data.lengths import Fitted, TooLong, check_room, fit_prompt, fit_prompts
from rlcore.data.messages import for_template, text_of
from rlcore.data.order import DataOrder, ObservesScores, Order
from rlcore.data.prompt_format import Thinking, format_prompts
from rlcore.data.readers import iterate_rows, native, read_rows
from rlcore.data.rows import Message, Prompt, Row, Rows, target_of
from rlcore.data.shape import Shape
from rlcore.data.split import Split, normal_text, split_of, split_rows
from rlcore.data.writers import write_rows

__all__ = [
    "BySuccess",
    "DataOrder",
    "Duplicates",
    "Fitted",
    "LazyRows",
    "Message",
    "ObservesScores",
    "Order",
    "Prompt",
    "Row",
    "Rows",
    "Sequential",
    "Shape",
    "Sieve",
    "Split",
    "Staged",
    "Supervised",
    "Thinking",
    "TooLong",
    "check_room",
    "columns_of",
    "completion_text",
    "describe_counts",
    "encode_prompt",
    "encode_supervised",
    "filter_rows",
    "fit_prompt",
    "fit_prompts",
    "for_template",
    "format_prompts",
    "iterate_rows",
    "load_rows",
    "native",
    "normal_text",
    "prompt_string",
    "read_rows",
    "reply_ids",
    "split_of",
    "split_rows",
    "target_of",
    "template_options",
    "text_of",
    "to_rows",
    "use_chat_template",
    "write_rows",
]
