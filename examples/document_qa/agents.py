"""Two versions of an agent that answers questions from documents, by rules and without a language model.

Both search, read and answer with a sentence of a document. What they get wrong follows from their rules:
no rule knows a question by its name.
"""

import re

import trivium as tv

from .corpus import Hit, best_sentence, documents, find, words

UNKNOWN = "The documents do not say."

ENOUGH = 0.36
"""A sentence that holds less than this share of the question does not answer it."""

SNIPPET_ENOUGH = 0.6
"""Version B answers from a search result that holds so much of the question, without reading."""

AGAIN = 3
"""Version B searches again so often while no sentence is good enough."""


@tv.trace.tool
def search(query: str) -> list[Hit]:
    """The three documents that match a query best."""
    return find(query)


@tv.trace.tool
def read(document: str) -> list[str]:
    """The sentences of a document."""
    return list(documents()[document].sentences)


def beyond_title(question: str, document: str) -> frozenset[str]:
    """The words of a question without those of a document's title, which its sentences rarely repeat."""
    asked = words(question)
    return asked - words(documents()[document].title) or asked


@tv.trace.agent("librarian")
def version_a(question: str) -> str:
    """Search once, read the best document, answer with the sentence that holds most of the question."""
    hits = search(question)
    if not hits:
        return UNKNOWN
    text = read(hits[0].document)
    sentence, score = best_sentence(words(question), text)
    return sentence if score >= ENOUGH else UNKNOWN


@tv.trace.agent("librarian")
def version_b(question: str) -> str:
    """As version A, and more: compares two documents, and knows what kind of answer a question wants.

    Two habits came with it: it answers from the search result where that looks good enough, and it searches
    again, with the same words, while no answer does.
    """
    if (compared := compare(question)) is not None:
        return compared
    hits = search(question)
    if hits and fits(question, hits[0].document, hits[0].snippet) >= SNIPPET_ENOUGH:
        return hits[0].snippet.removesuffix(" …")
    for _ in range(AGAIN):
        if hits:
            sentence, score = best_fit(question, hits[0].document)
            if score >= ENOUGH:
                return sentence
        hits = search(question)
    return UNKNOWN


IN_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip

KINDS = {
    r"\b(?:heavier|lighter)\b": r"\d kilograms\b",
    r"\b(?:older|newer)\b": r"\b1\d{3}\b",
    r"\b(?:opens?|closes?|starts?|leaves?) (?:earlier|later)\b": r"\b\d{1,2}:\d\d\b",
    r"\b(?:costs? (?:less|more)|cheaper)\b": r"\b\d+ euros\b",
    r"\bkeeps longer\b": r"\bdays?\b",
    r"how (?:long|soon)": r"\b(?:minutes?|hours?|days?|weeks?|months?|years?)\b",
    r"how much|what does .* cost|price": r"\b(?:euros?|cents?|free)\b",
    r"what time|when": r"\b\d{1,2}:\d\d\b|\b(?:1\d|20)\d\d\b|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"
    r"|\b(?:March|May|June|July|October|frost|month|week)\b",
    r"how (?:many|high|deep|heavy|far|often)": rf"\d|\b(?:{'|'.join(IN_WORDS)}|twice)\b",
}
"""What a question begins with, and what its answer then holds."""

KIND_COUNTS = 0.25
"""What an answer of the right kind is worth, beside the share of the question that it holds."""


def fits(question: str, document: str, sentence: str) -> float:
    """How well a sentence answers: words in common with the question, and the right kind of thing."""
    _, score = best_sentence(beyond_title(question, document), [sentence])
    for asks, holds in KINDS.items():
        if re.search(asks, question, re.IGNORECASE):
            return score + (KIND_COUNTS if re.search(holds, sentence) else -KIND_COUNTS)
    return score


def best_fit(question: str, document: str) -> tuple[str, float]:
    """The sentence of a document that answers a question best, and how well."""
    fitting = {sentence: fits(question, document, sentence) for sentence in read(document)}
    return max(fitting.items(), key=lambda found: found[1])


COMPARISON = re.compile(
    r"^(?P<asked>.*\b(?P<more>\w+(?:er|re)|less|fewer)\b.*?)[:,] (?P<one>.+) or (?P<other>.+)\?$"
)
LEAST = frozenset({"less", "fewer", "shorter", "cheaper", "lighter", "earlier", "older", "smaller", "lower"})


def compare(question: str) -> str | None:
    """The answer to "which is …er, one or the other?": both are looked up, and their numbers compared."""
    asked = COMPARISON.match(question)
    if asked is None:
        return None
    sentences = {}
    for name in (asked["one"], asked["other"]):
        part = f"{asked['asked']} {name}"
        hits = search(part)
        sentences[name] = best_fit(part, hits[0].document)[0] if hits else ""
    first, second = map(numbers, sentences.values())
    unit = next((unit for unit in first if unit in second), None)
    if unit is None:
        return UNKNOWN
    choose = min if asked["more"] in LEAST else max
    _, name = choose(zip((first[unit], second[unit]), sentences, strict=True))
    return f"{name[0].upper()}{name[1:]}: {sentences[name]}"


def numbers(sentence: str) -> dict[str, float]:
    """The numbers of a sentence by the word after each, which is its unit; years and times have none."""
    found: dict[str, float] = {}
    for number, unit in re.findall(
        r"(\d[\d,:]*(?:\.\d+)?|\b(?:" + "|".join(IN_WORDS) + r")\b)[.,]?\s*([a-z]*)", sentence
    ):
        value = IN_WORDS.index(number) if number in IN_WORDS else float(re.sub("[,:]", "", number))
        year_or_time = ":" in number or re.fullmatch(r"1\d{3}", number)
        found.setdefault("" if year_or_time else unit, value)
    return found
