"""A comparison as blocks, and as Markdown and a page of its own."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from urllib.parse import quote, urlsplit

from trivium.errors import InputError, StoreError
from trivium.reports import comparison_text as phrases
from trivium.reports.comparison_text import ComparedFigure
from trivium.reports.document.blocks import (
    Block,
    Case,
    Cases,
    Column,
    Drawing,
    Fold,
    Mark,
    Paragraph,
    Picture,
    Remarks,
    Section,
    Surface,
    Table,
    Title,
    Toned,
    table,
)
from trivium.reports.moved_cases.shown import case_block, what_moved
from trivium.reports.wording import number, probability, seconds, share, signed, signed_interval
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.graph_diff import EdgeChange, GraphComparison, PaceChange
from trivium.runs.comparing.moved_cases import MovedCase, MovedCases
from trivium.safe_text import one_line

CASES: dict[Surface, int] = {"terminal": 3, "comment": 5, "notebook": 5}
"""Moved cases with their texts, unless another number is asked for; a page has all."""
TEXT_CHARS: dict[Surface, int] = {"terminal": 240, "comment": 600, "notebook": 1_000, "page": 6_000}
"""Longest text of a case in characters: in a terminal, three lines of 80 columns."""
CALLS: dict[Surface, int] = {"terminal": 8, "comment": 12, "notebook": 20, "page": 100}
"""Tool calls of a case."""
GRAPH_ROWS: dict[Surface, int] = {"terminal": 15, "comment": 15, "notebook": 15, "page": 60}
"""Rows in each table of edges and times; the others are counted."""
FURTHER: dict[Surface, str] = {
    "terminal": "not shown (--cases {total}, --html)",
    "comment": "not shown; the page of trivium compare --html has all",
    "notebook": "not shown; comparison.moved_cases has all",
}
"""Where the cases are that are not shown."""


def describe(
    comparison: Comparison,
    surface: Surface,
    *,
    cases: int | None = None,
    moved: Iterable[Block] | None = None,
) -> Iterator[Block]:
    """Yield the blocks of a comparison: the answer, what changed, the figures, the reservations.

    Args:
        comparison: The comparison.
        surface: Where it is shown.
        cases: Largest number of moved cases with their texts; None for as many as are usual there.
        moved: The cases that moved, for a page.
    """
    pairs = phrases.pairs_compared(comparison)
    if surface != "page":  # a page has them in its head
        beside = " against ".join(phrases.called(comparison, side) for side in ("head", "base"))
        yield Title(text=comparison.suite, beside=beside, answer=comparison.answer)
        if surface != "comment":
            yield Paragraph((pairs,))
    drawn = surface in {"page", "notebook"}
    yield phrases.answer(comparison, pairs if surface == "comment" else "", apart=drawn)
    if drawn:
        yield _differences(comparison)
    if words := what_moved(comparison.moved_cases):
        found = _moved(comparison.moved_cases, surface, cases) if moved is None else moved
        yield Section(title="what changed", beside=words, blocks=found, key="moved")
    yield from _figures(comparison, surface)
    if comparison.slices:
        from trivium.reports.slices import compared_slices

        for place, by in enumerate(comparison.slices, 1):
            yield compared_slices(comparison, by, surface, place=place)
    if comparison.graphs is not None and comparison.graphs.cases:
        yield _graphs(comparison.graphs, GRAPH_ROWS[surface])
    yield from _reservations(comparison, surface)


def _differences(comparison: Comparison) -> Section:
    from trivium.reports.forest import forest

    drawn: list[Block] = [Drawing((Picture(forest(comparison)),)), Paragraph((FOREST_NOTE,), "quiet")]
    return Section(title="difference of each metric", blocks=drawn, key="differences")


def _figures(comparison: Comparison, surface: Surface) -> Iterator[Block]:
    if surface == "page":
        note = f"{phrases.note(comparison)}. {FIGURES_NOTE}"
        yield Section(title="metrics", blocks=[figures(comparison, note)], key="figures")
        return
    yield figures(comparison)


def _reservations(comparison: Comparison, surface: Surface) -> Iterator[Block]:
    if surface == "page":
        if remarks := (*comparison.warnings, *phrases.outlook(comparison)):
            yield Section(title="how to read this", blocks=[Remarks(remarks)])
        yield from _unpaired(comparison)
        return
    yield Paragraph(tuple(phrases.outlook(comparison)))
    yield Remarks(comparison.warnings)
    runs = [", ".join(phrases.sides(comparison))] if surface == "comment" else []
    lines = (phrases.rule(comparison), phrases.note(comparison), phrases.TERMS, *runs)
    yield Paragraph(lines, "quiet")


FOREST_NOTE = (
    "Each dot is the mean difference over the cases that both runs have, each line its interval. A metric is "
    "proven to be no worse if the whole line lies right of the dashed margin, and worse if its loss is "
    "significant (p). Metrics in bold decide."
)


def figures(comparison: Comparison, note: str = "") -> Table:
    """The table of a comparison's figures, those that decide first, with a note below it."""
    columns: list[Column[ComparedFigure]] = [
        Column("proven", lambda row: Mark(row.figure.answer, phrases.PROVEN[row.figure.answer]), "mark"),
        Column("metric", lambda row: Toned(row.name, "strong" if row.decides else ""), "name"),
        Column("base", lambda row: number(row.figure.base), where="wide"),
        Column("head", lambda row: number(row.figure.head), where="wide"),
        Column("delta", lambda row: Toned(signed(row.figure.delta), "strong")),
        Column("interval", lambda row: phrases.interval_of(row.figure, comparison), "interval"),
        Column("p", lambda row: probability(row.figure.p), where="page"),
        Column("p (Holm)", lambda row: probability(row.figure.p_holm)),
        Column("share > 0", lambda row: number(row.figure.share_positive), where="page"),
        Column("wins/losses/ties", lambda row: phrases.wins_losses_ties(row.figure), "tally", brief="+/−/="),
        Column("detectable", lambda row: number(row.figure.mde), where="page"),
        Column("needs", lambda row: phrases.further_cases(row.figure)),
        Column("cases", lambda row: f"{row.figure.n:,}", where="page"),
        Column("groups", lambda row: f"{row.figure.groups:,}", where="page"),
    ]
    return table(columns, phrases.rows(comparison), label="Metrics", notes=(note,))


FIGURES_NOTE = (
    "Detectable: smallest true difference found with 80 % power. Needs: further cases that would settle it. "
    "p (Holm) is adjusted for the number of metrics. Share > 0: share of the resampled differences above 0."
)


def _graphs(graphs: GraphComparison, most: int) -> Section:
    edges: list[Column[EdgeChange]] = [
        Column(
            "change", lambda one: Toned(phrases.change_word(one), "warn" if one.sure else "quiet"), "mark"
        ),
        Column("edge", phrases.edge_text, "name"),
        Column("base", lambda one: number(one.base)),
        Column("head", lambda one: number(one.head)),
        Column("delta", lambda one: Toned(signed(one.delta), "strong")),
        Column("interval", lambda one: signed_interval(one.ci95), "interval"),
        Column(
            "share of attempts",
            lambda one: f"{share(one.share_base)} → {share(one.share_head)}",
            where="page",
        ),
        Column("more / fewer", lambda one: f"{one.groups_more} / {one.groups_fewer}", where="page"),
        Column("p (Holm)", lambda one: probability(one.p_holm)),
    ]
    paces: list[Column[PaceChange]] = [
        Column("change", lambda one: Toned(phrases.change_word(one), phrases.pace_tone(one)), "mark"),
        Column("median time", lambda one: f"{one.kind} {one_line(one.name, at_most=40)}", "name"),
        Column("base", lambda one: seconds(one.base)),
        Column("head", lambda one: seconds(one.head)),
        Column("factor", lambda one: Toned(phrases.factor(one.factor), "strong")),
        Column("interval", lambda one: phrases.factors(one.ci95), "interval"),
        Column("slower / faster", lambda one: f"{one.groups_slower} / {one.groups_faster}", where="page"),
        Column("cases", lambda one: f"{one.cases:,}", where="page"),
        Column("p (Holm)", lambda one: probability(one.p_holm)),
    ]
    blocks: list[Block] = [Paragraph((phrases.traces_compared(graphs), phrases.edges_changed(graphs)))]
    blocks += [table(edges, graphs.edges[:most], label="Edges")] if graphs.edges else []
    blocks += [table(paces, graphs.paces[:most], label="Times")] if graphs.paces else []
    notes = (phrases.rows_left_out(graphs, most), phrases.graph_note(graphs))
    blocks.append(Paragraph(tuple(filter(None, notes)), "quiet"))
    return Section(title="changes in the traces", blocks=blocks, key="graphs")


def _unpaired(comparison: Comparison) -> Iterator[Section]:
    for side, cases in (("base", comparison.only_base), ("head", comparison.only_head)):
        if cases:
            names = Paragraph((", ".join(one_line(case) for case in cases),))
            yield Section(title=f"cases only in {side} ({len(cases):,})", blocks=[names])


def _moved(moved: MovedCases, surface: Surface, cases: int | None) -> Iterator[Block]:
    """Yield the first moved cases, for other places than a page."""
    most = CASES[surface] if cases is None else cases
    try:
        shown = tuple(case_block(each, TEXT_CHARS[surface], CALLS[surface]) for each in moved.first(most))
    except StoreError as error:
        yield Paragraph((f"The outputs cannot be read: {error}",))
        return
    if most:
        yield Cases(cases=shown, total=len(moved), further=FURTHER[surface].format(total=len(moved)))


def render_markdown(comparison: Comparison, *, cases: int | None = None) -> str:
    """The comparison as GitHub-flavoured Markdown, short enough for a comment; untrusted text is escaped.

    Args:
        comparison: The comparison.
        cases: Largest number of moved cases shown with their outputs.
    """
    from trivium.reports.document.markdown import markdown

    return markdown(describe(comparison, "comment", cases=cases))


def write_html(
    path: str | os.PathLike[str], comparison: Comparison, *, links: Mapping[str, str] | None = None
) -> None:
    """Write the comparison as an HTML page, with all cases that moved.

    The cases are read from the stores and written one after another, so memory does not grow with them.

    Args:
        path: The file; an existing file is replaced only when the new one is complete.
        comparison: The comparison.
        links: Pages to link to, by what they show: ``base`` and ``head`` are the pages of the runs, which
            every case links to; any other name is the text of a further link. Addresses are relative to
            this page, or begin with ``https:`` or ``http:``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written, or a link is of another kind.
        StoreError: If the cases cannot be read.
    """
    from trivium.reports.html.shell import page, write_atomically

    target = Path(path)
    links = {name: checked_link(link) for name, link in (links or {}).items()}
    runs = {"base": "Run base", "head": "Run head"}
    parts = page(
        describe(comparison, "page", moved=_folded_pages(comparison.moved_cases, links)),
        brand="Trivium comparison",
        heading=comparison.suite,
        answer=phrases.verdict_words(comparison),
        meta=[*phrases.sides(comparison), phrases.pairs_compared(comparison)],
        links={runs.get(name, name): link for name, link in links.items()},
    )
    try:
        write_atomically(target, parts)
    except OSError as error:
        raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


CASES_AT_FIRST = 10
"""Cases in the open, so that the figures are not far below."""
CASES_AT_ONCE = 50
"""Cases on each folded page after them."""


def _folded_pages(moved: MovedCases, links: Mapping[str, str]) -> Iterator[Block]:
    """Yield all moved cases, in folded pages after the first."""
    from trivium.reports.view import anchor

    def pages_of(case: str, repeat: int) -> dict[str, str]:
        return {side: f"{link}#{anchor(case, repeat)}" for side, link in links.items()}

    cases, total = page_cases(moved, pages_of), len(moved)
    for start in (0, *range(CASES_AT_FIRST, total, CASES_AT_ONCE)) if total else ():
        end = min(start + CASES_AT_ONCE if start else CASES_AT_FIRST, total)
        some = Cases(cases=islice(cases, end - start), total=total)
        yield Fold(f"Cases {start + 1:,} to {end:,} of {total:,}", [some]) if start else some


def page_cases(
    moved: Iterable[MovedCase], pages_of: Callable[[str, int], Mapping[str, str]]
) -> Iterator[Case]:
    """Yield moved cases for a page.

    Args:
        moved: The cases.
        pages_of: Gives the addresses of an attempt on the pages of ``base`` and ``head``.
    """
    for each in moved:
        pages = pages_of(each.case.id, each.head.attempt.repeat)
        yield case_block(each, TEXT_CHARS["page"], CALLS["page"], pages=pages)


def checked_link(link: str) -> str:
    """An address that is safe in a page: a relative path, http or https.

    Raises:
        InputError: If it is anything else.
    """
    try:
        parts = urlsplit(link)
    except ValueError as error:
        raise InputError(repr(one_line(link)), f"is no address: {error}") from error
    if parts.scheme not in {"", "http", "https"} or (parts.netloc and not parts.scheme):
        raise InputError(repr(one_line(link)), "is no link: expected a relative path, http: or https:")
    return quote(link, safe="/:?#[]@!$&'()*+,;=%~")
