"""Path agreement: how alike the ways through the tools are that repeats of a case took (T3.14)."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from trivium.metrics.graph.calls.sequences import lcs_length
from trivium.metrics.score import Score

NAME = "path_agreement"


def path_agreement(sequences: Sequence[Sequence[str]]) -> Score:
    """Mean over pairs of attempts of 2 · LCS / (length + length) of their tool sequences.

    A figure of a case, not of an attempt (spec: metrics, T3.14). Two attempts without calls agree.

    Args:
        sequences: Tools called in each attempt, in order (``calls.counted.tool_sequence``).

    Returns:
        A score in [0, 1], skipped for fewer than two attempts; ``detail`` has the number of attempts and
        of distinct paths.
    """
    if len(sequences) < 2:
        return Score(name=NAME, tier="trace", status="skipped", reason="fewer than two attempts have a trace")
    paths = Counter(tuple(sequence) for sequence in sequences)
    total = sum(count * (count - 1) / 2 for count in paths.values())  # pairs that took the same path
    for (first, once), (second, again) in combinations(paths.items(), 2):
        total += once * again * 2 * lcs_length(first, second) / (len(first) + len(second))
    pairs = len(sequences) * (len(sequences) - 1) / 2
    return Score(
        name=NAME,
        tier="trace",
        value=min(1.0, total / pairs),
        detail={"attempts": len(sequences), "distinct_paths": len(paths)},
    )
