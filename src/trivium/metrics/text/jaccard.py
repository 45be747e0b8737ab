"""Jaccard similarity of word sets (spec: metrics, T1.2)."""

from trivium.metrics.metric import TextMetric, metric
from trivium.metrics.text.seen import Seen

_REFERENCES: Seen[frozenset[str]] = Seen(room=1_000_000)  # characters; about 20 MB of words


@metric("jaccard")
class Jaccard(TextMetric):
    """Share of distinct words that output and reference have in common.

    Words are ``text.lower().split()``. Two empty texts are identical (1.0).
    """

    def compare(self, output: str, reference: str) -> float:
        """Shared words / all words, in [0, 1]."""
        ours = set(output.lower().split())
        theirs = _REFERENCES.get(reference)
        if theirs is None:
            theirs = frozenset(reference.lower().split())
            _REFERENCES.keep(reference, theirs, len(reference))
        shared = len(ours & theirs)
        union = len(ours) + len(theirs) - shared
        return shared / union if union else 1.0
