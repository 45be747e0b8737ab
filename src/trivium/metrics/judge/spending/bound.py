"""Bound: the most tokens that a call can use, known before it is sent."""

import msgspec

from trivium.metrics.judge.models.call import Call

FRAMING = 600
"""Tokens that providers add to what is sent: roles, and the words that introduce a tool or a schema."""

_TURN = 16


def bytes_sent(call: Call) -> int:
    """UTF-8 bytes of all that a model reads. Byte-level tokenizers never make more tokens than these.

    The schema counts twice, for providers' strict forms of it are longer.
    """
    texts = (call.instructions, call.case, *call.turns)
    schema = msgspec.json.encode(call.schema)
    return sum(len(text.encode()) for text in texts) + 2 * len(schema) + _TURN * len(texts) + FRAMING
