"""Builds the JSON schema of a judge's answer from the rubric, and parses and checks answers."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

MAX_CLAIMS = 100
MAX_ASPECTS = 100
MAX_QUOTES = 20
MAX_CHARS = 4000
"""Limits of the stored parts of an answer; longer ones are cut, not refused."""

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


class PartlyMalformed(MalformedAnswer):
    """Some dimensions of an answer do not fit its schema.

    Args:
        valid: The answers about the other dimensions, by name.
        errors: The errors, by name.
    """

    def __init__(self, valid: "Answers", errors: Mapping[str, MalformedAnswer]) -> None:
        Exception.__init__(self, "; ".join(map(str, errors.values())))
        self.wanted = "; ".join(each.wanted for each in errors.values())
        self.valid = valid
        self.errors = {name: str(each) for name, each in errors.items()}


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


Part = TypeVar("Part", Claim, Aspect)


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
"""Answers by dimension."""


def key_of(dimension: Dimension, *, alone: bool) -> str:
    """Key of a dimension in an answer: its name, or a neutral key if it is judged alone."""
    return "judgement" if alone else dimension.name


def _criteria_of(dimension: Dimension, *, alone: bool) -> dict[str, str]:
    """Keys of the criteria in an answer, by name: their names, or neutral keys."""
    return {
        each.name: f"criterion_{number}" if alone else each.name
        for number, each in enumerate(dimension.criteria, 1)
    }


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
        keys = _criteria_of(dimension, alone=alone).values()
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
    scores: Sequence[float],
    *,
    aspects: int = 0,
    shown: Iterable[str] = (),
    cut: Collection[str] = (),
    alone: bool = False,
) -> Answers:
    """Parse a model's text into the answer about each dimension.

    Args:
        text: The model's text.
        dimensions: The judged dimensions.
        scores: The values that a Likert criterion may have.
        aspects: Number of aspects shown, all of which the answer must cover; 0 if the judge lists them.
        shown: Texts that the model was shown; a quotation of them is not an answer.
        cut: Names of the truncated texts. For a dimension that uses none of them, the verdict ``not_shown``
            becomes ``unverifiable``.
        alone: Whether the answer has neutral keys, as in :func:`schema`.

    Raises:
        MalformedAnswer: If the text holds no JSON, a field is missing, or a value is not allowed. A
            PartlyMalformed holds the valid answers if only some dimensions are affected.
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
    given = _mapping(given, "the answer")
    if not extracted.whole and not keys & given.keys():
        raise _no_json(text)
    answers: Answers = {}
    mistakes: dict[str, MalformedAnswer] = {}
    for each in dimensions:
        try:
            raw = _field(given, key_of(each, alone=alone), "")
            whole = not set(cut) & set(each.sees)
            answers[each.name] = _answer(raw, each, scores, aspects, alone=alone, whole=whole)
        except MalformedAnswer as mistake:
            mistakes[each.name] = mistake
    if mistakes:
        raise PartlyMalformed(answers, mistakes)
    return answers


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
    raw: Any, dimension: Dimension, scores: Sequence[float], aspects: int, *, alone: bool, whole: bool
) -> Answer:
    where = key_of(dimension, alone=alone)
    fields = _Fields(_mapping(raw, where))
    covered = _aspects(fields, where, aspects) if dimension.aspects else ()
    claims = _claims(fields, where, whole=whole) if dimension.claims else ()
    cited: list[Any] = [*(each.quote for each in covered), *(each.quote for each in claims)]
    quotes = [quote for quote in cited if quote.strip()]
    if not (dimension.aspects or dimension.claims):
        quotes = fields.quotes()
    criteria: dict[str, float | None] = {}
    explanations: dict[str, str] = {}
    if dimension.criteria and not dimension.claims:
        given = _mapping(_field(fields, "criteria", where), f"{where}.criteria")
        for name, key in _criteria_of(dimension, alone=alone).items():
            place = f"{where}.criteria.{key}"
            criterion = fields.inner(_field(given, key, f"{where}.criteria"), place)
            explanations[name] = criterion.told("explanation")
            criteria[name] = _number(_field(criterion, "score", place), scores, f"{place}.score")
    return Answer(
        reason=fields.told("reason"),
        evidence=tuple(quote[:MAX_CHARS] for quote in quotes if isinstance(quote, str)),
        confidence=fields.confidence(),
        criteria=criteria,
        explanations=explanations,
        level=_level(fields, dimension, where) if has_level(dimension) else None,
        claims=claims,
        aspects=covered,
        not_given=tuple(fields.not_given),
    )


class _Fields(dict[str, Any]):
    """Fields of an answer about a dimension, with what they lack that no score needs.

    Attributes:
        not_given: Names of such fields that are missing or of another kind, in the order of reading.
    """

    def __init__(self, given: Mapping[str, Any], not_given: dict[str, None] | None = None) -> None:
        super().__init__(given)
        self.not_given: dict[str, None] = {} if not_given is None else not_given

    def inner(self, value: Any, where: str) -> "_Fields":
        """An object within these fields; what it lacks, they lack."""
        return _Fields(_mapping(value, where), self.not_given)

    def told(self, name: str) -> str:
        """A text that explains or cites; empty if it is not given."""
        value = self.get(name)
        if isinstance(value, str) and (value.strip() or name == "quote"):
            return value[:MAX_CHARS]
        self.not_given[name] = None
        return ""

    def quotes(self) -> list[Any]:
        """The quotes of a list, or of a text in place of one."""
        value = _nested(self.get("evidence"))
        if isinstance(value, str) and value.strip():
            return [value]
        if not isinstance(value, list):
            self.not_given["evidence"] = None
        return value[:MAX_QUOTES] if isinstance(value, list) else []

    def confidence(self) -> int | None:
        """The stated confidence, if it is one that may be stated."""
        try:
            number = _number(self.get("confidence"), CONFIDENCE, "confidence")
        except MalformedAnswer:
            number = None
        if number is None:
            self.not_given["confidence"] = None
        return None if number is None else int(number)


def _level(fields: Mapping[str, Any], dimension: Dimension, where: str) -> str | None:
    level = _field(fields, "level", where)
    if level is None:
        return None
    return _word(level, tuple(dimension.levels), f"{where}.level")


def _claims(fields: _Fields, where: str, *, whole: bool) -> tuple[Claim, ...]:
    raw = _list(_field(fields, "claims", where), f"{where}.claims")[:MAX_CLAIMS]
    found = _parts(fields, raw, f"{where}.claims", Claim, {"verdict": VERDICTS, "importance": IMPORTANCE})
    return tuple(
        msgspec.structs.replace(each, verdict="unverifiable") if whole and each.verdict == NOT_SHOWN else each
        for each in found
    )


def _aspects(fields: _Fields, where: str, count: int) -> tuple[Aspect, ...]:
    raw = _list(_field(fields, "aspects", where), f"{where}.aspects")
    if count and len(raw) != count:
        raise MalformedAnswer(
            f"{where}.aspects", f"a list of {count}, one an aspect", f"a list of {len(raw)}"
        )
    raw = raw if count else raw[:MAX_ASPECTS]
    return tuple(_parts(fields, raw, f"{where}.aspects", Aspect, {"covered": COVERED}))


def _parts(
    fields: _Fields, raw: Sequence[Any], where: str, kind: type[Part], words: Mapping[str, Sequence[str]]
) -> Iterator[Part]:
    """Read the claims or aspects of a list; ``words`` has what some of their fields may be.

    The first field must be there; the others explain or cite.
    """
    first, *told = (name for name in kind.__struct_fields__ if name not in words)
    for index, each in enumerate(raw):
        place = f"{where}[{index}]"
        part = fields.inner(each, place)
        read = {name: _word(_field(part, name, place), words[name], f"{place}.{name}") for name in words}
        read[first] = _text(part, first, place)
        yield kind(**read | {name: part.told(name) for name in told})


def _number(value: Any, allowed: Sequence[float], where: str) -> float | None:
    if value is None:
        return None
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


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = _field(fields, name, where)
    if not isinstance(value, str):
        raise MalformedAnswer(f"{where}.{name}", "a text", _excerpt(value))
    return value[:MAX_CHARS]


def _field(fields: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in fields:
        raise MalformedAnswer(f"{where}.{name}" if where else name, "there")
    return fields[name]


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    value = _nested(value)
    if not isinstance(value, dict):
        raise MalformedAnswer(where, "an object", _excerpt(value))
    return value


def _nested(value: Any) -> Any:
    """An object or list that a model or a server wrote as a text."""
    try:
        return decoded_text(value) if isinstance(value, str) else value
    except DuplicateMembers:
        return value


def _list(value: Any, where: str) -> list[Any]:
    value = _nested(value)
    if not isinstance(value, list):
        raise MalformedAnswer(where, "a list", _excerpt(value))
    return value


def _excerpt(value: Any) -> str:
    try:
        return json.dumps(value)[:60]
    except RecursionError:
        return "too deeply nested"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
