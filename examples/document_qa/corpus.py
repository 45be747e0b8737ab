"""The documents, and the search over them."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from math import log
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "documents"

SNIPPET_CHARS = 60
"""A search result shows so much of its best sentence."""

UNINFORMATIVE = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been before by can cannot did do does for from had has have how i if in into
        is it its many much must of on or so that the their them there they this to was were what when where
        which who why will with you your""",
    )
)
"""Words that say nothing of what a question is about."""


ENDING = re.compile(r"(?<=\w{3})(?:ings?|ed|es|e|s)$")
"""What is cut off a word, so that "kneaded" is found by "knead"."""


class Document(NamedTuple):
    """A document: what it is called, its title, and its sentences in order."""

    name: str
    title: str
    sentences: tuple[str, ...]


class Hit(NamedTuple):
    """A search result: a document, the beginning of its best sentence, and how well it matches, in [0, 1]."""

    document: str
    snippet: str
    score: float


@cache
def documents() -> dict[str, Document]:
    """All documents by name."""
    return {path.stem: _read(path) for path in sorted(FOLDER.glob("*.md"))}


def _read(path: Path) -> Document:
    title, _, text = path.read_text(encoding="utf-8").partition("\n")
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    return Document(path.stem, title.lstrip("# "), tuple(sentences))


@cache
def words(text: str) -> frozenset[str]:
    """The informative words of a text, without their endings."""
    found = set(re.findall(r"[a-z0-9]+", text.lower())) - UNINFORMATIVE
    return frozenset(ENDING.sub("", word) for word in found)


@cache
def _rarity() -> dict[str, float]:
    """How rare each word is: log of documents / documents that hold it."""
    held = Counter(word for each in documents().values() for word in words(_text(each)))
    return {word: log(len(documents()) / count) + 0.1 for word, count in held.items()}


def _text(document: Document) -> str:
    return " ".join((document.title, *document.sentences))


def match(asked: Iterable[str], text: str) -> float:
    """How much of what is asked a text holds, rare words counting more; in [0, 1]."""
    unknown = log(len(documents())) + 0.1
    weights = {word: _rarity().get(word, unknown) for word in asked}
    total = sum(weights.values())
    return sum(weights[word] for word in weights.keys() & words(text)) / total if total else 0.0


def best_sentence(asked: frozenset[str], sentences: Iterable[str]) -> tuple[str, float]:
    """The sentence that holds most of what is asked, the first of equals, and how much that is."""
    return max(((each, match(asked, each)) for each in sentences), key=lambda found: found[1])


def find(query: str, *, most: int = 3) -> list[Hit]:
    """The documents that match a query best, the best first."""
    asked = words(query)
    hits = []
    for each in documents().values():
        sentence, _ = best_sentence(asked, each.sentences)
        snippet = (
            sentence if len(sentence) <= SNIPPET_CHARS else sentence[:SNIPPET_CHARS].rpartition(" ")[0] + " …"
        )
        hits.append(Hit(each.name, snippet, round(match(asked, _text(each)), 3)))
    return sorted((hit for hit in hits if hit.score), key=lambda hit: (-hit.score, hit.document))[:most]
