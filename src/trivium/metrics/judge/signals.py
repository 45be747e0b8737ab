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
"""Tolerance by which a log-probability may exceed 0, because providers round."""

_TOKEN = re.compile(r'"(?:[^"\\]++|\\[\s\S])*+(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+')
"""A token of JSON. An unterminated string extends to the end, so that each character is read once."""


def token_signals(
    logprobs: Sequence[Token] | None,
    text: str,
    dimension: str,
    *,
    tokens: Literal["score", "all"],
) -> dict[str, float | None]:
    """Compute the token signals of one dimension.

    Definition: docs/definitions/judge.md#token-signals.

    They are null if the provider reports no log-probabilities, if a relevant token has none, or if the tokens
    do not spell the answer, so that its scores cannot be located.

    Args:
        logprobs: Log-probabilities of the answer's tokens.
        text: The answer.
        dimension: Key of the dimension in the answer.
        tokens: Tokens to use: those of the dimension's scores, or all of the answer.

    Returns:
        ``token_msp`` (mean probability of the tokens), ``token_pe`` (mean entropy of their alternatives,
        nats) and ``token_energy`` (mean log-sum-exp of the alternatives).
    """
    reported = logprobs or ()
    chosen = reported if tokens == "all" else _of_scores(reported, text, dimension)
    own = _all_or_nothing(chosen, lambda token: _logprob(token.logprob))
    tops = [(top, _log_sum_exp(top)) for top in _all_or_nothing(chosen, _tops)]
    return {
        "token_msp": _mean([min(1.0, math.exp(value)) for value in own]),
        "token_pe": _mean([_entropy(top, total) for top, total in tops]),
        "token_energy": _mean([total for _, total in tops]),
    }


def _of_scores(logprobs: Sequence[Token], text: str, dimension: str) -> list[Token]:
    """Return the tokens that overlap a score of the dimension; none if the tokens do not spell the text.

    Positions are counted in bytes, because a token may be part of a character.
    """
    spelled = "".join([token.token for token in logprobs])
    with_bytes = [token for token in logprobs if token.bytes is not None]
    # Ignore tokens before the answer, and end marks after it.
    if spelled.isascii() and not with_bytes:  # a byte is a character
        lengths = [len(token.token) for token in logprobs]
        start = spelled.rfind(text) if text else -1
    else:
        pieces = [_bytes(token) for token in logprobs]
        lengths = [len(piece) for piece in pieces]
        start = b"".join(pieces).rfind(text.encode()) if text else -1
    if start < 0:
        return []
    ends = list(accumulate(lengths))
    touching: set[int] = set()
    for begin, end in score_spans(text, dimension):
        first, stop = start + len(text[:begin].encode()), start + len(text[:end].encode())
        touching.update(range(bisect_right(ends, first), bisect_left(ends, stop) + 1))
    return [logprobs[index] for index in sorted(touching)]


def _bytes(token: Token) -> bytes:
    given = token.bytes
    if isinstance(given, list) and all(isinstance(each, int) and 0 <= each < 256 for each in given):
        return bytes(given)
    return token.token.encode(errors="replace")


def score_spans(text: str, dimension: str) -> list[tuple[int, int]]:
    """Locate the values of a dimension's scores in the JSON of an answer, without quotes and spaces.

    The JSON begins at the first brace after the thoughts.

    Returns:
        Start and end index of each value, in characters.
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
            # path[0] is the answer itself, which has no key; path[1] is the dimension
            if key in SCORED and path[1:2] == [dimension]:
                bare = piece.strip('" ') if piece.startswith('"') else piece
                start = found.start() + piece.find(bare)
                spans.append((start, start + len(bare)))
            is_value = False
        else:
            key = _key(piece)
    return spans


def _key(piece: str) -> str:
    if len(piece) > 1 and piece[0] == piece[-1] == '"' and piece.isprintable() and "\\" not in piece:
        return piece[1:-1]  # nothing is escaped
    try:
        return str(json.loads(piece))
    except ValueError:
        return ""  # not a valid key


def _all_or_nothing(tokens: Sequence[Token], read: Callable[[Token], T | None]) -> list[T]:
    """Read a value of each token; empty if one has none, because a mean over the rest would mislead."""
    values = [read(token) for token in tokens]
    known = [each for each in values if each is not None]
    return known if len(known) == len(values) else []


def _tops(token: Token) -> list[float] | None:
    """Log-probabilities of the alternatives, without those of probability 0."""
    tops = [_logprob(top.logprob) for top in token.top_logprobs or ()]
    values = [value for value in tops if value is not None]
    return [value for value in values if value > -math.inf] or None if len(values) == len(tops) else None


def _logprob(value: float | None) -> float | None:
    """Return a valid log-probability, at most 0 except for rounding; otherwise None."""
    return None if value is None or not value <= ROUNDING else value


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _log_sum_exp(values: Sequence[float]) -> float:
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values))


def _entropy(values: Sequence[float], total: float) -> float:
    """Entropy of the alternatives, renormalised by their log-sum-exp, nats."""
    return max(0.0, -sum(math.exp(value - total) * (value - total) for value in values))


def modal(values: Sequence[float | None]) -> float | None:
    """Most frequent value; None is an abstention. Abstention wins ties, then the smallest score."""
    counts = Counter(values)
    most = max(counts.values())
    tied = [value for value, count in counts.items() if count == most]
    numbers = [value for value in tied if value is not None]
    return None if len(numbers) < len(tied) else min(numbers)


def consistency(values: Sequence[float | None]) -> dict[str, float | None]:
    """Compute the consistency signals of the samples of one judgement; null for fewer than two samples.

    Definition: docs/definitions/judge.md#consistency.

    Args:
        values: Score of each answered sample, None for an abstention.

    Returns:
        ``consistency_modal_confidence`` (share of the most frequent value), ``consistency_score_std``
        (population standard deviation of the scores) and ``consistency_na_rate`` (share of abstentions).
    """
    numbers = [value for value in values if value is not None]
    measured = len(values) > 1
    return {
        "consistency_modal_confidence": Counter(values)[modal(values)] / len(values) if measured else None,
        "consistency_score_std": (statistics.pstdev(numbers) if numbers else 0.0) if measured else None,
        "consistency_na_rate": (len(values) - len(numbers)) / len(values) if measured else None,
    }
