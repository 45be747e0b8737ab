"""English prose for benchmarks: the text of Python's own help, which is part of every installation."""

import re
from pydoc_data.topics import topics
from random import Random

_SENTENCE = re.compile(r"[A-Z][^.!?:|*`=<>]{20,300}[.!?]")
_SENTENCES = [
    " ".join(found.split()) for _, topic in sorted(topics.items()) for found in _SENTENCE.findall(topic)
]


def prose(words: int, random: Random) -> str:
    """Sentences in random order, cut to a number of words."""
    text: list[str] = []
    while len(text) < words:
        text += random.choice(_SENTENCES).split()
    return " ".join(text[:words])
