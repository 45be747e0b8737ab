"""A search over inputs, outputs, case ids and judges' reasons of all attempts, newest runs first.

The index (``search_index.py``) gives the attempts that have all words; phrases are then looked for in the
texts themselves.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, cast, literal_column, select
from sqlalchemy.dialects.postgresql import TSQUERY

from trivium.safe_text import sanitise
from trivium.store import schema
from trivium.store.browsing.documents import Document, documents_of, key_of, numbers_of_run
from trivium.store.browsing.search_index import INDEX, IndexProgress, has_index, index_progress, index_table
from trivium.store.browsing.words import Wanted, folded, folded_with_places, wanted
from trivium.store.connection import explain_errors
from trivium.store.records import RunKind, RunRecord
from trivium.store.store import Store
from trivium.values import JsonObject

__all__ = ["COUNTED", "Excerpt", "Found", "Hit", "Piece", "search"]

COUNTED: Final = 50
"""Attempts that have the words are counted up to here."""

NEWEST: Final = 16_000
"""Attempts, the newest ones, among which PostgreSQL looks first."""

QUERY_CHARACTERS: Final = 10_000
READ_AT_ONCE: Final = 40
MOST_READ: Final = 120
"""Attempts whose texts one search reads, to look for phrases in them."""

BEFORE, AFTER = 60, 180
"""Characters of an excerpt before the first place and after it."""

_LARGEST: Final = 2**63 - 1

FIELDS: Final = ("output", "input", "reason", "error", "case")


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an excerpt.

    Attributes:
        text: What is written there.
        marked: Whether it was looked for.
    """

    text: str
    marked: bool = False


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a text.

    Attributes:
        field: The text: ``output``, ``input``, ``reason`` (of a judge), ``error`` or ``case`` (its id).
        pieces: The words around the place, in order.
    """

    field: str
    pieces: tuple[Piece, ...]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was found.

    Attributes:
        run: Id of the run.
        suite: Name of its suite.
        kind: Origin of its outputs.
        started: Unix time at which the run began, in seconds.
        case: Id of the case.
        repeat: Which attempt of the case.
        passed: Whether it passed; None if that cannot be said.
        composite: In [0, 1], or None.
        excerpts: Places in its texts.
    """

    run: str
    suite: str
    kind: RunKind
    started: float
    case: str
    repeat: int
    passed: bool | None
    composite: float | None
    excerpts: tuple[Excerpt, ...]

    @property
    def field(self) -> str | None:
        """The field of the first excerpt."""
        return self.excerpts[0].field if self.excerpts else None

    @property
    def excerpt(self) -> str | None:
        """The text of the first excerpt."""
        return "".join(piece.text for piece in self.excerpts[0].pieces) if self.excerpts else None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what a search found.

    Attributes:
        hits: The attempts, newest runs first.
        total: Attempts that have all the words, counted up to ``COUNTED``.
        more: Whether there are more than ``total``.
        phrases: Whether the words must also be next to one another, so that ``total`` is the most there are.
        words: Whether the query has a word at all.
        left_out: Words of the query past the most that are looked for.
        progress: How much of the store can be searched.
        next: What ``before`` has to be for the next page; None on the last one. A text of digits: the
            number is larger than a JavaScript number can be.
    """

    hits: tuple[Hit, ...] = ()
    total: int = 0
    more: bool = False
    phrases: bool = False
    words: bool = True
    left_out: int = 0
    progress: IndexProgress
    next: str | None = None


def search(
    store: Store, query: str, *, run: RunRecord | None = None, before: str | None = None, limit: int = 20
) -> Found:
    """Look for attempts that have all words of a query.

    Args:
        store: The store.
        query: Words, and phrases in double quotes; the last word may be only begun. Nothing in it is an
            operator.
        run: Only attempts of this run.
        before: ``next`` of the page before.
        limit: Maximum number of attempts on the page.
    """
    looked_for = wanted(sanitise(query[:QUERY_CHARACTERS])[0])
    progress = index_progress(store)
    if not looked_for.chunks or not has_index(store):
        return Found(progress=progress, words=bool(looked_for.chunks), left_out=looked_for.left_out)
    phrases = any(chunk.phrase for chunk in looked_for.chunks)
    hits: list[Hit] = []
    at = None if before is None else min(int(before), _LARGEST)
    following: int | None = None
    with explain_errors(store.engine), store.engine.connect() as connection:
        numbers = _Numbers(connection, looked_for, run)
        read = 0
        while True:
            page = numbers.page(at, min(READ_AT_ONCE, limit + 1) if not phrases else READ_AT_ONCE)
            for number, hit in _hits(connection, page, looked_for, store=store.name):
                if len(hits) == limit:
                    following = at
                    break
                at = number
                if hit is not None:
                    hits.append(hit)
            read += len(page)
            if following is not None or len(page) < 1 or read >= MOST_READ:
                break
    if following is None and read >= MOST_READ:
        following = at
    return Found(
        hits=tuple(hits),
        total=min(numbers.count, COUNTED),
        more=numbers.count > COUNTED,
        phrases=phrases,
        left_out=looked_for.left_out,
        progress=progress,
        next=None if following is None else str(following),
    )


class _Numbers:
    """Asks the index which attempts have the words."""

    def __init__(self, connection: Connection, looked_for: Wanted, run: RunRecord | None) -> None:
        self._connection = connection
        self._looked_for = looked_for
        self._range = None if run is None else numbers_of_run(run.number)
        self._first = self._newest(None, COUNTED + 1)

    @property
    def count(self) -> int:
        """How many there are, up to one more than ``COUNTED``."""
        return len(self._first)

    def page(self, before: int | None, limit: int) -> list[int]:
        """The next numbers, falling."""
        known = [number for number in self._first if before is None or number < before][:limit]
        return known if len(known) == limit or self.count <= COUNTED else self._newest(before, limit)

    def _newest(self, before: int | None, limit: int) -> list[int]:
        """The highest numbers below one, falling.

        PostgreSQL would read either all attempts in order or each one that has a rare word, wherever it
        lies: it looks among the newest ones first.
        """
        query, key = self.query(self._connection.dialect.name)
        query = query.limit(limit)
        if before is not None:
            query = query.where(key < before)
        if self._connection.dialect.name == "sqlite":
            return list(self._connection.execute(query.order_by(key.desc())).scalars())
        scope = select(key) if self._range is None else select(key).where(key.between(*self._range))
        scope = (scope if before is None else scope.where(key < before)).order_by(key.desc()).limit(1)
        last = self._connection.execute(scope).scalar()
        low = self._connection.execute(scope.offset(NEWEST)).scalar()
        first, order = 0 if self._range is None else self._range[0], key
        if last is None:
            return []
        while True:
            low = first if low is None else max(first, low)
            found = list(self._connection.execute(query.where(key >= low).order_by(order.desc())).scalars())
            if len(found) == limit or low == first:
                return found
            low = last - int((last - low) * max(4, 1.5 * limit / (len(found) or 1)))
            # Words that few of the newest have are looked up; an index of the order would lead through all.
            order = key + 0

    def query(self, dialect: str) -> tuple[Select[Any], Any]:
        """The query of the numbers, and the column that holds them."""
        index, key = index_table(dialect)
        words, prefix = self._looked_for.words, self._looked_for.prefix
        if dialect == "sqlite":
            terms = [_quoted(word) for word in words] + ([_quoted(prefix) + "*"] if prefix else [])
            test = literal_column(INDEX).op("MATCH")(" ".join(terms))
        else:
            terms = [_lexeme(word) for word in words] + ([_lexeme(prefix) + ":*"] if prefix else [])
            test = index.c.words.op("@@")(cast(" & ".join(terms), TSQUERY))
        query = select(key).where(test)
        if self._range is not None:
            query = query.where(key.between(*self._range))
        return query, key


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _lexeme(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _hits(
    connection: Connection, numbers: Sequence[int], looked_for: Wanted, *, store: str
) -> list[tuple[int, Hit | None]]:
    """The attempts with these numbers; None for one that is gone, or has not the phrases."""
    if not numbers:
        return []
    table = schema.runs
    named = (table.c.id.label("run"), table.c.suite_name.label("suite"), table.c.kind)
    query = select(table.c.number, *named, table.c.created.label("started")).where(
        table.c.number.in_({key_of(number, kind="live")[0] for number in numbers})
    )
    runs = {row.pop("number"): row for row in map(dict, connection.execute(query).mappings())}
    keys = {}
    for number in numbers:
        run = runs.get(key_of(number, kind="live")[0])
        if run is not None:
            keys[number] = key_of(number, kind=run["kind"])
    documents = documents_of(connection, list(keys.values()), store=store)
    patterns = [re.compile(chunk.pattern) for chunk in looked_for.chunks]
    needed = [pattern for pattern, chunk in zip(patterns, looked_for.chunks, strict=True) if chunk.phrase]
    found: list[tuple[int, Hit | None]] = []
    for number in numbers:
        document = documents.get(keys.get(number, (0, 0, 0)))
        excerpts = None if document is None else _excerpts(document, patterns, needed)
        if document is None or excerpts is None:
            found.append((number, None))
            continue
        row, _, repeat = keys[number]
        judged: JsonObject = {"passed": document.passed, "composite": document.composite}
        hit = Hit(**runs[row], case=document.case, repeat=repeat, excerpts=excerpts, **judged)
        found.append((number, hit))
    return found


def _excerpts(
    document: Document, patterns: Sequence["re.Pattern[str]"], needed: Sequence["re.Pattern[str]"]
) -> tuple[Excerpt, ...] | None:
    """An excerpt of each text that has something of the query; None if a needed phrase is in none of them."""
    excerpts = []
    texts = [folded(text) for text in document.fields.values()] if needed else []
    if not all(any(pattern.search(each) for each in texts) for pattern in needed):
        return None
    for field in FIELDS:
        original = document.fields.get(field)
        if not original:
            continue
        compared, places = folded_with_places(original)
        firsts = [match.start() for pattern in patterns if (match := pattern.search(compared))]
        if not firsts:
            continue
        first = min(firsts)
        start, end = max(0, places[first] - BEFORE), min(len(original), places[first] + AFTER)
        if start < BEFORE // 2:
            start = 0
        spans = []
        for pattern in patterns:
            for match in pattern.finditer(compared, first):
                if places[match.start()] >= end:
                    break
                spans.append((places[match.start()], _end(places, match.end(), original)))
        excerpts.append(Excerpt(field=field, pieces=_marked(original, start, end, spans)))
    return tuple(excerpts)


def _end(places: Sequence[int], end: int, original: str) -> int:
    """Where in the original the character before a place in the compared text ends."""
    last = places[end - 1]
    while end < len(places) and places[end] == last:
        end += 1
    return places[end] if end < len(places) else len(original)


def _marked(original: str, start: int, end: int, spans: list[tuple[int, int]]) -> tuple[Piece, ...]:
    pieces = [Piece(text="…")] if start else []
    at = start
    for begin, finish in sorted(spans):
        first, last = max(begin, at), min(finish, max(end, begin + AFTER))
        if last <= first:
            continue
        if first > at:
            pieces.append(Piece(text=original[at:first]))
        pieces.append(Piece(text=original[first:last], marked=True))
        at = last
    if at < end:
        pieces.append(Piece(text=original[at:end]))
    if max(at, end) < len(original):
        pieces.append(Piece(text="…"))
    return tuple(pieces)
