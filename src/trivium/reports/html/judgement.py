"""A judgement as the report shows it: reason, criteria, evidence, signals, votes, cost.

What is stored of a judgement may come from a file that somebody else wrote, so nothing is taken for granted
about its shape.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from trivium.metrics.judge.signals.evidence import places, quote_parts
from trivium.metrics.score import Score
from trivium.reports import wording
from trivium.reports.html.folding import JSON_CHARS, folded, short
from trivium.reports.html.range_svg import range_svg
from trivium.reports.untrusted import one_line, visible

ROWS_SHOWN = 30
"""Of criteria, claims, quotes and votes."""
TEXT_SHOWN = 2_000
"""Characters of a reason, an explanation or a quote."""

_TOLD = frozenset(
    {"reason", "evidence", "criteria", "claims", "aspects", "signals", "votes", "model", "tokens", "cost_usd"}
    | {"latency_seconds", "requests", "shared_by", "prompt", "samples", "samples_asked", "level", "panel"}
    | {"passed_over", "evidence_similarity", "acceptance"}
)
"""What has a place of its own; anything else that was recorded is shown as it is."""


def quotes_of(scores: Sequence[Score]) -> list[str]:
    """All quotes of the judges of an attempt, each once; their places in the list number them."""
    found: dict[str, None] = {}
    for score in scores:
        if score.tier == "judge":
            found |= dict.fromkeys(row["quote"] for row in _evidence(score.detail))
    return list(found)


def judgement_context(score: Score, quotes: Sequence[str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Everything the template of a judgement needs.

    Args:
        score: Of the judge tier.
        quotes: All quotes of the attempt, by whose order they are numbered.
        texts: The texts of the attempt, folded, by the names that people know them by.
    """
    detail = score.detail
    return {
        "name": one_line(score.name),
        "value": wording.number(score.value),
        "bar": Markup(range_svg(score.value, None)),  # noqa: S704 - made of numbers
        "status": score.status,
        "level": _line(detail.get("level")),
        "acceptance": _acceptance(_mapping(detail.get("acceptance"))),
        "method": _line(score.method),
        "reason": _text(score.reason),
        "criteria": [
            (one_line(name), _line(_mapping(each).get("score")), _text(_mapping(each).get("explanation")))
            for name, each in list(_mapping(detail.get("criteria")).items())[:ROWS_SHOWN]
        ],
        "claims": _rows(detail.get("claims"), ("claim", "quote", "reasoning", "importance", "verdict")),
        "aspects": _rows(detail.get("aspects"), ("aspect", "covered", "quote")),
        "evidence": [_quote(row, quotes, texts) for row in _evidence(detail)],
        "signals": [
            (wording.words(one_line(name)), wording.NOTHING if value is None else short(value))
            for name, value in _mapping(detail.get("signals")).items()
        ],
        "similarity": _line(detail.get("evidence_similarity")),
        "votes": [_vote(each) for each in _list(detail.get("votes"))[:ROWS_SHOWN]],
        "panel": _panel(_mapping(detail.get("panel"))),
        "samples": _samples(detail),
        "facts": list(_facts(detail)),
        "passed_over": [_text(each) for each in _list(detail.get("passed_over"))[:ROWS_SHOWN]],
        "more": folded(
            {name: value for name, value in detail.items() if name not in _TOLD} or None, at_most=JSON_CHARS
        ),
    }


def _evidence(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = [_mapping(each) for each in _list(detail.get("evidence"))[:ROWS_SHOWN]]
    return [row for row in rows if isinstance(row.get("quote"), str)]


def _acceptance(mark: Mapping[str, Any]) -> str | None:
    """What a certificate makes of it: accepted or to people, by which confidence, and why."""
    answer, sure, why = _line(mark.get("answer")), mark.get("confidence"), _line(mark.get("why"))
    if not answer:
        return None
    confidence = f", confidence {wording.number(sure)}" if _is_number(sure) else ""
    return f"{answer}{confidence}{f': {why}' if why else ''}"


def _quote(row: Mapping[str, Any], quotes: Sequence[str], texts: Mapping[str, str]) -> dict[str, Any]:
    quote, parts = row["quote"], quote_parts(row["quote"])
    return {
        "text": _text(quote),
        "number": quotes.index(quote) + 1,
        "found": row.get("found") is True,
        "too_short": row.get("too_short") is True,
        "where": [name for name, text in texts.items() if places(parts, text)],
    }


def _vote(given: Any) -> dict[str, Any]:
    vote = _mapping(given)
    value = vote.get("value")
    return {
        "model": _line(vote.get("model")) or wording.NOTHING,
        "value": wording.number(value)
        if _is_number(value)
        else "abstained"
        if value is None
        else short(value),
        "level": _line(vote.get("level")),
        "reason": _text(vote.get("reason")),
        "criteria": ", ".join(
            f"{one_line(name)} {_line(_mapping(each).get('score')) or wording.NOTHING}"
            for name, each in list(_mapping(vote.get("criteria")).items())[:ROWS_SHOWN]
        ),
        "facts": list(_facts(vote, votes=True)),
        "signals": ", ".join(
            f"{wording.words(one_line(name))} {short(signal)}"
            for name, signal in _mapping(vote.get("signals")).items()
            if signal is not None
        ),
    }


def _panel(panel: Mapping[str, Any]) -> str:
    """How many of a panel's judges voted, and why the others did not."""
    asked, failed = panel.get("asked"), _list(panel.get("failed"))
    if not _is_number(asked) or not failed:
        return ""
    reasons = "; ".join(
        f"{_line(_mapping(each).get('model'))}: {_line(_mapping(each).get('reason'))}"
        for each in failed[:ROWS_SHOWN]
    )
    return f"{len(failed):,} of {asked:,} judges did not vote. {reasons}"


def _samples(detail: Mapping[str, Any]) -> str:
    samples, asked = _list(detail.get("samples")), detail.get("samples_asked")
    if not samples:
        return ""
    told = ", ".join(
        wording.number(each) if _is_number(each) else "abstained" for each in samples[:ROWS_SHOWN]
    )
    lost = asked - len(samples) if isinstance(asked, int) and asked > len(samples) else 0
    return f"{told}{f'; {lost:,} lost' if lost else ''}"


def _facts(detail: Mapping[str, Any], *, votes: bool = False) -> list[str]:
    """Model, cost and the like, in a few words each."""
    measured: list[tuple[str, Callable[[Any], str]]] = [
        ("cost_usd", lambda cost: f"${cost:.6f}".rstrip("0").rstrip(".")),
        ("latency_seconds", wording.seconds),
        ("requests", lambda count: wording.counted(count, "request")),
    ]
    facts = [] if votes or not detail.get("model") else [str(_line(detail.get("model")))]
    tokens = _mapping(detail.get("tokens"))
    ways = (("input", "in"), ("output", "out"))
    facts += [f"{tokens[way]:,} tokens {told}" for way, told in ways if _is_number(tokens.get(way))]
    facts += [say(detail[name]) for name, say in measured if _is_number(detail.get(name))]
    shared = detail.get("shared_by")
    if isinstance(shared, int) and shared > 1:
        facts.append(f"tokens, cost and requests are of {shared:,} dimensions together")
    if not votes and isinstance(detail.get("prompt"), str):
        facts.append(f"prompt {_line(detail['prompt'])}")
    return facts


def _rows(given: Any, columns: Sequence[str]) -> list[list[str]]:
    rows = [_mapping(each) for each in _list(given)[:ROWS_SHOWN]]
    return [[_text(row.get(column)) or "" for column in columns] for row in rows]


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else short(value)
    return visible(text[:TEXT_SHOWN]) + ("…" if len(text) > TEXT_SHOWN else "")


def _line(value: Any) -> str | None:
    return None if value is None else short(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
