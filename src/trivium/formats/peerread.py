"""Reads a folder of PeerRead: papers as cases, human reviews as attempts.

A folder in PeerRead's layout, ``{train,dev,test}/reviews/*.json`` with ``parsed_pdfs/*.pdf.json`` beside it,
becomes a suite with one case for each paper. One split, or a folder of several venues, works too.
``FOLDER?skip_broken`` leaves out papers whose files cannot be read, and names them.

A file's ``reviews`` also hold entries that are not a reviewer's report, and each entry may occur twice (ICLR
2017: questions, authors' answers and the committee's decision, none of them marked). Where any entry has a
field of the venue's review form (:data:`REVIEWER_FIELDS`), entries without one are left out; equal texts
count once. The case's metadata and the notes of the suite count what is left out.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.record import checked_attempt
from trivium.errors import MOST_PROBLEMS, OutputsError, Problem, SuiteError, placed, raise_problems
from trivium.records.documents import read_mapping
from trivium.records.validation import describe, unknown_key
from trivium.suites.case import Case
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.values import JsonObject

FEWEST_MARGIN_NUMBERS = 5
"""Fewest consecutive lines with rising numbers that count as line numbers of the margin."""

SPLITS = ("train", "dev", "test")
META = ("is_meta_review", "IS_META_REVIEW")
REVIEWER_FIELDS = ("RECOMMENDATION", "REVIEWER_CONFIDENCE")
"""Fields of the review form, which questions, answers and decisions never have.

Aspect scores are no criterion: annotators scored some questions too.
"""

REPEATED, NOT_REVIEWS = "repeated", "not_reviews"
"""Why entries of a file are left out."""

MOST_PAPERS_NAMED = 5
"""Most broken papers that a note names; the others are counted."""


class _Entries(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of a file of reviews, by kind.

    Attributes:
        reviews: Index and content of every human review, each once.
        meta: Texts of the meta reviews, each once, without those that repeat a review.
        left_out: Number of other entries by the reason why they are left out.
    """

    reviews: list[tuple[int, JsonObject]]
    meta: list[str]
    left_out: dict[str, int]


class _Paper(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A file of reviews, with the id its case has in the suite."""

    id: str
    path: Path
    raw: JsonObject

    @property
    def split(self) -> str:
        return self.path.parent.parent.name

    @property
    def venue(self) -> str:
        return self.path.parent.parent.parent.name if self.split in SPLITS else ""

    @cached_property
    def entries(self) -> _Entries:
        """The entries of the file, by kind."""
        listed = self.raw.get("reviews")
        placed = [
            (position, entry)
            for position, entry in enumerate(listed if isinstance(listed, list) else [])
            if isinstance(entry, dict)
        ]
        plain = [(position, entry) for position, entry in placed if not _is_meta(entry)]
        filled_in = [(position, entry) for position, entry in plain if _has_reviewer_fields(entry)]
        reviews = {_identity(entry): (position, entry) for position, entry in reversed(filled_in or plain)}
        meta_reviews = [entry for _, entry in placed if _is_meta(entry) and _comments(entry)]
        meta = {_identity(entry): _comments(entry) for entry in meta_reviews}
        own_meta = {same: text for same, text in meta.items() if same not in reviews}
        repeated = len(meta_reviews) - len(own_meta) + len(filled_in or plain) - len(reviews)
        left_out = {REPEATED: repeated, NOT_REVIEWS: len(plain) - len(filled_in or plain)}
        return _Entries(
            reviews=sorted(reviews.values(), key=lambda placed: placed[0]),
            meta=list(own_meta.values()),
            left_out={why: count for why, count in left_out.items() if count},
        )

    @property
    def human(self) -> list[tuple[int, str]]:
        """Index and text of every non-empty review."""
        return [
            (position, _comments(review)) for position, review in self.entries.reviews if _comments(review)
        ]


def read_suite(path: Path) -> SourceCases:
    """The papers of a folder as cases.

    Raises:
        SuiteError: If there are no reviews below the folder, or files are broken and ``skip_broken`` is not
            set.
    """
    folder, skip_broken = _folder_of(path)
    papers, problems = _papers(folder)
    raw = []
    left_out: Counter[str] = Counter()
    for paper in papers:
        try:
            raw.append((str(paper.path), _case(paper)))
        except SuiteError as error:
            problems += placed(error)
        else:
            left_out.update(paper.entries.left_out)
    if not skip_broken:
        _raise_broken(problems, folder)
    cases, wrong = cases_of(raw)
    raise_problems(wrong, str(folder))
    name = folder.resolve().name
    return SourceCases(name, cases, {}, notes=tuple(_notes(name, left_out, problems)))


def _folder_of(path: Path) -> tuple[Path, bool]:
    """Parse a source: its folder, and whether broken papers are skipped."""
    name, _, query = str(path).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    wrong = [
        Problem("", unknown_key(key, ["skip_broken"]).replace("key", "option", 1))
        for key in options
        if key != "skip_broken"
    ]
    flag = options.get("skip_broken", "false")
    if flag not in {"", "true", "false"}:
        wrong.append(Problem("skip_broken", f"found {describe(flag)}, expected true or false"))
    raise_problems(wrong, str(path))
    return Path(name), flag != "false"


def _raise_broken(problems: list[Problem], folder: Path) -> None:
    if problems:
        remedy = Problem("", f'to go on without broken papers: "peerread:{folder}?skip_broken"')
        shown = problems[:MOST_PROBLEMS]
        raise SuiteError(str(folder), [*shown, remedy], left_out=len(problems) - len(shown))


def _notes(name: str, left_out: Counter[str], broken: list[Problem]) -> Iterator[str]:
    """Notes of the suite on entries and papers that were left out."""
    counts = [
        f"{left_out[why]:,} {what}"
        for why, what in (
            (REPEATED, "repeated"),
            (NOT_REVIEWS, "without a recommendation (questions, answers, decisions)"),
        )
        if left_out[why]
    ]
    if counts:
        yield f"entries of {name}'s review files that were left out: {', '.join(counts)}"
    if broken:
        named = "; ".join(str(problem) for problem in broken[:MOST_PAPERS_NAMED])
        more = f"; and {len(broken) - MOST_PAPERS_NAMED:,} more" if len(broken) > MOST_PAPERS_NAMED else ""
        papers = "paper with a broken file was" if len(broken) == 1 else "papers with broken files were"
        yield f"{len(broken):,} {papers} left out: {named}{more}"


def _papers(folder: Path) -> tuple[list[_Paper], list[Problem]]:
    """Every file of reviews, by path, with numbers sorted by value; and a problem for each broken one."""
    if not folder.is_dir():
        raise SuiteError(str(folder), "is not a folder" if folder.exists() else "there is no such folder")
    paths = [path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}reviews/*.json")]
    paths.sort(key=lambda path: [_numbers_by_size(part) for part in path.relative_to(folder).parts])
    if not paths:
        layout = "{train,dev,test}/reviews/*.json"
        raise SuiteError(str(folder), f"holds no reviews: expected PeerRead's layout, {layout}")
    papers = []
    problems: list[Problem] = []
    for path in paths:
        try:
            raw = read_mapping(path)
            papers.append(_Paper(id=_paper_id(raw, path), path=path, raw=raw))
        except SuiteError as error:
            problems += placed(error)
    return _with_distinct_ids(papers), problems


def _numbers_by_size(name: str) -> tuple[bool, int, str]:
    """Sort key of names: numbers by value, then the others."""
    stem = name.removesuffix(".json")
    number = stem.isdecimal() and len(stem) < 20
    return not number, int(stem) if number else 0, name


def _with_distinct_ids(papers: list[_Paper]) -> list[_Paper]:
    """Prefix the split, or the venue, to ids that occur in several of them."""
    for longer in ("{split}/{id}", "{venue}/{id}"):
        same: dict[str, list[_Paper]] = defaultdict(list)
        for paper in papers:
            same[paper.id].append(paper)
        papers = [
            msgspec.structs.replace(
                paper, id=longer.format(split=paper.split, venue=paper.venue, id=paper.id)
            )
            if len(same[paper.id]) > 1
            else paper
            for paper in papers
        ]
    return papers


def _paper_id(raw: JsonObject, path: Path) -> str:
    id_ = raw.get("id")
    usable = isinstance(id_, str | int) and not isinstance(id_, bool) and id_ != ""
    return str(id_) if usable else path.stem


def _case(paper: _Paper) -> JsonObject:
    title = _text(paper.raw.get("title"))
    entries = paper.entries
    return {
        "id": paper.id,
        "input": f"Review this paper.\n\n{title}" if title else "Review this paper.",
        "references": [text for _, text in paper.human],
        "source": _source(paper, title),
        "tags": [tag for tag in (paper.venue, paper.split) if tag],
        "group": paper.id,
        "metadata": {
            "title": title,
            "reviews": [
                {"place": position, "scores": _scores(review), **_presentation(review)}
                for position, review in entries.reviews
            ],
            **({"meta_reviews": entries.meta} if entries.meta else {}),
            **({"left_out": entries.left_out} if entries.left_out else {}),
        },
    }


def _source(paper: _Paper, title: str) -> str:
    """The parsed paper, or its title and abstract where there is none."""
    path = paper.path.parent.parent / "parsed_pdfs" / f"{paper.path.stem}.pdf.json"
    if not path.exists():
        return _paragraphs(title, _text(paper.raw.get("abstract")))
    parsed = read_mapping(path).get("metadata")
    if not isinstance(parsed, dict):
        raise SuiteError(str(path), 'has no mapping "metadata"')
    sections = parsed.get("sections")
    parts = [_text(parsed.get("title")) or title]
    parts.append(_text(parsed.get("abstractText")) or _text(paper.raw.get("abstract")))
    for section in sections if isinstance(sections, list) else []:
        if isinstance(section, dict):
            parts += [_text(section.get("heading")), _text(section.get("text"))]
    return without_margin_numbers(_paragraphs(*parts))


def without_margin_numbers(text: str) -> str:
    """Remove the line numbers of the margin, which the parser puts on lines of their own."""
    lines = text.split("\n")
    result: list[str] = []
    run: list[str] = []
    last = -1
    for line in [*lines, ""]:
        number = int(line.split()[-1]) if re.fullmatch(r"\d{1,4}(?: \d{1,4})?", line, re.ASCII) else None
        if number is None or number <= last:
            result += run if len(run) < FEWEST_MARGIN_NUMBERS else []
            run, last = [], -1
        if number is None:
            result.append(line)
        else:
            run.append(line)
            last = number
    return "\n".join(result[:-1])


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part.strip())


def _scores(review: JsonObject) -> dict[str, float]:
    """Aspect scores by lower-case name; missing and non-numeric ones are left out."""
    scores = {
        name.lower(): _number(value) for name, value in review.items() if name.isupper() and name not in META
    }
    return {name: score for name, score in scores.items() if score is not None}


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,3}(?:\.\d+)?\s*", value, re.ASCII):
        return float(value) if "." in value else int(value)
    return None


def _presentation(review: JsonObject) -> dict[str, str]:
    presentation = _text(review.get("PRESENTATION_FORMAT"))
    return {"presentation_format": presentation} if presentation else {}


def _is_meta(review: JsonObject) -> bool:
    return any(review.get(key) is True for key in META)


def _has_reviewer_fields(entry: JsonObject) -> bool:
    return any(entry.get(field) is not None for field in REVIEWER_FIELDS)


def _identity(entry: JsonObject) -> str:
    """Identity of an entry, equal for duplicates: the words of its text, or all fields without a text."""
    return " ".join(_comments(entry).split()) or repr(sorted(entry.items()))


def _comments(review: JsonObject) -> str:
    comments = _text(review.get("comments"))
    return comments if comments.strip() else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read_attempts(path: Path, suite: Suite) -> list[tuple[Case, Attempt]]:
    """Every review of the suite's papers, with the paper's other reviews as the references of its case.

    Leaves out papers that are not in the suite, and papers with a single review.

    Raises:
        OutputsError: If no paper of the suite has two reviews.
        SuiteError: If the folder cannot be read.
    """
    folder, skip_broken = _folder_of(path)
    papers, problems = _papers(folder)
    if not skip_broken:
        _raise_broken(problems, folder)
    limit = suite.settings.limits.output_bytes
    pairs = []
    for paper in papers:
        human = paper.human if suite.position(paper.id) is not None else []
        for position, text in human if len(human) > 1 else []:
            others = tuple(other for beside, other in human if beside != position)
            attempt = checked_attempt(Attempt(case=paper.id, repeat=position, output=text), limit=limit)
            pairs.append((msgspec.structs.replace(suite.case(paper.id), references=others), attempt))
    if not pairs:
        raise OutputsError(str(path), "no paper of the suite has two reviews by people")
    return pairs
