"""Values that satisfy a JSON schema, the same for the same seed."""

import math
import random
import re
from typing import Any

_DEEP = 6
"""From this depth on only what a schema insists on is filled, so that recursive schemas come to an end."""
_BOUND = re.compile(
    r"\b(exclusiveM|m)(inimum|aximum|inLength|axLength|inItems|axItems)\b['\"]?\s*[:=]\s*(-?\d+(?:\.\d+)?)"
)
_TEXT = "the text says what it sets out to say and gives its reasons one by one with care for the reader"
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "judge@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def fill(schema: dict[str, Any], *, seed: int | str = 0, text: str = "", words: int = 8) -> Any:
    """A value that the schema allows.

    Args:
        schema: The JSON schema. Bounds that a client moved into the description are read from there,
            as a model would.
        seed: What the choice between allowed values rests on.
        text: What was shown to the model; properties named for quotes or evidence are cut from it.
        words: Length of every other text.

    Raises:
        ValueError: If the schema needs a string of a pattern.
    """
    return _Filler(schema, random.Random(seed), text.split(), words).value(schema, 0, "")


class _Filler:
    def __init__(self, root: dict[str, Any], random: random.Random, words: list[str], length: int) -> None:
        self.root, self.random, self.words, self.length = root, random, words, length

    def value(self, schema: Any, depth: int, name: str) -> Any:
        if not isinstance(schema, dict):
            return None
        schema = self.resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.value(self.one_of(schema[union], depth), depth + 1, name)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = "null" if depth >= _DEEP and "null" in kind else kind[0]
        return getattr(self, f"fill_{kind}")(schema, depth, name)

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema or "allOf" in schema:
            schema = dict(schema)
            if "$ref" in schema:
                found: Any = self.root
                for step in schema.pop("$ref").removeprefix("#").strip("/").split("/"):
                    found = found[step] if step else found
                schema = {**found, **schema}
            for part in schema.pop("allOf", ()):
                schema = _merged(self.resolved(part), schema)
        found_bounds = _BOUND.findall(schema.get("description", ""))
        hinted = {first + rest: float(number) for first, rest, number in found_bounds}
        return {**hinted, **schema} if hinted else schema

    def one_of(self, options: list[Any], depth: int) -> Any:
        null = {"type": "null"}
        if depth >= _DEEP and null in options:
            return null
        return self.random.choice([option for option in options if option != null] or options)

    def fill_object(self, schema: dict[str, Any], depth: int, name: str) -> dict[str, Any]:
        wanted = schema.get("properties", {})
        if depth >= _DEEP:
            required = set(schema.get("required", ()))
            wanted = {key: value for key, value in wanted.items() if key in required}
        return {key: self.value(inner, depth + 1, key) for key, inner in wanted.items()}

    def fill_array(self, schema: dict[str, Any], depth: int, name: str) -> list[Any]:
        first = schema.get("prefixItems", [])
        least = int(schema.get("minItems", 0))
        most = int(schema.get("maxItems", max(least, len(first), 0 if depth >= _DEEP else 1)))
        count = max(least, min(most, len(first) or (0 if depth >= _DEEP else 1)))
        inner = [*first, *[schema.get("items", {})] * count][:count]
        return [self.value(each, depth + 1, name) for each in inner]

    def fill_integer(self, schema: dict[str, Any], depth: int, name: str) -> int:
        low, high = self.bounds(schema, 1, 5)
        low = math.floor(low) + 1 if low == schema.get("exclusiveMinimum") else math.ceil(low)
        high = math.ceil(high) - 1 if high == schema.get("exclusiveMaximum") else math.floor(high)
        step = int(schema.get("multipleOf", 1))
        return self.random.randint(math.ceil(low / step), high // step) * step

    def fill_number(self, schema: dict[str, Any], depth: int, name: str) -> float:
        low, high = self.bounds(schema, 0, 1)
        if "multipleOf" in schema:
            step = schema["multipleOf"]
            return self.random.randint(math.ceil(low / step), math.floor(high / step)) * step
        # Inner hundredths keep off the ends, which may be excluded.
        return low + (high - low) * self.random.randint(1, 99) / 100

    def bounds(self, schema: dict[str, Any], low: float, high: float) -> tuple[float, float]:
        """The ends of what is allowed; an open end is as far from the other as the usual range is wide."""
        wide = high - low
        lower = [schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema]
        upper = [schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema]
        if lower and upper:
            return max(lower), min(upper)
        if lower:
            return max(lower), max(*lower, 0) + wide if len(lower) > 1 else lower[0] + wide
        return (min(upper) - wide, min(upper)) if upper else (low, high)

    def fill_string(self, schema: dict[str, Any], depth: int, name: str) -> str:
        if "pattern" in schema:
            raise ValueError(f"no string can be made for the pattern {schema['pattern']!r} of {name!r}")
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 400))
        words, length = _TEXT.split(), self.length
        if ("quote" in name or "evidence" in name) and self.words:
            words, length = self.words, 8
        start = self.random.randrange(max(1, len(words) - 8))
        text = " ".join((words * math.ceil(length / 8))[start : start + length])
        while len(text) < least:
            text += " " + text
        return text[:most]

    def fill_boolean(self, schema: dict[str, Any], depth: int, name: str) -> bool:
        return self.random.random() < 0.5

    def fill_null(self, schema: dict[str, Any], depth: int, name: str) -> None:
        return None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Two schemas that hold together; where both name a bound, the one above."""
    both = {**below, **above}
    if "properties" in both:
        both["properties"] = {**below.get("properties", {}), **above.get("properties", {})}
        both["required"] = [*below.get("required", ()), *above.get("required", ())]
    return both
