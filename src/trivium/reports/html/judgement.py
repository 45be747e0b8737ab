"""Section of a judgement in the report, with the judge's quotes highlighted in the texts.

Stored judgements may come from foreign files, so nothing is assumed about their shape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from trivium.metrics.judge.evidence import QUOTATION_MARKS, fold_text, places, quote_parts
from trivium.metrics.metric import Score
from trivium.reports import wording
from trivium.reports.document.blocks import Column, Lines, Table, Tone, Toned, table
from trivium.safe_text import as_json, one_line, visible
from trivium.suites.chat import dialogue_text
from trivium.values import count, counted, dict_, is_number, list_

HEAD_CHARS = 1_500
"""Characters of a text shown without unfolding."""
TEXT_CHARS = 20_000
"""Largest number of characters of a text in the report, which states how many it leaves out."""
JSON_CHARS = 4_000
CELL_CHARS = 160


def short(value: Any) -> str:
    """A value for a table cell."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return one_line(value, at_most=CELL_CHARS)
    return one_line(as_json(_rounded(value), indent=None), at_most=CELL_CHARS)


def _rounded(value: Any) -> Any:
    """A list of numbers rounded to four digits."""
    if isinstance(value, (list, tuple)):
        return [float(f"{one:.4g}") if isinstance(one, float) else one for one in value]
    return value


ROWS_SHOWN = 30
"""Largest number of criteria, claims, quotes and votes shown."""
TEXT_SHOWN = 2_000
"""Largest number of characters of a reason, an explanation or a quote."""

_SHOWN_KEYS = frozenset(
    {"reason", "evidence", "criteria", "claims", "aspects", "signals", "votes", "model", "tokens", "cost_usd"}
    | {"latency_seconds", "requests", "shared_by", "prompt", "samples", "samples_asked", "level", "panel"}
    | {"passed_over", "evidence_similarity", "acceptance"}
)
"""Keys of a judgement's detail that have their own place on the page; the others are shown as JSON."""


def quotes_of(scores: Sequence[Score]) -> list[str]:
    """All distinct quotes of an attempt's judges; their positions in the list, from 1, number them."""
    found: dict[str, None] = {}
    for score in scores:
        if score.tier == "judge":
            found |= dict.fromkeys(row["quote"] for row in _evidence(score.detail))
    return list(found)


def judgement_context(score: Score, quotes: Sequence[str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Values for the template of a judgement.

    Args:
        score: A score of the judge tier.
        quotes: All quotes of the attempt, in the order of their numbers.
        texts: The texts of the attempt, folded for matching, by their names on the page.
    """
    detail = score.detail
    return {
        "name": one_line(score.name),
        "value": score.value,
        "status": score.status,
        "level": _line(detail.get("level")),
        "acceptance": _acceptance(dict_(detail.get("acceptance"))),
        "method": _line(score.method),
        "reason": _text(score.reason),
        "tables": list(_tables(detail)),
        "evidence": [_quote(row, quotes, texts) for row in _evidence(detail)],
        "signals": [
            (wording.words(one_line(name)), short(value))
            for name, value in dict_(detail.get("signals")).items()
            if value is not None
        ],
        "no_signals": _without_value(dict_(detail.get("signals"))),
        "similarity": _line(detail.get("evidence_similarity")),
        "votes": table(VOTES, votes, label="Votes") if (votes := _rows(detail.get("votes"))) else None,
        "panel": _panel(dict_(detail.get("panel"))),
        "samples": _samples(detail),
        "facts": list(_facts(detail)),
        "passed_over": [_text(each) for each in list_(detail.get("passed_over"))[:ROWS_SHOWN]],
        "more": marked(
            {name: value for name, value in detail.items() if name not in _SHOWN_KEYS} or None,
            at_most=JSON_CHARS,
        ),
    }


VERDICTS: dict[str, Tone] = {"supported": "good", "yes": "good", "contradicted": "bad", "no": "bad"}

Row = Mapping[str, Any]


def _text_of(key: str, tone: Tone = "") -> Callable[[Row], Toned]:
    return lambda row: Toned(_text(row.get(key)) or "", tone)


def _judged(key: str) -> Callable[[Row], Toned]:
    return lambda row: Toned(said := _text(row.get(key)) or "", VERDICTS.get(said, "warn"))


def _strong(row: Row) -> Toned:
    return Toned(_line(row.get("score")) or wording.NOTHING, "strong")


CRITERIA: tuple[Column[Row], ...] = (
    Column("criterion", lambda row: row["name"], "text"),
    Column("score", _strong),
    Column("explanation", _text_of("explanation"), "text"),
)
CLAIMS: tuple[Column[Row], ...] = (
    Column("claim", _text_of("claim"), "text"),
    Column("found", _text_of("quote"), "text"),
    Column("reasoning", _text_of("reasoning"), "text"),
    Column("importance", _text_of("importance", "quiet"), "text"),
    Column("verdict", _judged("verdict"), "mark"),
)
ASPECTS: tuple[Column[Row], ...] = (
    Column("aspect", _text_of("aspect"), "text"),
    Column("covered", _judged("covered"), "mark"),
    Column("where", _text_of("quote"), "text"),
)


def _tables(detail: Row) -> Iterator[Table]:
    """Yield what the judge said of criteria, claims and aspects."""
    criteria = list(dict_(detail.get("criteria")).items())[:ROWS_SHOWN]
    named = [dict_(each) | {"name": wording.words(one_line(name))} for name, each in criteria]
    claims, aspects = _rows(detail.get("claims")), _rows(detail.get("aspects"))
    for label, columns, rows in (
        ("Criteria", CRITERIA, named),
        ("Claims", CLAIMS, claims),
        ("Aspects", ASPECTS, aspects),
    ):
        if rows:
            yield table(columns, rows, label=label)


NO_SIGNAL = {
    "token_": "no token probabilities came with the answer",
    "consistency_": "fewer than two samples",
    "panel_": "fewer than two votes",
    "retrieval_": "no source, passage or encoder to compare its quotes with",
    "verbalized_": "it stated none",
}
"""Why signals have no value, by the beginning of their names."""


def _without_value(signals: Mapping[str, Any]) -> str:
    """The names of the signals that have no value, by the reason."""
    names: dict[str, list[str]] = {}
    for name in (name for name, value in signals.items() if value is None):
        why = next((why for start, why in NO_SIGNAL.items() if name.startswith(start)), "not given")
        names.setdefault(why, []).append(wording.words(one_line(name)))
    return "; ".join(f"{', '.join(each)} ({why})" for why, each in names.items())


def _evidence(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = [dict_(each) for each in list_(detail.get("evidence"))[:ROWS_SHOWN]]
    return [row for row in rows if isinstance(row.get("quote"), str)]


def _acceptance(mark: Mapping[str, Any]) -> str | None:
    """The certificate's decision: accepted or to people, with the confidence and the reason."""
    answer, value, why = _line(mark.get("answer")), mark.get("confidence"), _line(mark.get("why"))
    if not answer:
        return None
    confidence = f", confidence {wording.number(value)}" if is_number(value) else ""
    return f"{answer}{confidence}{f': {why}' if why else ''}"


def _quote(row: Mapping[str, Any], quotes: Sequence[str], texts: Mapping[str, str]) -> dict[str, Any]:
    quote, parts = row["quote"], quote_parts(row["quote"])
    return {
        "text": _text(quote),
        "number": quotes.index(quote) + 1,
        "found": row.get("found") is True,
        "too_short": row.get("too_short") is True,
        "turn": count(row.get("turn")),
        "where": [name for name, text in texts.items() if places(parts, text)],
    }


def _voted(vote: Row) -> Lines:
    value = vote.get("value")
    said = wording.number(value) if is_number(value) else "abstained" if value is None else short(value)
    return Lines((Toned(said, "strong"), Toned(_line(vote.get("level")) or "", "quiet")))


def _why_voted(vote: Row) -> Lines:
    criteria = ", ".join(
        f"{one_line(name)} {_line(dict_(each).get('score')) or wording.NOTHING}"
        for name, each in list(dict_(vote.get("criteria")).items())[:ROWS_SHOWN]
    )
    return Lines((_text_of("reason")(vote), Toned(criteria, "quiet")))


def _measured(vote: Row) -> Lines:
    signals = ", ".join(
        f"{wording.words(one_line(name))} {short(signal)}"
        for name, signal in dict_(vote.get("signals")).items()
        if signal is not None
    )
    return Lines((Toned(signals), Toned(" · ".join(_facts(vote, votes=True)))))


VOTES: tuple[Column[Row], ...] = (
    Column("judge", lambda vote: _line(vote.get("model")) or wording.NOTHING, "text"),
    Column("vote", _voted),
    Column("reason", _why_voted, "text"),
    Column("signals and cost", _measured, "text"),
)


def _panel(panel: Mapping[str, Any]) -> str:
    """How many judges of a panel did not vote, and why."""
    asked, failed = panel.get("asked"), list_(panel.get("failed"))
    if not is_number(asked) or not failed:
        return ""
    reasons = "; ".join(
        f"{_line(dict_(each).get('model'))}: {_line(dict_(each).get('reason'))}"
        for each in failed[:ROWS_SHOWN]
    )
    return f"{len(failed):,} of {asked:,} judges did not vote. {reasons}"


def _samples(detail: Mapping[str, Any]) -> str:
    samples, asked = list_(detail.get("samples")), detail.get("samples_asked")
    if not samples:
        return ""
    shown = ", ".join(
        wording.number(each) if is_number(each) else "abstained" for each in samples[:ROWS_SHOWN]
    )
    lost = asked - len(samples) if isinstance(asked, int) and asked > len(samples) else 0
    return f"{shown}{f'; {lost:,} lost' if lost else ''}"


def _facts(detail: Mapping[str, Any], *, votes: bool = False) -> list[str]:
    """Model, tokens, cost and the like, in a few words each."""
    measured: list[tuple[str, Callable[[Any], str]]] = [
        ("cost_usd", lambda cost: f"${cost:.6f}".rstrip("0").rstrip(".")),
        ("latency_seconds", wording.seconds),
        ("requests", lambda count: counted(count, "request")),
    ]
    facts = [] if votes or not detail.get("model") else [str(_line(detail.get("model")))]
    tokens = dict_(detail.get("tokens"))
    facts += [
        f"{tokens[kind]:,} {kind} tokens" for kind in ("input", "output") if is_number(tokens.get(kind))
    ]
    facts += [render(detail[name]) for name, render in measured if is_number(detail.get(name))]
    shared = detail.get("shared_by")
    if isinstance(shared, int) and shared > 1:
        facts.append(f"tokens, cost and requests cover {shared:,} dimensions")
    if not votes and isinstance(detail.get("prompt"), str):
        facts.append(f"prompt {_line(detail['prompt'])}")
    return facts


def _rows(given: Any) -> list[Mapping[str, Any]]:
    return [dict_(each) for each in list_(given)[:ROWS_SHOWN]]


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else short(value)
    return visible(text[:TEXT_SHOWN]) + ("…" if len(text) > TEXT_SHOWN else "")


def _line(value: Any) -> str | None:
    return None if value is None else short(value)


SEARCHED_CHARS = 200_000
"""Characters of a text that are searched for quotes."""
PLACES_SHOWN = 20
"""Largest number of marked occurrences of one quote in one text."""
AROUND_CHARS = 240
"""Characters of a document shown before and after a quote."""

Span = tuple[int, int, int]
"""Start and end of a quote in a text, and its number."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text.

    Attributes:
        text: The original characters.
        quotes: Numbers of the quotes that contain it.
        gap: Number of characters left out before it.
    """

    text: str
    quotes: tuple[int, ...] = ()
    gap: int = 0


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """A text in pieces, ready to show.

    Attributes:
        head: The visible part.
        rest: The folded part.
        rest_chars: Length of the folded part.
        chars: Length of the whole text.
        left_out: Number of characters after the last piece that are not in the report.
        is_json: Whether it is a value written as JSON rather than a text.
    """

    head: tuple[Piece, ...]
    rest: tuple[Piece, ...]
    rest_chars: int
    chars: int
    left_out: int
    is_json: bool = False

    @property
    def rest_open(self) -> bool:
        """Whether the folded part contains a quote."""
        return any(piece.quotes for piece in self.rest)


def quotes_in(text: str, quotes: Sequence[str]) -> list[Span]:
    """Where quotes, or their parts, occur in a text, in the order of the text.

    Args:
        text: The text; its first 200,000 characters are searched.
        quotes: Numbered from 1; an empty quote is never found.
    """
    if not quotes:
        return []
    text = text[:SEARCHED_CHARS]
    numbered = [(number, quote_parts(quote)) for number, quote in enumerate(quotes, 1)]
    whole = fold_text(text)
    numbered = [(number, parts) for number, parts in numbered if places(parts, whole)]
    if not numbered:
        return []
    whole, origins = _mapped(text)
    spans: list[Span] = []
    for number, parts in numbered:
        found = places(parts, whole)
        for _ in range(PLACES_SHOWN):
            if not found:
                break
            spans += [(origins[first], origins[last - 1] + 1, number) for first, last in found]
            found = places(parts, whole, found[-1][1])
    return sorted(spans)


def marked(value: object, quotes: Sequence[str] = (), *, at_most: int = TEXT_CHARS) -> Marked | None:
    """A text or any JSON value, ready to show, with the quotes marked; None if empty."""
    if value is None or value == "":
        return None
    is_json = not isinstance(value, str)
    text = as_json(value) if is_json else str(value)
    shown = text[:at_most]
    spans = quotes_in(shown, quotes)
    split = len(shown) if len(shown) <= HEAD_CHARS else _end_of_head(shown, spans)
    return Marked(
        head=tuple(_pieces(shown, spans, 0, split)),
        rest=tuple(_pieces(shown, spans, split, len(shown))),
        rest_chars=len(shown) - split,
        chars=len(text),
        left_out=len(text) - len(shown),
        is_json=is_json,
    )


def spoken(messages: Iterable[Any], quotes: Sequence[str]) -> list[tuple[str, bool, Marked | None]]:
    """The messages of a chat: who speaks, whether it is the agent, and what is said; empty for no chat."""
    shown: list[tuple[str, bool, Marked | None]] = []
    chars = 0
    for message in messages:
        role = message["role"]
        said = (dialogue_text([message]) or "").removeprefix(f"{role}: ")
        if (chars := chars + len(said)) > TEXT_CHARS:
            return []  # shown as a text, which says how much of it is left out
        shown.append((one_line(role, at_most=60), "assistant" in role, marked(said, quotes)))
    return shown


def excerpts(text: str, quotes: Sequence[str]) -> Marked | None:
    """The parts of a document around the quotes in it; None without any."""
    spans = quotes_in(text, quotes)
    if not spans:
        return None
    windows: list[list[int]] = []
    for start, stop, _ in spans:
        begin, end = max(0, start - AROUND_CHARS), min(len(text), stop + AROUND_CHARS)
        if windows and begin <= windows[-1][1]:
            windows[-1][1] = max(end, windows[-1][1])
        else:
            windows.append([begin, end])
    pieces: list[Piece] = []
    shown, before = 0, 0
    for begin, end in windows:
        if shown >= TEXT_CHARS:
            break
        first, *others = _pieces(text, spans, begin, end)
        pieces += [msgspec.structs.replace(first, gap=begin - before), *others]
        shown, before = shown + end - begin, end
    return Marked(head=tuple(pieces), rest=(), rest_chars=0, chars=len(text), left_out=len(text) - before)


def _mapped(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters the index of the original one."""
    pieces: list[str] = []
    origins: list[int] = []
    space: int | None = None
    for place, character in enumerate(text):
        if character.isspace():
            space = place if space is None else space
            continue
        if character in QUOTATION_MARKS:
            continue
        if space is not None and pieces:
            pieces.append(" ")
            origins.append(space)
        space = None
        plain = character.casefold()
        pieces.append(plain)
        origins += [place] * len(plain)
    return "".join(pieces), origins


def _pieces(text: str, spans: Sequence[Span], begin: int, end: int) -> Iterator[Piece]:
    """The text from begin to end, cut wherever a quote begins or ends."""
    inside = [span for span in spans if span[0] < end and begin < span[1]]
    cuts = {begin, end, *(cut for span in inside for cut in span[:2] if begin < cut < end)}
    edges = sorted(cuts)
    for start, stop in pairwise(edges):
        quotes = {number for first, last, number in inside if first <= start and stop <= last}
        yield Piece(text=text[start:stop], quotes=tuple(sorted(quotes)))


def _end_of_head(text: str, spans: Sequence[Span]) -> int:
    """Where to fold: at white space near the limit, and never inside a quote."""
    for place in range(HEAD_CHARS, HEAD_CHARS - 80, -1):
        if text[place].isspace():
            break
    else:
        place = HEAD_CHARS
    return max([place, *(stop for start, stop, _ in spans if start < place < stop)])
