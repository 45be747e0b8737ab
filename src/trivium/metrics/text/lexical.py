"""Compares texts by their words and characters: cosine, Jaccard, ROUGE-L, BLEU, chrF and edit distance.

With two documents, the smooth idf of a term is 1 if both have it and ``ln 1.5 + 1`` if one has it. The
cosine therefore follows from the counts of each text alone, without a vocabulary or a matrix.

The list of stop words is ``ENGLISH_STOP_WORDS`` of scikit-learn (BSD-3-Clause, copyright the scikit-learn
developers), which took it from the Glasgow Information Retrieval Group.

ROUGE-L, BLEU, chrF and edit distance need the extra ``text``. Without it, a suite that names one of them is
rejected with the command that installs the extra.
"""

import math
import re
import unicodedata
from abc import abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from functools import cache
from importlib import import_module
from itertools import filterfalse, pairwise
from operator import mul
from threading import Lock
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from trivium.errors import MissingExtra
from trivium.metrics.metric import Skip, TextMetric
from trivium.metrics.registry import metric
from trivium.metrics.text.matching import spaced

STOP_WORDS = frozenset(
    """
    a about above across after afterwards again against all almost alone along already also although
    always am among amongst amoungst amount an and another any anyhow anyone anything anyway anywhere
    are around as at back be became because become becomes becoming been before beforehand behind being
    below beside besides between beyond bill both bottom but by call can cannot cant co con could
    couldnt cry de describe detail do done down due during each eg eight either eleven else elsewhere
    empty enough etc even ever every everyone everything everywhere except few fifteen fifty fill find
    fire first five for former formerly forty found four from front full further get give go had has
    hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his how
    however hundred i ie if in inc indeed interest into is it its itself keep last latter latterly least
    less ltd made many may me meanwhile might mill mine more moreover most mostly move much must my
    myself name namely neither never nevertheless next nine no nobody none noone nor not nothing now
    nowhere of off often on once one only onto or other others otherwise our ours ourselves out over own
    part per perhaps please put rather re same see seem seemed seeming seems serious several she should
    show side since sincere six sixty so some somehow someone something sometime sometimes somewhere
    still such system take ten than that the their them themselves then thence there thereafter thereby
    therefore therein thereupon these they thick thin third this those though three through throughout
    thru thus to together too top toward towards twelve twenty two un under until up upon us very via
    was we well were what whatever when whence whenever where whereafter whereas whereby wherein
    whereupon wherever whether which while whither who whoever whole whom whose why will with within
    without would yet you your yours yourself yourselves
    """.split()  # noqa: SIM905 - one word a line would be three screens
)


V = TypeVar("V")


class SizedCache(Generic[V]):
    """A thread-safe LRU cache bounded by the total size of its values.

    Values larger than an eighth of the capacity are not cached, so that one value cannot evict all others.

    Args:
        capacity: Largest total size, in the unit of the sizes passed to :meth:`put`.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> V | None:
        """The cached value of a key, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Cache a value, and evict the least recently used ones if the capacity is exceeded."""
        if size > self._capacity // 8:
            return
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (value, size)
            self._size += size
            while self._size > self._capacity:
                _, (_, freed) = self._entries.popitem(last=False)
                self._size -= freed

    def __len__(self) -> int:
        return len(self._entries)


_ALONE = (math.log(1.5) + 1) ** 2
"""Squared idf of a term that occurs in only one of the two texts."""

_words = re.compile(r"\w\w+").findall  # equals \b\w\w+\b: a greedy match starts and ends at a boundary

_ASCII = [chr(byte) for byte in range(128)]

# In UTF-8 an ASCII character is one byte below 128; all bytes of any other character are 128 or more.
_ASCII_WORDS = bytes(ord(c.lower() if c.isalnum() or c == "_" else " ") for c in _ASCII) + bytes(
    range(128, 256)
)

_is_left_out = {word.encode() for word in [*STOP_WORDS, *_ASCII]}.__contains__

Term = bytes | tuple[bytes, bytes]


class Terms(NamedTuple):
    """Words and word pairs (bigrams) of one text.

    Attributes:
        counts: Count of each term; a pair is a tuple of two words.
        squares: Sum of the squared counts.
    """

    counts: Mapping[Term, int]
    squares: int


_ENTRY = 200
"""What a cached reference counts besides its characters, so that at most 5,000 are cached: of short ones, a
million characters would take hundreds of megabytes."""

# Capacity in characters; about 30 MB of counts.
_REFERENCES: SizedCache[Terms] = SizedCache(capacity=1_000_000)


def words(text: str) -> list[bytes]:
    r"""Words of two or more characters, lower-cased, without stop words, as UTF-8.

    Equals ``re.findall(r"\b\w\w+\b", text.lower())`` without the stop words. ASCII words are found with a
    byte table, about twice as fast as with a regular expression.
    """
    raw = text.encode("utf-8", "surrogatepass")
    # The lower case of Σ depends on what follows it, so a text with Σ must be lower-cased as a whole.
    if len(raw) > 1.2 * len(text) or "Σ" in text:
        raw = " ".join(_words(text.lower())).encode("utf-8", "surrogatepass")
        return list(filterfalse(_is_left_out, raw.split()))
    found = list(filterfalse(_is_left_out, raw.translate(_ASCII_WORDS).split()))
    if len(raw) == len(text):
        return found
    result = []
    for word in found:
        if word.isascii():
            result.append(word)
        else:
            result += _parts(word)
    return result


def _parts(word: bytes) -> list[bytes]:
    """Split a chunk between two ASCII separators into words: ``it’s`` contains ``it``."""
    parts = " ".join(_words(word.decode("utf-8", "surrogatepass").lower())).encode().split()
    return list(filterfalse(_is_left_out, parts))


def terms(text: str) -> Terms:
    """Count the words and word pairs of a text."""
    found = words(text)
    counts: Counter[Term] = Counter(found)
    counts.update(pairwise(found))
    repeated = [count for count in counts.values() if count > 1]  # most terms occur once
    return Terms(counts, len(counts) - len(repeated) + sum(map(mul, repeated, repeated)))


def cosine(ours: Terms, theirs: Terms) -> float:
    """Return the cosine of the TF-IDF vectors of two texts, fitted on just these two, in [0, 1].

    With counts a and b it is Σ ab / √(A·B), where A is Σ a² over shared terms + (ln 1.5 + 1)²·Σ a² over the
    others, and B likewise. The sums are exact, because counts are integers.
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

    Definition: docs/definitions/text.md#cosine.

    Equals scikit-learn's ``TfidfVectorizer(stop_words="english", ngram_range=(1, 2))`` with
    ``cosine_similarity``. If neither text has a word besides stop words, it is 1.0 when they are equal
    after ``strip()``, else 0.0.
    """

    def compare(self, output: str, reference: str) -> float:
        """The cosine, in [0, 1]."""
        theirs = _REFERENCES.get(reference)
        if theirs is None:
            theirs = terms(reference)
            _REFERENCES.put(reference, theirs, _ENTRY + len(reference))
        ours = terms(output)
        if not ours.counts and not theirs.counts:
            return float(output.strip() == reference.strip())
        return cosine(ours, theirs)


@metric("jaccard")
class Jaccard(TextMetric):
    """Share of distinct words that output and reference have in common.

    Definition: docs/definitions/text.md#jaccard.

    Words are ``text.lower().split()``. Two empty texts are identical (1.0).
    """

    def compare(self, output: str, reference: str) -> float:
        """Shared words / all words, in [0, 1]."""
        ours, theirs = set(output.lower().split()), set(reference.lower().split())
        shared = len(ours & theirs)
        union = len(ours) + len(theirs) - shared
        return shared / union if union else 1.0


LONGEST = 200_000
"""Longest text that is compared, in characters: the time grows with the product of both lengths, so that one
huge output could stall a run for hours."""


@cache
def _library(module: str, metric_name: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra("text", metric_name) from error


def _bounded(*texts: str) -> None:
    longest = max(map(len, texts))
    if longest > LONGEST:
        raise Skip(f"a text has {longest:,} characters; at most {LONGEST:,} are compared")


class LibraryMetric(TextMetric):
    """A metric that uses a library of the extra ``text``, on any script.

    Texts are compared in Unicode's normal form C. Texts that are equal but for white space score 1, also if a
    library finds nothing to compare in them (empty, punctuation, emoji).
    """

    libraries: ClassVar[tuple[str, ...]] = ()

    def check(self) -> None:
        """Check that the library is installed."""
        for library in self.libraries:
            _library(library, self.name)

    def compare(self, output: str, reference: str) -> float:
        """Similarity of two texts, in [0, 1]; 1 for equal ones."""
        self.check()
        _bounded(output, reference)
        output, reference = (unicodedata.normalize("NFC", each) for each in (output, reference))
        return 1.0 if output.split() == reference.split() else self.similarity(output, reference)

    @abstractmethod
    def similarity(self, output: str, reference: str) -> float:
        """Similarity of two different texts in normal form C, in [0, 1]."""


@metric("rouge_l")
class RougeL(LibraryMetric):
    """ROUGE-L F1 (Lin 2004): longest common subsequence of words, without stemming.

    Words are those of rouge-score (runs of a-z and 0-9) if no text has other letters. Otherwise they are runs
    of letters, marks and digits of any script. In scripts without spaces between words (Chinese, Japanese,
    Thai, Lao, Khmer, Burmese), each letter is a word.

    Definition: docs/definitions/text.md#rouge-l.
    """

    libraries: ClassVar = ("rouge_score.tokenizers", "rapidfuzz.distance")

    def similarity(self, output: str, reference: str) -> float:
        """F1 of the longest common subsequence; 0 if a text has no word."""
        # Equals rouge-score's LCS, whose pure Python table takes minutes for long texts.
        common = _library("rapidfuzz.distance", self.name).LCSseq.similarity
        if _only_ascii_letters(output) and _only_ascii_letters(reference):
            tokenizer = _library("rouge_score.tokenizers", self.name).DefaultTokenizer(use_stemmer=False)
            ours, theirs = tokenizer.tokenize(output), tokenizer.tokenize(reference)
        else:
            ours, theirs = _any_script(output), _any_script(reference)
        if not (ours and theirs):
            return 0.0
        return float(2 * common(ours, theirs) / (len(ours) + len(theirs)))


@metric("bleu")
class Bleu(LibraryMetric):
    """Sentence BLEU (Papineni et al. 2002) by sacrebleu with its defaults, divided by 100.

    In scripts without spaces between words, each letter is a word, as in sacrebleu's tokenizer ``zh``.

    Definition: docs/definitions/text.md#bleu.
    """

    libraries: ClassVar = ("sacrebleu",)

    def similarity(self, output: str, reference: str) -> float:
        """BLEU against one reference."""
        sacrebleu = _library("sacrebleu", self.name)
        return min(1.0, float(sacrebleu.sentence_bleu(spaced(output), [spaced(reference)]).score) / 100)


@metric("chrf")
class Chrf(LibraryMetric):
    """chrF2 (Popović 2015) by sacrebleu with its defaults, divided by 100.

    Definition: docs/definitions/text.md#chrf.
    """

    libraries: ClassVar = ("sacrebleu",)

    def similarity(self, output: str, reference: str) -> float:
        """The chrF against one reference."""
        sacrebleu = _library("sacrebleu", self.name)
        return min(1.0, float(sacrebleu.sentence_chrf(output, [reference]).score) / 100)


@metric("edit")
class Edit(LibraryMetric):
    """1 − Levenshtein distance / length of the longer text, by characters.

    Definition: docs/definitions/text.md#edit.
    """

    libraries: ClassVar = ("rapidfuzz.distance",)

    def similarity(self, output: str, reference: str) -> float:
        """Normalised Levenshtein similarity."""
        levenshtein = _library("rapidfuzz.distance", self.name).Levenshtein
        return float(levenshtein.normalized_similarity(output, reference))


def _only_ascii_letters(text: str) -> bool:
    return text.isascii() or not any(each.isalnum() and not each.isascii() for each in text)


def _any_script(text: str) -> list[str]:
    """The words of a text in any script, in lower case."""
    import regex

    return list(regex.findall(r"[\p{L}\p{M}\p{N}]+", spaced(text).lower()))
