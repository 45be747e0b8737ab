"""Cosine similarity of TF-IDF vectors (spec: metrics, T1.1), in closed form.

With two documents a term's smooth idf is 1 where both have it and ``ln 1.5 + 1`` where one has, so the
cosine follows from the counts alone: no vocabulary, no matrix, and each text is taken apart by itself.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from itertools import filterfalse, pairwise
from operator import mul
from typing import NamedTuple

from trivium.metrics.metric import TextMetric, metric
from trivium.metrics.text.seen import Seen
from trivium.metrics.text.stop_words import STOP_WORDS

_ALONE = (math.log(1.5) + 1) ** 2
"""Squared idf of a term that only one of the two texts has."""

_words = re.compile(r"\w\w+").findall  # what \b\w\w+\b finds: a match starts and ends at a boundary anyway

_ASCII = [chr(byte) for byte in range(128)]

# In UTF-8 an ASCII character is its own byte, and every byte of any other character is 128 or more.
_ASCII_WORDS = bytes(ord(c.lower() if c.isalnum() or c == "_" else " ") for c in _ASCII) + bytes(
    range(128, 256)
)

_is_left_out = {word.encode() for word in [*STOP_WORDS, *_ASCII]}.__contains__

Term = bytes | tuple[bytes, bytes]


class Terms(NamedTuple):
    """Words and pairs of neighbouring words of one text.

    Attributes:
        counts: How often each occurs; a pair is a tuple of its words.
        squares: Sum of the squared counts.
    """

    counts: Mapping[Term, int]
    squares: int


_REFERENCES: Seen[Terms] = Seen(room=1_000_000)  # characters; about 30 MB of counts


def words(text: str) -> list[bytes]:
    r"""Words of two or more characters, lower-cased, without stop words, as UTF-8.

    Equal to ``re.findall(r"\b\w\w+\b", text.lower())`` less the stop words. ASCII words, most of any
    European text, are found by a table of bytes, which is several times faster than a pattern.
    """
    raw = text.encode("utf-8", "surrogatepass")
    # Σ is lower-cased by what follows it, so a text that holds one must be lower-cased as a whole.
    if len(raw) > 1.2 * len(text) or "Σ" in text:
        raw = " ".join(_words(text.lower())).encode("utf-8", "surrogatepass")
        return list(filterfalse(_is_left_out, raw.split()))
    found = list(filterfalse(_is_left_out, raw.translate(_ASCII_WORDS).split()))
    if len(raw) == len(text):
        return found
    kept = []
    for word in found:
        if word.isascii():
            kept.append(word)
        else:
            kept += _parts(word)
    return kept


def _parts(word: bytes) -> list[bytes]:
    """The words in what stands between two ASCII separators: ``it’s`` holds ``it``."""
    parts = " ".join(_words(word.decode("utf-8", "surrogatepass").lower())).encode().split()
    return list(filterfalse(_is_left_out, parts))


def terms(text: str) -> Terms:
    """Counts of the words and pairs of words of a text."""
    kept = words(text)
    counts: Counter[Term] = Counter(kept)
    counts.update(pairwise(kept))
    repeated = [count for count in counts.values() if count > 1]  # most terms occur once
    return Terms(counts, len(counts) - len(repeated) + sum(map(mul, repeated, repeated)))


def cosine(ours: Terms, theirs: Terms) -> float:
    """Cosine of the TF-IDF vectors of two texts, fitted on just these two, in [0, 1].

    With a and b the counts: Σ ab / √(A·B), where A = Σ a² over shared terms + (ln 1.5 + 1)²·Σ a² over
    the others, and B alike. The sums are of whole numbers, hence exact.
    """
    shared = ours.counts.keys() & theirs.counts.keys()
    if not shared:
        return 0.0
    a = list(map(ours.counts.__getitem__, shared))
    b = list(map(theirs.counts.__getitem__, shared))
    ours_shared, theirs_shared = sum(map(mul, a, a)), sum(map(mul, b, b))
    ours_norm = ours_shared + _ALONE * (ours.squares - ours_shared)
    theirs_norm = theirs_shared + _ALONE * (theirs.squares - theirs_shared)
    product: int = sum(map(mul, a, b))
    return min(1.0, product / math.sqrt(ours_norm * theirs_norm))


@metric("cosine")
class Cosine(TextMetric):
    """Cosine of the TF-IDF vectors of output and reference, fitted on just these two.

    Equal to scikit-learn's ``TfidfVectorizer(stop_words="english", ngram_range=(1, 2))`` and
    ``cosine_similarity``. Where neither text has a word left: 1.0 when they are equal after
    ``strip()``, else 0.0.
    """

    def compare(self, output: str, reference: str) -> float:
        """The cosine, in [0, 1]."""
        theirs = _REFERENCES.get(reference)
        if theirs is None:
            theirs = terms(reference)
            _REFERENCES.keep(reference, theirs, len(reference))
        ours = terms(output)
        if not ours.counts and not theirs.counts:
            return float(output.strip() == reference.strip())
        return cosine(ours, theirs)
