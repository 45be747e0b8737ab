"""Bodies: records as the JSON text that the tables hold."""

from typing import Any, TypeVar

import msgspec

from trivium.errors import StoreError
from trivium.suites.door import clean

T = TypeVar("T")

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


def decode(decoder: "msgspec.json.Decoder[T]", body: str, *, store: str) -> T:
    """The record that a body holds.

    Raises:
        StoreError: If it holds none: it was damaged, or written by something else.
    """
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"{store}: holds a record that cannot be read ({error}): it was damaged, or written by "
            "something else. The other records are as they were."
        ) from error
