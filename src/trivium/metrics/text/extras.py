"""Well-known text metrics from well-kept libraries (spec: metrics, T1.7), off by default.

They need the extra ``text``. A suite that names one of them is refused where it is missing, with the line to
install it.
"""

from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from trivium.errors import MissingExtra
from trivium.metrics.metric import Skip, TextMetric, metric

LONGEST = 200_000
"""Characters of the longest text that is compared: the cost of these metrics grows with the product of
the two lengths, so that one huge output could hold up a run for hours."""


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
    """A metric of a library that the extra ``text`` brings."""

    libraries: ClassVar[tuple[str, ...]] = ()

    def check(self) -> None:
        """Refuse to be measured without the library."""
        for library in self.libraries:
            _library(library, self.name)


@metric("rouge_l")
class RougeL(LibraryMetric):
    """ROUGE-L F1 (Lin 2004): longest common subsequence of rouge-score's words, without stemming."""

    libraries: ClassVar = ("rouge_score.tokenizers", "rapidfuzz.distance")

    def compare(self, output: str, reference: str) -> float:
        """F1 of the longest common subsequence, in [0, 1]; two texts without a word score 0."""
        tokenizer = _library("rouge_score.tokenizers", self.name).DefaultTokenizer(use_stemmer=False)
        # Equal to rouge-score's own, whose table in pure Python takes minutes for long texts.
        common = _library("rapidfuzz.distance", self.name).LCSseq.similarity
        _bounded(output, reference)
        ours, theirs = tokenizer.tokenize(output), tokenizer.tokenize(reference)
        if not (ours and theirs):
            return 0.0
        return float(2 * common(ours, theirs) / (len(ours) + len(theirs)))


@metric("bleu")
class Bleu(LibraryMetric):
    """Sentence BLEU (Papineni et al. 2002) by sacrebleu with its defaults, divided by 100."""

    libraries: ClassVar = ("sacrebleu",)

    def compare(self, output: str, reference: str) -> float:
        """BLEU against one reference, in [0, 1]."""
        sacrebleu = _library("sacrebleu", self.name)
        _bounded(output, reference)
        return min(1.0, float(sacrebleu.sentence_bleu(output, [reference]).score) / 100)


@metric("chrf")
class Chrf(LibraryMetric):
    """chrF2 (Popović 2015) by sacrebleu with its defaults, divided by 100."""

    libraries: ClassVar = ("sacrebleu",)

    def compare(self, output: str, reference: str) -> float:
        """The chrF against one reference, in [0, 1]."""
        sacrebleu = _library("sacrebleu", self.name)
        _bounded(output, reference)
        return min(1.0, float(sacrebleu.sentence_chrf(output, [reference]).score) / 100)


@metric("edit")
class Edit(LibraryMetric):
    """1 − Levenshtein distance / length of the longer text, by characters; two empty texts are equal."""

    libraries: ClassVar = ("rapidfuzz.distance",)

    def compare(self, output: str, reference: str) -> float:
        """Normalised Levenshtein similarity, in [0, 1]."""
        levenshtein = _library("rapidfuzz.distance", self.name).Levenshtein
        _bounded(output, reference)
        return float(levenshtein.normalized_similarity(output, reference))
