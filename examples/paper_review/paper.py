"""Paper: the text of a paper, taken apart so that tools can look things up in it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel

LONGEST_HEADING = 80
"""Characters; a longer paragraph is text."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(“\"])")
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|et al|cf|Fig|Eq|Sec|vs)\.$")


class Section(BaseModel):
    """A section's heading and how long it is."""

    heading: str
    words: int


class Passage(BaseModel):
    """A sentence of the paper and the section that it stands in."""

    section: str
    sentence: str


@dataclass(frozen=True)
class Paper:
    """A paper as plain text: title, abstract, then headings and texts, with empty lines between them."""

    text: str

    @cached_property
    def sections(self) -> dict[str, str]:
        """Text by heading, in order; what stands before the first heading is ``Abstract``."""
        paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", self.text) if paragraph.strip()]
        texts: dict[str, list[str]] = {}
        heading = "Abstract"
        for paragraph in paragraphs[1:]:
            if _is_heading(paragraph):
                heading = paragraph
            else:
                texts.setdefault(heading, []).append(" ".join(paragraph.split()))
        return {heading: "\n".join(parts) for heading, parts in texts.items()}

    @cached_property
    def title(self) -> str:
        """The first paragraph."""
        return " ".join(self.text.strip().split("\n\n", 1)[0].split())

    @cached_property
    def passages(self) -> list[Passage]:
        """Every sentence, in order."""
        return [
            Passage(section=heading, sentence=sentence)
            for heading, text in self.sections.items()
            for sentence in sentences(text)
        ]

    def outline(self) -> list[Section]:
        """Every section with its length."""
        return [Section(heading=heading, words=len(text.split())) for heading, text in self.sections.items()]

    def section(self, heading: str) -> str:
        """The text of a section, or a line that names the sections there are."""
        wanted = heading.casefold().strip()
        for known, text in self.sections.items():
            if known.casefold() == wanted:
                return text
        return f"There is no section {heading!r}. Sections: {', '.join(self.sections)}"

    def search(self, phrases: Iterable[str]) -> list[Passage]:
        """Sentences that hold any of the phrases; a phrase matches from the beginning of a word on."""
        wanted = "|".join(re.escape(phrase.strip()) for phrase in phrases if phrase.strip())
        if not wanted:
            return []
        pattern = re.compile(rf"(?<!\w)(?:{wanted})", re.IGNORECASE)
        return [passage for passage in self.passages if pattern.search(passage.sentence)]

    def numbers(self) -> list[Passage]:
        """Sentences that state a figure."""
        return [passage for passage in self.passages if re.search(r"\d", passage.sentence)]

    def says(self, quote: str) -> bool:
        """Whether a quote stands in the paper, word for word."""
        return _folded(quote) in _folded(self.text)


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    found: list[str] = []
    for piece in _SENTENCE_END.split(" ".join(text.split())):
        if found and _ABBREVIATED.search(found[-1]):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found


def _is_heading(paragraph: str) -> bool:
    return len(paragraph) <= LONGEST_HEADING and "\n" not in paragraph and paragraph[-1] not in ".!?:;,"


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
