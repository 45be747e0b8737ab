"""Computes confidence signals of a judgement: token log-probabilities and self-consistency."""

import json
import math
import re
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Literal, TypeVar

from trivium.metrics.judge.client.request import Token
from trivium.metrics.judge.prompts.json_extract import thoughts

T = TypeVar("T")

SCORED = frozenset({"score", "level", "verdict", "covered"})
"""Fields of an answer whose values are scores."""

ROUNDING = 1e-3
"""By so much a log-probability may lie above 0: providers round."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\[\s\S])*+(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+')
"""A text that does not end goes to the end of the answer, so that each character is read once."""

NO_TOKEN_SIGNALS: dict[str, float | None] = {"token_msp": None, "token_pe": None, "token_energy": None}


def token_signals(
    logprobs: Sequence[Token] | None,
    text: str,
    dimension: str,
    *,
    tokens: Literal["score", "all"],
) -> dict[str, float | None]:
    """The three signals of one dimension.

    They are null where the provider gave no log-probabilities, where a token that counts has none, and where
    the tokens do not spell the answer, so that nobody can say which of them are its scores.

    Args:
        logprobs: Of each token of the answer.
        text: The answer.
        dimension: Whose tokens count.
        tokens: Those of its scores, or all of the answer.
    """
    if not logprobs:
        return dict(NO_TOKEN_SIGNALS)
    chosen = list(logprobs) if tokens == "all" else _of_scores(logprobs, text, dimension)
    own = _all_or_nothing(chosen, _own)
    tops = _all_or_nothing(chosen, _tops)
    return {
        "token_msp": _mean([min(1.0, math.exp(value)) for value in own]),
        "token_pe": _mean([_entropy(top) for top in tops]),
        "token_energy": _mean([_log_sum_exp(top) for top in tops]),
    }


def _of_scores(logprobs: Sequence[Token], text: str, dimension: str) -> list[Token]:
    """The tokens that touch a value of the dimension's scores; none where they do not spell the text.

    Places are counted in bytes: a token may hold a part of a character.
    """
    pieces = [_bytes(token) for token in logprobs]
    # What a model wrote before its answer, and marks of the end after it, are no part of the answer.
    start = b"".join(pieces).rfind(text.encode()) if text else -1
    if start < 0:
        return []
    spans = [
        (start + len(text[:first].encode()), start + len(text[:stop].encode()))
        for first, stop in score_spans(text, dimension)
    ]
    ends = list(accumulate(map(len, pieces)))
    touching: set[int] = set()
    for first, stop in spans:
        touching.update(range(bisect_right(ends, first), bisect_left(ends, stop) + 1))
    return [logprobs[index] for index in sorted(touching)]


def _bytes(token: Token) -> bytes:
    given = token.bytes
    if isinstance(given, list) and all(isinstance(each, int) and 0 <= each < 256 for each in given):
        return bytes(given)
    return token.token.encode(errors="replace")


def score_spans(text: str, dimension: str) -> list[tuple[int, int]]:
    """Where the values of a dimension's scores stand in the JSON of an answer, without quotes and spaces.

    The JSON begins at the first brace after thoughts; whatever a model says before that is none of it.
    """
    spans: list[tuple[int, int]] = []
    path: list[str] = []
    key = ""
    is_value = False
    for found in _TOKEN.finditer(text, max(0, text.find("{", thoughts(text)))):
        piece = found.group()
        if piece in "{[":
            path.append(key)
            key, is_value = "", False
        elif piece in "}]":
            if path:
                path.pop()
            is_value = False
        elif piece == ":":
            is_value = True
        elif piece == ",":
            is_value = False
        elif is_value:
            # path[0] is the answer itself, which has no name, path[1] the dimension
            if key in SCORED and path[1:2] == [dimension]:
                bare = piece.strip('" ') if piece.startswith('"') else piece
                start = found.start() + piece.find(bare)
                spans.append((start, start + len(bare)))
            is_value = False
        else:
            key = _key(piece)
    return spans


def _key(piece: str) -> str:
    try:
        return str(json.loads(piece))
    except ValueError:
        return ""  # no name of a field is written like that


def _all_or_nothing(tokens: Sequence[Token], read: Callable[[Token], T | None]) -> list[T]:
    """What is read of each token; nothing where one lacks it, for a mean over the rest would mislead."""
    found = [read(token) for token in tokens]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def _own(token: Token) -> float | None:
    return _logprob(token.logprob)


def _tops(token: Token) -> list[float] | None:
    """Log-probabilities of the alternatives; one of probability 0 adds nothing."""
    tops = [_logprob(top.logprob) for top in token.top_logprobs or ()]
    values = [value for value in tops if value is not None]
    return [value for value in values if value > -math.inf] or None if len(values) == len(tops) else None


def _logprob(value: float | None) -> float | None:
    """A log-probability: a number at most 0, but for rounding."""
    return None if value is None or not value <= ROUNDING else value


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _log_sum_exp(values: Sequence[float]) -> float:
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values))


def _entropy(values: Sequence[float]) -> float:
    """Entropy in nats of the renormalised alternatives."""
    total = _log_sum_exp(values)
    return max(0.0, -sum(math.exp(value - total) * (value - total) for value in values))


NO_CONSISTENCY: dict[str, float | None] = {
    "consistency_modal_confidence": None,
    "consistency_score_std": None,
    "consistency_na_rate": None,
}


def modal(values: Sequence[float | None]) -> float | None:
    """The most frequent value; None is an abstention. A tie goes to abstention, then to the smaller score."""
    counts = Counter(values)
    most = max(counts.values())
    tied = [value for value, count in counts.items() if count == most]
    numbers = [value for value in tied if value is not None]
    return None if len(numbers) < len(tied) else min(numbers)


def consistency(values: Sequence[float | None]) -> dict[str, float | None]:
    """The three signals of the samples of one judgement.

    Args:
        values: The score of each sample that came, None where it abstained. Of fewer than two nothing can be
            told, and the signals are null: one that is left of several agrees with nobody.
    """
    if len(values) < 2:
        return dict(NO_CONSISTENCY)
    numbers = [value for value in values if value is not None]
    return {
        "consistency_modal_confidence": Counter(values)[modal(values)] / len(values),
        "consistency_score_std": statistics.pstdev(numbers) if len(numbers) > 1 else 0.0,
        "consistency_na_rate": (len(values) - len(numbers)) / len(values),
    }
