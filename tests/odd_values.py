"""Values of types that JSON does not have, or that behave as no value should."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import types
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pydantic


class Text(str):
    """A text of a framework, as smolagents' AgentText or the texts of bs4 and lxml are."""

    __slots__ = ()


class Number(float):
    pass


class Whole(int):
    pass


class Colour(enum.Enum):
    RED = Text("red")


class Named(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Record:
    value: object


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    value: object


Pair = collections.namedtuple("Pair", "left right")


class NoText:
    """Neither text can be had; nothing that it raises may reach the program."""

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


class Leaves:
    def __repr__(self):
        raise SystemExit(3)


class NoTextOfATextKind(str):
    __slots__ = ()

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


class Proxy:
    """Says that it is a text."""

    @property
    def __class__(self):
        return str


class Broken:
    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __getattr__(self, name):
        raise RuntimeError("no attribute")


class Dumps:
    def model_dump(self, mode):
        return self


def loop():
    made = [1]
    made.append(made)
    return made


def deep():
    made = []
    for _ in range(50_000):
        made = [made]
    return made


PLAIN = {
    "text": (Text("a"), "a"),
    "text without repr": (NoTextOfATextKind("a"), "a"),
    "number": (Number(1.5), 1.5),
    "whole": (Whole(3), 3),
    "numpy float": (np.float64(0.5), 0.5),
    "numpy float 32": (np.float32(0.5), 0.5),
    "numpy long": (np.longdouble(0.5), 0.5),
    "numpy whole": (np.int64(3), 3),
    "numpy truth": (np.bool_(True), True),
    "numpy text": (np.str_("a"), "a"),
    "numpy array": (np.arange(3), [0, 1, 2]),
    "nested": ({"a": [Text("b"), (np.float64(1.0), Number(2.0))]}, {"a": ["b", [1.0, 2.0]]}),
    "keys": ({Text("a"): 1, 2: 3}, {"a": 1, "2": 3}),
    "pair": (Pair(1, Text("x")), [1, "x"]),
    "enum": (Colour.RED, "red"),
    "named": (Named.A, "a"),
    "fraction": (fractions.Fraction(1, 2), 0.5),
    "decimal": (decimal.Decimal("1.5"), "1.5"),
    "day": (datetime.date(2026, 1, 2), "2026-01-02"),
    "timestamp": (pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00"),
    "dataclass": (Record(Text("x")), {"value": "x"}),
    "model": (Model(value=Text("x")), {"value": "x"}),
    "half": ({"a\ud800": "b\udc00"}, {"a\ufffd": "b\ufffd"}),
    "large": (2**70, 2**70),
}
"""Values that have a plain form, and that form."""

AS_TEXT = {
    "series": pd.Series([1]),
    "frame": pd.DataFrame({"a": [1]}),
    "missing": pd.NA,
    "large array": np.zeros(100_000),
    "complex": 1j,
    "object": object(),
    "generator": (each for each in ()),
    "function": len,
    "mock": MagicMock(),
    "view": types.MappingProxyType({"a": 1}),
    "queue": collections.deque([1]),
    "no text": NoText(),
    "leaves": Leaves(),
    "proxy": Proxy(),
    "broken": Broken(),
    "dumps itself": Dumps(),
    "loop": loop(),
    "deep": deep(),
    "in a record": Record(NoText()),
    "key": {NoText(): 1},
    "in a model": Model(value=object()),
}
"""Values for which, or for a part of which, a text stands."""

OTHERS = {
    "bytes": b"\xff",
    "not a number": float("nan"),
    "set": {Text("a")},
    "not a time": pd.NaT,
    "very large": 10**5000,
    "numpy day": np.datetime64("2026-01-02"),
}

ODD = {name: value for name, (value, _) in PLAIN.items()} | AS_TEXT | OTHERS
