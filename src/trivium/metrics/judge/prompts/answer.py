"""Builds the JSON schema of a judge's answer from the rubric, and parses and checks answers."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from trivium.metrics.judge.prompts.json_extract import (
    DuplicateMembers,
    NoJson,
    decoded_text,
    extract_json,
)
from trivium.safe_text import sanitise
from trivium.suites.rubrics.rubric import Dimension

MAX_PARTS = 100
MAX_QUOTES = 20
MAX_CHARS = 4000
"""Most claims or aspects, quotes, and characters of a text that are kept of an answer; more are cut, not
refused."""

COVERED = ("yes", "partly", "no")
NOT_SHOWN = "not_shown"
VERDICTS = ("supported", "partly", "contradicted", "unverifiable", NOT_SHOWN)
IMPORTANCE = ("major", "minor")
CONFIDENCE = (1, 2, 3, 4, 5)
"""Confidences that a judge may state (docs/definitions/judge.md#verbalized-confidence)."""

_PLAIN_NUMBER = re.compile(r" *(-?[0-9]{1,3}(?:\.[0-9]{1,9})?) *")
"""A number in a string, as models without a schema write it."""

CALL_ARGUMENTS, MAX_CALL_DEPTH = ("arguments", "parameters", "input", "function"), 5
"""Names of the fields that hold the arguments of a call, and how deeply they are nested at most."""

_JOINS = re.compile(r"[\s_-]+")

Schema = dict[str, Any]
T = TypeVar("T")


class MalformedAnswer(Exception):
    """An answer does not fit its schema; the message states the field and the problem.

    Args:
        where: The field.
        wanted: What was expected there.
        found: What was found there; "missing" for a missing field.

    Attributes:
        wanted: The message for the model. It does not quote the answer, which a judged text may have
            dictated and which must not return as an instruction.
    """

    def __init__(self, where: str, wanted: str, found: str = "missing") -> None:
        super().__init__(f"{where} is {found}" + (f", expected {wanted}" if found != "missing" else ""))
        self.wanted = f"{where} must be {wanted}"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of an output: the quote about it, the reasoning, its importance and the verdict."""

    claim: str
    quote: str
    reasoning: str
    importance: str
    verdict: str


class Aspect(msgspec.Struct, frozen=True, kw_only=True):
    """A requested aspect: the quote that covers it, and whether it is covered."""

    aspect: str
    quote: str
    covered: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer about one dimension.

    Attributes:
        reason: The judge's reason; empty if it gave none.
        evidence: Its quotes.
        confidence: Its stated confidence, 1 to 5; None if it stated none.
        not_given: Fields without which the score stands, and that are missing or of another kind.
        criteria: Value of each criterion, None for an abstention.
        explanations: Explanation of each criterion.
        level: Level of a dimension without criteria, None for an abstention.
        claims: Claims of the output, for a dimension scored by claims; their quotes are the evidence.
        aspects: Requested aspects, for a dimension scored by aspects; likewise.
    """

    reason: str
    evidence: tuple[str, ...]
    confidence: int | None
    not_given: tuple[str, ...] = ()
    criteria: dict[str, float | None] = {}
    explanations: dict[str, str] = {}
    level: str | None = None
    claims: tuple[Claim, ...] = ()
    aspects: tuple[Aspect, ...] = ()


Answers = dict[str, Answer]
Mistakes = dict[str, MalformedAnswer]
"""Answers, and what is wrong with others, by dimension."""


def key_of(dimension: Dimension, *, alone: bool) -> str:
    """Key of a dimension in an answer: its name, or a neutral key if it is judged alone."""
    return "judgement" if alone else dimension.name


def schema(dimensions: Sequence[Dimension], scores: Sequence[float], *, alone: bool = False) -> Schema:
    """Build the JSON schema of an answer, within the limits of providers' strict modes.

    Args:
        dimensions: The judged dimensions.
        scores: The values that a Likert criterion may have.
        alone: Whether to use neutral keys. Dimensions of the same form that are judged alone then have the
            same schema, which lets providers cache the prompt.
    """
    return _object(
        {key_of(each, alone=alone): _of_dimension(each, scores, alone=alone) for each in dimensions}
    )


def _of_dimension(dimension: Dimension, scores: Sequence[float], *, alone: bool) -> Schema:
    text = {"type": "string"}
    fields: dict[str, Schema] = {"evidence": {"type": "array", "items": text}}
    if dimension.aspects:
        aspect = _object({"aspect": text, "quote": text, "covered": _one_of(COVERED)})
        fields = {"aspects": {"type": "array", "items": aspect}}
    elif dimension.claims:
        # Models write in this order: quote and reasoning come before the verdict.
        claim = {"claim": text, "quote": text, "reasoning": text, "importance": _one_of(IMPORTANCE)}
        claim["verdict"] = _one_of(VERDICTS)
        fields = {"claims": {"type": "array", "items": _object(claim)}}
    elif dimension.criteria:
        score = {"anyOf": [_one_of(scores), {"type": "null"}]}
        criterion = _object({"explanation": text, "score": score})
        names = [each.name for each in dimension.criteria]
        keys = [f"criterion_{number}" for number in range(1, len(names) + 1)] if alone else names
        fields["criteria"] = _object(dict.fromkeys(keys, criterion))
    fields["reason"] = text
    if has_level(dimension):
        fields["level"] = {"anyOf": [_one_of(tuple(dimension.levels)), {"type": "null"}]}
    return _object(fields | {"confidence": _one_of(CONFIDENCE)})


def about(names: Sequence[str], whole: Schema) -> Schema:
    """Restrict the schema of an answer to some dimensions."""
    return _object({name: whole["properties"][name] for name in names})


def has_level(dimension: Dimension) -> bool:
    """Whether the judge answers with a level."""
    return not (dimension.criteria or dimension.claims or dimension.aspects)


def _one_of(values: Sequence[float] | Sequence[str]) -> Schema:
    kinds = {str: "string", int: "integer", float: "number"}
    return {"type": kinds[type(values[0])], "enum": list(values)}


def _object(fields: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def parse(
    text: str,
    dimensions: Sequence[Dimension],
    whole: Schema,
    *,
    aspects: int = 0,
    shown: Iterable[str] = (),
    cut: Collection[str] = (),
    alone: bool = False,
) -> tuple[Answers, Mistakes]:
    """Parse a model's text into the answer about each dimension.

    Args:
        text: The model's text.
        dimensions: The dimensions whose answers are wanted.
        whole: The schema of the answer, as :func:`schema` built it.
        aspects: Number of aspects shown, all of which the answer must cover; 0 if the judge lists them.
        shown: Texts that the model was shown; a quotation of them is not an answer.
        cut: Names of the truncated texts. For a dimension that uses none of them, the verdict ``not_shown``
            becomes ``unverifiable``.
        alone: Whether the answer has neutral keys, as in :func:`schema`.

    Returns:
        The valid answers; and what is wrong with the others: a field is missing, or a value is not allowed.

    Raises:
        MalformedAnswer: If the text holds no JSON, or none that may be an answer.
    """
    keys = {key_of(each, alone=alone) for each in dimensions}
    try:
        extracted = extract_json(text, shown=shown)
        # Without escapes, the value holds no other characters than the text.
        may_hold_others = "\\u" in text or sanitise(text)[1]
        given = _of_call(sanitise(extracted.value)[0] if may_hold_others else extracted.value, keys)
    except DuplicateMembers:
        raise MalformedAnswer("a field of the answer", "there once", "there twice") from None
    except NoJson:
        raise _no_json(text) from None
    given = _of_kind(given, dict, "an object", "the answer")
    if not extracted.whole and not keys & given.keys():
        raise _no_json(text)
    answers: Answers = {}
    mistakes: Mistakes = {}
    for each in dimensions:
        try:
            reader, key = _Reader(aspects), key_of(each, alone=alone)
            fields = reader.field(given, key, whole["properties"][key], "")
            shown_whole = not set(cut) & set(each.sees)
            answers[each.name] = _answer(each, fields, tuple(reader.not_given), shown_whole=shown_whole)
        except MalformedAnswer as mistake:
            mistakes[each.name] = mistake
    return answers, mistakes


def _of_call(value: Any, keys: Collection[str]) -> Any:
    """Return the arguments of a call that a server left in the text; any other value as it is."""
    for _ in range(MAX_CALL_DEPTH):
        if isinstance(value, str):
            value = decoded_text(value)
        elif isinstance(value, list) and len(value) == 1:
            (value,) = value
        elif isinstance(value, dict) and value.keys().isdisjoint(keys):
            value = next((value[name] for name in CALL_ARGUMENTS if name in value), value)
    return value


def _no_json(text: str) -> MalformedAnswer:
    bare = text.strip()[:100]
    return MalformedAnswer("the answer", "JSON", f"no JSON: {_excerpt(bare)}" if bare else "empty")


def _answer(
    dimension: Dimension, fields: dict[str, Any], not_given: tuple[str, ...], *, shown_whole: bool
) -> Answer:
    """The answer about a dimension, from its fields as a _Reader reads them."""
    verdicts = {NOT_SHOWN: "unverifiable"} if shown_whole else {}
    claims = [
        Claim(**each | {"verdict": verdicts.get(each["verdict"], each["verdict"])})
        for each in fields.get("claims", ())
    ]
    aspects = [Aspect(**each) for each in fields.get("aspects", ())]
    parts = (*fields.get("aspects", ()), *fields.get("claims", ()))
    cited = [each["quote"] for each in parts if each["quote"].strip()]
    names, criteria = [each.name for each in dimension.criteria], fields.get("criteria", {}).values()
    return Answer(
        reason=fields["reason"],
        evidence=tuple(fields.get("evidence", cited)),
        confidence=fields["confidence"],
        criteria={name: each["score"] for name, each in zip(names, criteria, strict=False)},
        explanations={name: each["explanation"] for name, each in zip(names, criteria, strict=False)},
        level=fields.get("level"),
        claims=tuple(claims),
        aspects=tuple(aspects),
        not_given=not_given,
    )


_TOLD = frozenset({"reason", "explanation", "reasoning", "quote", "evidence", "confidence"})
"""Fields without which a score stands."""


class _Reader:
    """Reads fields of an answer by their schemas, more leniently than these are.

    Args:
        aspects: See :func:`parse`.

    Attributes:
        not_given: Names of fields of ``_TOLD`` that are missing or of another kind, in the order of reading.
    """

    def __init__(self, aspects: int) -> None:
        self.not_given: dict[str, None] = {}
        self._aspects = aspects

    def field(self, given: Mapping[str, Any], name: str, form: Schema, where: str) -> Any:
        """Read a field of an object that stands at a place.

        Raises:
            MalformedAnswer: If it is missing, or its value is not allowed.
        """
        if name in _TOLD and "properties" not in form:
            return self._told(given.get(name), name)
        place = f"{where}.{name}" if where else name
        if name not in given:
            raise MalformedAnswer(place, "there")
        return self._value(given[name], form, place)

    def _value(self, value: Any, form: Schema, where: str) -> Any:
        if "anyOf" in form:
            return None if value is None else self._value(value, form["anyOf"][0], where)
        if "properties" in form:
            given = _of_kind(value, dict, "an object", where)
            return {name: self.field(given, name, each, where) for name, each in form["properties"].items()}
        if "items" in form:
            values = _of_kind(value, list, "a list", where)
            count = self._aspects if where.endswith(".aspects") else 0
            if count and len(values) != count:
                raise MalformedAnswer(where, f"a list of {count}, one an aspect", f"a list of {len(values)}")
            cut = values[: count or MAX_PARTS]
            return [self._value(each, form["items"], f"{where}[{index}]") for index, each in enumerate(cut)]
        if "enum" in form:
            return (_word if form["type"] == "string" else _number)(value, form["enum"], where)
        if not isinstance(value, str):
            raise MalformedAnswer(where, "a text", _excerpt(value))
        return value[:MAX_CHARS]

    def _told(self, value: Any, name: str) -> Any:
        """What explains or cites, or a stated confidence; empty or None if it is not given."""
        if name == "evidence":
            quotes = _nested(value)
            quotes = [quotes] if isinstance(quotes, str) and quotes.strip() else quotes
            if isinstance(quotes, list):
                return [quote[:MAX_CHARS] for quote in quotes[:MAX_QUOTES] if isinstance(quote, str)]
        elif name == "confidence":
            try:
                return int(_number(value, CONFIDENCE, name))
            except MalformedAnswer:
                pass
        elif isinstance(value, str) and (value.strip() or name == "quote"):
            return value[:MAX_CHARS]
        self.not_given[name] = None
        return {"evidence": [], "confidence": None}.get(name, "")


def _number(value: Any, allowed: Sequence[float], where: str) -> float:
    text = _PLAIN_NUMBER.fullmatch(value) if isinstance(value, str) else None
    number = float(text[1]) if text else value
    # In Python, true is an int, but it is not a score.
    if isinstance(number, bool) or not isinstance(number, int | float) or number not in allowed:
        raise MalformedAnswer(where, f"one of {_listed(allowed)} or null", _excerpt(value))
    return float(number)


def _word(value: Any, allowed: Sequence[str], where: str) -> str:
    if isinstance(value, str):
        if value in allowed:
            return value
        alike = [each for each in allowed if _folded(each) == _folded(value)]
        if len(alike) == 1:
            return alike[0]
    raise MalformedAnswer(where, f"one of {', '.join(allowed)}", _excerpt(value))


def _folded(word: str) -> str:
    """A word regardless of case, and of how its parts are joined."""
    return _JOINS.sub("_", word.strip().casefold())


def _of_kind(value: Any, kind: type[T], wanted: str, where: str) -> T:
    """An object or a list, perhaps written as a text."""
    value = _nested(value)
    if not isinstance(value, kind):
        raise MalformedAnswer(where, wanted, _excerpt(value))
    return value


def _nested(value: Any) -> Any:
    """An object or list that a model or a server wrote as a text."""
    try:
        return decoded_text(value) if isinstance(value, str) else value
    except DuplicateMembers:
        return value


def _excerpt(value: Any) -> str:
    try:
        return json.dumps(value)[:60]
    except RecursionError:
        return "too deeply nested"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
