"""TOML, written: Python reads it and does not write it."""

import json
from collections.abc import Mapping
from typing import Any

from trivium.errors import Problem, SuiteError


def toml(raw: Mapping[str, Any], *, source: str) -> str:
    """A mapping as TOML, each key on its own line and what is below it inline.

    Raises:
        SuiteError: About ``source``, if a value is null, which TOML cannot say.
    """
    try:
        return "".join(f"{_text(key)} = {_value(value, key)}\n" for key, value in raw.items())
    except _Null as null:
        found = Problem(str(null), "is null, which TOML cannot say: save as .yaml or .json")
        raise SuiteError(source, found) from null


class _Null(Exception):
    """A null was found at the place that is its text."""


def _value(value: Any, where: str) -> str:
    match value:
        case str():
            return _text(value)
        case Mapping():
            pairs = [f"{_text(key)} = {_value(item, f'{where}.{key}')}" for key, item in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            items = [_value(item, f"{where}[{index}]") for index, item in enumerate(value)]
            return f"[{', '.join(items)}]"
        case None:
            raise _Null(where)
        case _:
            return json.dumps(value)


def _text(value: str) -> str:
    # JSON's escapes are TOML's too, but TOML wants DEL escaped as well.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
