"""How much a text may unpack to: JSON of two bytes a value takes fifty times its size in memory."""

MAX_VALUES = 20_000_000
"""Most values of a JSON text; about 2 GB in memory at worst. A trace of 50,000 spans has some 5 million."""

_BEFORE_A_VALUE = b"[{,"
_AT_ONCE = 2**24

TOO_MANY_VALUES = f"holds more than {MAX_VALUES:,} values, the most that are read"


def holds_too_many_values(content: bytes) -> bool:
    """Whether a JSON text has more than ``MAX_VALUES`` brackets and commas, those in its texts included.

    Every value but the first stands behind one of them, so that no text with more values passes.
    """
    if len(content) <= MAX_VALUES:
        return False
    view = memoryview(content)
    found = 0
    for start in range(0, len(content), _AT_ONCE):
        piece = bytes(view[start : start + _AT_ONCE])
        found += len(piece) - len(piece.translate(None, _BEFORE_A_VALUE))
    return found > MAX_VALUES
