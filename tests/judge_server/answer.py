"""The model's output as text, and as tokens with their odds."""

import math
import random
import re
from collections.abc import Mapping
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


def tokens(
    output: Any, *, top: int, odds: Mapping[str, Mapping[str, float]], seed: int | str
) -> list[dict[str, Any]]:
    """The tokens of the output with their log-probabilities and ``top`` alternatives, surest first.

    Numbers are tokens of their own, up to three digits each, as in the tokenizers of the providers.
    A token without odds given for it is sure to between 0.5 and 0.99, by the seed.
    """
    draw = random.Random(seed)
    text = written(output)
    starts = (
        {start: odds[path] for path, start in _starts(output)} if odds and not isinstance(output, str) else {}
    )
    found = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        chances = starts.get(match.start()) or _chances(token, draw)
        ranked = sorted(chances.items(), key=lambda item: -item[1])[:top]
        found.append(
            {
                **_logprob(token, chances.get(token, 1e-9)),
                "top_logprobs": [_logprob(*each) for each in ranked],
            }
        )
    return found


def _chances(token: str, draw: random.Random) -> dict[str, float]:
    sure = draw.uniform(0.5, 0.99)
    if not token.isdecimal():
        return {token: sure, token + "s": 1 - sure}
    near = [str(int(token) + step) for step in (1, -1, 2) if int(token) + step >= 0]
    return {token: sure, **{other: (1 - sure) / len(near) for other in near}}


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
