"""The model's output as text, and as tokens with their odds."""

import math
import random
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

_TOKEN = re.compile(r"\d{1,3}| ?[^\W\d_]{1,8}|\s+|[^\w\s]{1,2}|.", re.DOTALL)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says, where more is to be said than the bare value."""

    output: Any
    """A JSON value for the structured output, or a text."""
    odds: Mapping[str, Mapping[str, float]] = {}
    """Probabilities of the tokens that may begin a scalar, by its path: ``clarity.score``, ``claims.0``."""
    usage: tuple[int, int] | None = None
    """Tokens read and written; none for a fourth of the characters."""


def written(output: Any) -> str:
    """The output as the model writes it."""
    return output if isinstance(output, str) else written_json(output)


def tokens(output: Any, *, top: int, odds: Mapping[str, Mapping[str, float]], seed: str) -> list[msgspec.Raw]:
    """The tokens of the output with their log-probabilities and ``top`` alternatives, surest first.

    Numbers are tokens of their own, up to three digits each, as in the tokenizers of the providers.
    A token without odds given for it is sure to between 0.5 and 0.99, by the seed.
    """
    text = written(output)
    starts = {start: odds[path] for path, start in _starts(output) if path in odds} if odds else {}
    found = list(_TOKEN.finditer(text))
    draws = random.Random(seed).randbytes(len(found))
    return [
        _record(match.group(), tuple(starts[match.start()].items()), top)
        if match.start() in starts
        else _usual(match.group(), 0.5 + draw % 50 / 100, top)
        for match, draw in zip(found, draws, strict=True)
    ]


@lru_cache(maxsize=100_000)  # 2,000 answers with log-probabilities are mostly the same tokens again
def _usual(token: str, sure: float, top: int) -> msgspec.Raw:
    others = [token + "s"]
    if token.isdecimal():
        others = [str(int(token) + step) for step in (1, -1, 2) if int(token) + step >= 0]
    return _record(token, ((token, sure), *((other, (1 - sure) / len(others)) for other in others)), top)


def _record(token: str, chances: tuple[tuple[str, float], ...], top: int) -> msgspec.Raw:
    ranked = sorted(chances, key=lambda item: -item[1])[:top]
    own = dict(chances).get(token, 1e-9)
    record = {**_logprob(token, own), "top_logprobs": [_logprob(*each) for each in ranked]}
    return msgspec.Raw(msgspec.json.encode(record))


def _logprob(token: str, chance: float) -> dict[str, Any]:
    return {"token": token, "logprob": math.log(chance), "bytes": list(token.encode())}


def _starts(node: Any, path: str = "", start: int = 0) -> list[tuple[str, int]]:
    """Where each scalar begins in the text of a value, inside the quotes for a string."""
    if isinstance(node, Mapping):
        inner = [(str(key), len(written_json(key)) + 1, value) for key, value in node.items()]
    elif isinstance(node, list):
        inner = [(str(index), 0, value) for index, value in enumerate(node)]
    else:
        return [(path, start + isinstance(node, str))]
    found, place = [], start + 1
    for name, skipped, value in inner:
        place += skipped
        found += _starts(value, f"{path}.{name}" if path else name, place)
        place += len(written_json(value)) + 1
    return found


def written_json(value: Any) -> str:
    """A JSON value in the shortest form."""
    return msgspec.json.encode(value).decode()
