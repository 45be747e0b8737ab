"""Bodies: records as the JSON text that the tables hold."""

from typing import Any

import msgspec

from trivium.suites.door import clean

_encoder = msgspec.json.Encoder()


def encode(value: Any) -> str:
    """The JSON of a record.

    Text that no database can hold (a lone surrogate deep in a trace, say) is replaced as at the door
    (spec: metrics, T1).
    """
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        cleaned, _flags = clean(msgspec.to_builtins(value))
        return _encoder.encode(cleaned).decode()
