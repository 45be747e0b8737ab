"""Bound: the most tokens that a call can read, known before it is sent.

An answer says how many tokens its whole request had, so what all cases share (instructions, schema, what the
provider adds) has no more than the fewest of them. Of the rest, every byte counts as a token, for byte-level
tokenizers never make more. So the bound holds for texts of any kind, and is tight for short ones from the
first answer on.
"""

from hashlib import blake2b

import msgspec

from trivium.metrics.judge.models.call import Call

FRAMING = 600
"""Tokens that providers add to what is sent: roles, and the words that introduce a tool or a schema."""

TURN = 16
"""Tokens that they add to each message."""

SAFETY = 1.25
"""On what an answer told, for a router may have another model answer, whose tokenizer is another."""

FEWEST = 1 / 8
"""Tokens a byte of instructions; a provider that tells fewer leaves some out of its count."""


class ReadBound:
    """The most tokens that calls can read, tighter with every answer.

    Tokens are taken to be the same for the same text. A provider that counts more than the bound raises it.
    """

    def __init__(self) -> None:
        self._shared: dict[bytes, int] = {}
        self._ratio = 1.0

    def most(self, call: Call) -> int:
        """The most tokens that a call can read."""
        own = _own_bytes(call)
        known = self._shared.get(_shared_key(call))
        shared = _shared_bytes(call)
        if known is not None:
            instructions = len(call.instructions.encode())
            shared = min(shared, int(SAFETY * max(known, FEWEST * instructions)) + 1)
        return int((shared + own) * self._ratio) + 1

    def learn(self, call: Call, input_tokens: int, *, most: int) -> None:
        """Take note of what an answer tells.

        Args:
            call: That was answered.
            input_tokens: That it read.
            most: What it was expected to read at most.
        """
        key = _shared_key(call)
        self._shared[key] = min(input_tokens, self._shared.get(key, input_tokens))
        self._ratio = max(self._ratio, self._ratio * input_tokens / most)


def _shared_key(call: Call) -> bytes:
    """Digest of what many calls share."""
    shared = [call.provider, call.address, call.model, call.instructions, call.schema, call.output, call.body]
    return blake2b(msgspec.json.encode(shared), digest_size=16).digest()


def _shared_bytes(call: Call) -> int:
    """UTF-8 bytes of what many calls share; a schema counts twice, for providers' strict forms are longer."""
    return len(call.instructions.encode()) + 2 * len(msgspec.json.encode(call.schema)) + FRAMING


def _own_bytes(call: Call) -> int:
    """UTF-8 bytes of what a call alone has."""
    texts = (call.case, *call.turns)
    return sum(len(text.encode()) for text in texts) + TURN * (len(texts) + 1)
