"""Allowance: how long an answer may be, which decides what a request can cost at most."""

from collections.abc import Sequence

from trivium.suites.rubrics.rubric import Dimension

_FRAME = 500
_DIMENSION = 1000
_CRITERION = 250
_CLAIMS = 4000
"""Tokens: of a whole answer, of a dimension's reason and quotes, of a criterion explained, of claims checked
one by one. About three times what models write."""

THINKING = 16_000
"""Tokens for a model that thinks before it answers; providers count its thoughts as output."""

MOST = 8_000
MOST_WITH_THOUGHTS = 20_000
"""Beyond these, models refuse the request, or their clients want to stream the answer."""


def answer_tokens(dimensions: Sequence[Dimension], *, thinks: bool) -> int:
    """Most tokens of an answer that judges some dimensions.

    A tight bound lets a small budget go further, for every request in flight is held at its bound; one that
    cuts answers short would pay twice for each.

    Args:
        dimensions: Judged in one request.
        thinks: Whether the model reasons before it answers.
    """
    needed = _FRAME + sum(
        _DIMENSION + _CRITERION * len(each.criteria) + _CLAIMS * each.claims for each in dimensions
    )
    return min(needed + THINKING, MOST_WITH_THOUGHTS) if thinks else min(needed, MOST)
