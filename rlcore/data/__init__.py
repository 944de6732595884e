"""Data: files into rows, rows into prompts, and the order in which they are drawn."""

from rlcore.data.chat import (
    RowEncoder,
    TokenRow,
    answer_text,
    check_answered,
    completion_text,
    conversation_ids,
    encode_prompt,
    encode_supervised,
    prompt_string,
    reply_ids,
    template_options,
    use_chat_template,
)
from rlcore.data.layouts import columns_of, load_rows, to_rows
from rlcore.data.lazy import LazyRows
from rlcore.data.lengths import TooLong, check_room, fit_prompt
from rlcore.data.messages import for_template, text_of
from rlcore.data.order import DataOrder, ObservesScores, Order
from rlcore.data.readers import iterate_rows, native, read_rows
from rlcore.data.rows import DrawnRows, Message, Prompt, Row, Rows, describe_counts, target_of, value_at
from rlcore.data.split import Split, normal_text, question_key, split_of, split_rows
from rlcore.data.writers import write_rows

__all__ = [
    "DataOrder",
    "DrawnRows",
    "LazyRows",
    "Message",
    "ObservesScores",
    "Order",
    "Prompt",
    "Row",
    "RowEncoder",
    "Rows",
    "Split",
    "TokenRow",
    "TooLong",
    "answer_text",
    "check_answered",
    "check_room",
    "columns_of",
    "completion_text",
    "conversation_ids",
    "describe_counts",
    "encode_prompt",
    "encode_supervised",
    "fit_prompt",
    "for_template",
    "iterate_rows",
    "load_rows",
    "native",
    "normal_text",
    "prompt_string",
    "question_key",
    "read_rows",
    "reply_ids",
    "split_of",
    "split_rows",
    "target_of",
    "template_options",
    "text_of",
    "to_rows",
    "use_chat_template",
    "value_at",
    "write_rows",
]
