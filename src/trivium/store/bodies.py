"""Bodies: records as the JSON text that the tables hold."""

from typing import Any, TypeVar

import msgspec

from trivium.errors import StoreError
from trivium.jsonable import plain
from trivium.suites.door import clean

T = TypeVar("T")

_encoder = msgspec.json.Encoder(enc_hook=plain)


def encode(value: Any) -> str:
    """The JSON of a record, whatever values are in it: one of them never costs the record.

    Text that no database can hold (a lone surrogate deep in a trace, say) is replaced as at the door
    (spec: metrics, T1); a value that JSON does not have becomes a plain one, or a text.
    """
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        cleaned, _flags = clean(msgspec.to_builtins(value, enc_hook=plain))
        return _encoder.encode(cleaned).decode()


def decode(decoder: "msgspec.json.Decoder[T]", body: str, *, store: str) -> T:
    """The record that a body holds.

    Raises:
        StoreError: If it holds none: it was damaged, or written by something else.
    """
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:  # or it is no text at all
        raise StoreError(
            f"{store}: holds a record that cannot be read ({error}): it was damaged, or written by "
            "something else. The other records are as they were."
        ) from error
