"""An agent that converts units: it reads a question, finds two units and a number, and computes."""

import re

METRES = {
    "millimetre": 0.001,
    "centimetre": 0.01,
    "metre": 1,
    "kilometre": 1000,
    "inch": 0.0254,
    "mile": 1609.344,
}
GRAMS = {"gram": 1, "kilogram": 1000, "tonne": 1_000_000, "ounce": 28.349523125, "pound": 453.59237}
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

QUESTION = re.compile(r"How many (?P<wanted>\w+) are (?P<number>[\d.]+) (?P<given>\w+)\?")


def convert(question: str) -> str:
    """The number alone, to three significant places behind the point at most."""
    found = QUESTION.fullmatch(question)
    if found is None:
        raise ValueError("I can only say how many of one unit are so many of another")
    wanted, given = _unit(found["wanted"]), _unit(found["given"])
    for scale in (METRES, GRAMS, SECONDS):
        if wanted in scale and given in scale:
            return f"{float(found['number']) * scale[given] / scale[wanted]:.3f}".rstrip("0").rstrip(".")
    raise ValueError(f"{given} cannot be made {wanted}")


def _unit(word: str) -> str:
    return {"inches": "inch", "feet": "foot"}.get(word, word.removesuffix("s"))
