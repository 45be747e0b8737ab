"""Hashes records, so that equal suites have equal digests on every machine."""

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec

from trivium.suites.case import Case

_ONE_OBJECT = frozenset({type(None), bool, tuple, dict, type(msgspec.NODEFAULT)})
"""Types of defaults that msgspec always omits, because equal values are the same object or empty."""

_LEAVES = frozenset({str, int, float, bool, type(None)})


def digest_of(records: Iterable[msgspec.Struct]) -> str:
    """Hash records in order to 32 hexadecimal digits; fields that equal their defaults are ignored."""
    digest = blake2b(digest_size=16)
    for record in records:
        # Most cases have no field that equals a default but is not omitted by msgspec, which is faster.
        if isinstance(record, Case) and not _spells_out(record):
            digest.update(msgspec.json.encode(record, order="sorted"))
        else:
            digest.update(msgspec.json.encode(_plain(record), order="deterministic"))
        digest.update(b"\n")
    return digest.hexdigest()


def _spells_out(record: msgspec.Struct) -> bool:
    """Whether a record has a field that equals its default and that msgspec would not omit."""
    for field, default in _not_omitted(type(record)):
        held = getattr(record, field)
        if held is not default and held == default:
            return True
    return False


def _plain(value: Any) -> Any:
    """Convert records to mappings without defaults; msgspec omits only defaults that are the same object."""
    if isinstance(value, msgspec.Struct):
        made = {}
        for field, name, default in _fields(type(value)):
            held = getattr(value, field)
            if held is not default and held != default:
                made[name] = held if type(held) in _LEAVES else _plain(held)
        return made
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and any(isinstance(item, msgspec.Struct) for item in value.values()):
        return {key: _plain(item) for key, item in value.items()}
    return value


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return field name, encoded key and default of each field."""
    return tuple(
        (
            field.name,
            field.encode_name,
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(kind)
    )


@cache
def _not_omitted(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields, with defaults, whose default is another object after decoding from JSON."""
    return tuple((field, default) for field, _, default in _fields(kind) if type(default) not in _ONE_OBJECT)
