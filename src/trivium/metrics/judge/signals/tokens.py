"""Token signals: how sure the model was of the tokens it wrote (spec: metrics, T2.5)."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

SCORED = frozenset({"score", "level", "verdict"})
"""Fields of an answer whose values are scores."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')

NONE: dict[str, float | None] = {"token_msp": None, "token_pe": None, "token_energy": None}


def token_signals(
    logprobs: Sequence[Mapping[str, Any]] | None, dimension: str, *, tokens: Literal["score", "all"]
) -> dict[str, float | None]:
    """The three signals of one dimension; null where the provider gave no log-probabilities.

    Args:
        logprobs: ``{token, logprob, top_logprobs: [{logprob}]}`` of each token of the answer.
        dimension: Whose tokens count.
        tokens: Those of its scores, or all of the answer.
    """
    if not logprobs:
        return dict(NONE)
    chosen = list(logprobs) if tokens == "all" else _of_scores(logprobs, dimension)
    own = [token["logprob"] for token in chosen]
    tops = [
        [top["logprob"] for top in token["top_logprobs"]] for token in chosen if token.get("top_logprobs")
    ]
    return {
        "token_msp": _mean([math.exp(value) for value in own]),
        "token_pe": _mean([_entropy(top) for top in tops]),
        "token_energy": _mean([_log_sum_exp(top) for top in tops]),
    }


def _of_scores(logprobs: Sequence[Mapping[str, Any]], dimension: str) -> list[Mapping[str, Any]]:
    """The tokens that touch a value of the dimension's scores."""
    spans = score_spans("".join(token["token"] for token in logprobs), dimension)
    chosen: list[Mapping[str, Any]] = []
    start = 0
    for token in logprobs:
        end = start + len(token["token"])
        if any(start < stop and first < end for first, stop in spans):
            chosen.append(token)
        start = end
    return chosen


def score_spans(text: str, dimension: str) -> list[tuple[int, int]]:
    """Where the values of a dimension's scores stand in the JSON of an answer, without their quotes."""
    spans: list[tuple[int, int]] = []
    path: list[str] = []
    key = ""
    is_value = False
    for found in _TOKEN.finditer(text):
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
                inner = piece.startswith('"')
                spans.append((found.start() + inner, found.end() - inner))
            is_value = False
        else:
            key = piece.strip('"')
    return spans


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _log_sum_exp(values: Sequence[float]) -> float:
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values))


def _entropy(values: Sequence[float]) -> float:
    """Entropy in nats of the renormalised alternatives."""
    total = _log_sum_exp(values)
    return max(0.0, -sum(math.exp(value - total) * (value - total) for value in values))
