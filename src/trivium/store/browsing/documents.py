"""The documents of the search index: the texts of an attempt, under a number that orders all attempts."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, and_, false, or_, select

from trivium.agents.attempt import ChatMessage, dialogue
from trivium.store import schema
from trivium.store.partitions.reader import Bodies, partitions_of
from trivium.store.records import decode
from trivium.suites.case import Case
from trivium.values import list_, text_or_json

__all__ = ["Document", "Key", "documents_of", "key_of", "number_of", "numbers_of_run"]

FIELD_CHARACTERS: Final = 100_000
"""Characters of each text that are indexed and searched."""

Key = tuple[int, int, int]
"""Number of the run, position and repeat."""

_REPEAT_BITS, _POSITION_BITS = 13, 28
_PLACE: Final[int] = (1 << (_REPEAT_BITS + _POSITION_BITS)) - 1


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of an attempt.

    Attributes:
        case: Id of the case.
        fields: The texts by what they are: ``case``, ``input``, ``output``, ``error``, ``reason``.
        passed: Whether it passed.
        composite: Its composite, in [0, 1].
    """

    case: str
    fields: Mapping[str, str]
    passed: bool | None
    composite: float | None


class _AttemptText(msgspec.Struct):
    output: Any = None
    error: str | None = None
    messages: tuple[ChatMessage, ...] = ()


class _Detail(msgspec.Struct):
    reason: Any = None
    claims: Any = None


class _ScoreText(msgspec.Struct):
    detail: _Detail = msgspec.field(default_factory=_Detail)


class _EvaluationText(msgspec.Struct):
    scores: dict[str, _ScoreText] = {}


_case = msgspec.json.Decoder(Case)
_attempt = msgspec.json.Decoder(_AttemptText)
_evaluation = msgspec.json.Decoder(_EvaluationText)


def number_of(run: int, position: int, repeat: int, *, kind: str) -> int:
    """Number of an attempt: the higher, the earlier a search shows it.

    Newer runs come first; in a run the cases in their order, and of production the newest sample first.
    """
    place: int = min(position, (1 << _POSITION_BITS) - 1) << _REPEAT_BITS | min(
        repeat, (1 << _REPEAT_BITS) - 1
    )
    return run << (_REPEAT_BITS + _POSITION_BITS) | (place if kind == "live" else _PLACE - place)


def key_of(number: int, *, kind: str) -> Key:
    """The attempt with a number (see :func:`number_of`)."""
    run, place = number >> (_REPEAT_BITS + _POSITION_BITS), number & _PLACE
    place = place if kind == "live" else _PLACE - place
    return run, place >> _REPEAT_BITS, place & ((1 << _REPEAT_BITS) - 1)


def numbers_of_run(run: int) -> tuple[int, int]:
    """The lowest and the highest number that attempts of a run may have."""
    first = run << (_REPEAT_BITS + _POSITION_BITS)
    return first, first | _PLACE


def documents_of(connection: Connection, keys: Collection[Key], *, store: str) -> dict[Key, Document]:
    """Read the texts of attempts; those that are gone are left out.

    Args:
        connection: To the database.
        keys: The attempts, at most a few hundred. Those of a run that scored another's attempts again have
            the reasons of its judges alone.
        store: Name of the store, for errors.
    """
    if not keys:
        return {}
    runs, attempts, scored, cases = schema.runs, schema.attempts, schema.evaluations, schema.cases
    numbers = {run for run, _, _ in keys}
    of_runs = select(runs.c.number, runs.c.suite).where(runs.c.number.in_(numbers))
    suites = {row.number: row.suite for row in connection.execute(of_runs)}
    by_run: dict[int, set[int]] = {}
    by_suite: dict[str, set[int]] = {}
    for run, position, _ in keys:
        by_run.setdefault(run, set()).add(position)
        if run in suites:
            by_suite.setdefault(suites[run], set()).add(position)

    # Not pairs in a list of pairs: for those SQLite may read the whole table.
    def rows(table: Any, *columns: Any) -> dict[Key, Any]:
        query = select(table.c.run, table.c.position, table.c.repeat, *columns)
        places = [and_(table.c.run == run, table.c.position.in_(at)) for run, at in by_run.items()]
        found = connection.execute(query.where(or_(*places)))
        return {(row.run, row.position, row.repeat): row for row in found}

    outputs = rows(attempts, attempts.c.case_body, attempts.c.body)
    judged = rows(scored, scored.c.body, scored.c.passed, scored.c.composite)
    of_suites = [and_(cases.c.suite == suite, cases.c.position.in_(at)) for suite, at in by_suite.items()]
    of_cases = select(cases.c.suite, cases.c.position, cases.c.body).where(or_(false(), *of_suites))
    inputs = {(row.suite, row.position): row.body for row in connection.execute(of_cases)}
    bodies = Bodies(partial(partitions_of, connection), store=store)
    attempt_bodies: dict[Key, str] = {}
    evaluation_bodies: dict[Key, str] = {}
    for run in numbers:
        of_run = [(key, row.body) for key, row in outputs.items() if key[0] == run]
        attempt_bodies |= dict(bodies.read(run, "attempt", of_run))
        of_run = [(key, row.body) for key, row in judged.items() if key[0] == run]
        evaluation_bodies |= dict(bodies.read(run, "evaluation", of_run))
    bodies.close()
    found = {}
    for key in keys:
        run, position, _ = key
        output, judgement = outputs.get(key), judged.get(key)
        body = (output.case_body if output else None) or inputs.get((suites.get(run, ""), position))
        if run not in suites or body is None or (output is None and judgement is None):
            continue
        case = decode(_case, body, store=store)
        fields = {"case": case.id}
        if output is not None:
            attempt = decode(_attempt, attempt_bodies[key], store=store)
            fields |= {
                "input": case.input_text,
                "output": text_or_json(dialogue(attempt.messages) or attempt.output),
                "error": attempt.error or "",
            }
        if judgement is not None:
            fields["reason"] = _reasons(decode(_evaluation, evaluation_bodies[key], store=store))
        found[key] = Document(
            case=case.id,
            fields={name: text[:FIELD_CHARACTERS] for name, text in fields.items() if text},
            passed=None if judgement is None else judgement.passed,
            composite=None if judgement is None else judgement.composite,
        )
    return found


def _reasons(evaluation: _EvaluationText) -> str:
    reasons = []
    for score in evaluation.scores.values():
        claims = list_(score.detail.claims)
        for each in (score.detail.reason, *(c.get("reasoning") for c in claims if isinstance(c, dict))):
            if isinstance(each, str) and each not in reasons:
                reasons.append(each)
    return "\n".join(reasons)
