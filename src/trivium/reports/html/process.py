"""Sections of the report on the process: times, repeated calls, hand-offs."""

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from trivium.reports import wording
from trivium.reports.document.blocks import Block, Column, Paragraph, Range, Section, Toned, table
from trivium.reports.html.fragments import bar
from trivium.reports.trace_tables import arrow_chain, handoff_loop_words, loop_words, ping_pong_words
from trivium.reports.view import EvaluationView
from trivium.safe_text import one_line
from trivium.suites.selection import group_of
from trivium.traces.process.process import Process
from trivium.traces.process.timing import TimeShare
from trivium.trust.clustered import TOO_FEW_GROUPS
from trivium.trust.intervals import mean_interval

SHARES_SHOWN = 10
SENTENCES_OF_A_KIND = 3
NAME_CHARS = 40


def process_context(process: Process) -> dict[str, Any]:
    """Values about the process for the template of a trace."""
    shares = [("Time by agent", process.by_agent), ("Time by tool", process.by_tool)]
    return {
        "timed": bool(process.path_segments),
        "has_repeats": bool(process.repeats.looped or any(one.retry for one in process.repeats.repeated)),
        "sentences": _sentences(process),
        "shares": [
            (title, [_share(one) for one in found[:SHARES_SHOWN]], max(0, len(found) - SHARES_SHOWN))
            for title, found in shares
            if found and process.seconds
        ],
    }


def _share(one: TimeShare) -> tuple[str, str, Markup]:
    name = "nobody" if one.name is None else one_line(one.name, at_most=NAME_CHARS)
    words = f"{wording.seconds(one.seconds)} · {wording.share(one.share or 0.0)}"
    return name, words, bar(one.share)


def _sentences(process: Process) -> list[str]:
    return [
        *_time_sentences(process),
        *_repeat_sentences(process),
        *_handoff_sentences(process),
        *_unfinished_sentences(process),
    ]


def _time_sentences(process: Process) -> list[str]:
    whole, path = process.seconds, [step for step in process.path if step.span is not None]
    if not whole or not path:
        return []
    longest = max(path, key=lambda step: step.seconds)
    through = wording.counted(len(path), "span")
    longest_name = one_line(longest.name or "", at_most=NAME_CHARS)
    most = f"{longest.kind} {longest_name}, {wording.seconds(longest.seconds)}"
    sentences = [
        f"Wall time {wording.seconds(whole)}. The critical path goes through {through}.",
        f"Most of it is {most} ({wording.share(longest.share or 0.0)}).",
    ]
    found = process.concurrency
    if found.overlapped:
        sentences.append(
            f"Two or more spans were at work {wording.share(found.overlapped / whole)} of the time, in "
            f"{wording.counted(len(found.sections), 'parallel section')}, up to {found.most:,} at once."
        )
    waiting = whole - found.busy
    if waiting > whole / 100:
        sentences.append(f"No span was at work {wording.share(waiting / whole)} of the time.")
    return sentences


def _repeat_sentences(process: Process) -> list[str]:
    calls, sentences = process.trace.tool_calls, []
    retries = [calls[one.call] for one in process.repeats.repeated if one.retry]
    if retries:
        recovered = sum(call.ok is True for call in retries)
        count = wording.counted(len(retries), "retry", "retries")
        sentences.append(f"{count} of failed calls, {recovered:,} succeeded.")
    repeats = len(process.repeats.repeated) - len(retries)
    if repeats:
        sentences.append(f"{wording.counted(repeats, 'call')} repeated after a success.")
    return sentences + _at_most([f"Loop: {loop_words(loop)}." for loop in process.repeats.loops], "loop")


def _handoff_sentences(process: Process) -> list[str]:
    found = process.hand_offs
    sentences = (
        [f"Longest chain of hand-offs: {arrow_chain(found.longest)}."] if len(found.longest) > 2 else []
    )
    sentences += _at_most([f"{ping_pong_words(game)}." for game in found.ping_pongs], "ping-pong")
    return sentences + _at_most(
        [f"{handoff_loop_words(one)}." for one in process.circuits], "loop of hand-offs"
    )


def _unfinished_sentences(process: Process) -> list[str]:
    if not process.unfinished:
        return []
    words = [
        f"{kind} {one_line(name, at_most=NAME_CHARS)}" + (f" × {number:,}" if number > 1 else "")
        for (kind, name), number in process.unfinished.most_common(SHARES_SHOWN)
    ]
    omitted = len(process.unfinished) - len(words)
    return [f"Unfinished: {', '.join(words)}{f' and {omitted:,} more' if omitted else ''}."]


def _at_most(sentences: Sequence[str], what: str) -> list[str]:
    omitted = len(sentences) - SENTENCES_OF_A_KIND
    more = [f"And {wording.counted(omitted, f'further {what}')}."] if omitted > 0 else []
    return [*sentences[:SENTENCES_OF_A_KIND], *more]


ROWS_SHOWN = 15
RUN_NAME_CHARS = 60

NameKey = tuple[str, str | None]
"""``agent`` or ``tool``, and its name."""


class _SparseColumn:
    """Values of some attempts; all other attempts have 0."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.values = array("d")

    def add(self, row: int, value: float) -> None:
        self.rows.append(row)
        self.values.append(value)


class RunTimes:
    """Time by agent and tool over attempts, and counts of retries, repeats and unfinished spans.

    Args:
        group: The case field that defines the cluster, as in the suite's settings.
    """

    def __init__(self, group: str | None = None) -> None:
        self._group = group
        self._clusters: dict[str | None, int] = {}
        self._cases: dict[str, int] = {}
        self._cluster_of: list[int] = []
        self._case_of = array("q")
        self._timed = array("q")
        self._shares: dict[NameKey, _SparseColumn] = {}
        self._seconds: dict[NameKey, float] = {}
        self._counts = {name: _SparseColumn() for name in _REPEAT_COUNTS}
        self._parallel = _SparseColumn()

    def add(self, view: EvaluationView) -> None:
        """Add an attempt; one without a trace is ignored."""
        if view.attempt.trace is None:
            return
        process, row = Process(view.attempt.trace), len(self._case_of)
        self._case_of.append(self._case(view))
        counts = {
            "retries": sum(one.retry for one in process.repeats.repeated),
            "repeats": sum(not one.retry for one in process.repeats.repeated),
            "looped": len(process.repeats.looped),
            "unfinished": process.unfinished.total(),
        }
        for name, count in counts.items():
            if count:
                self._counts[name].add(row, count)
        if not process.seconds:
            return
        self._timed.append(row)
        self._parallel.add(row, process.concurrency.overlapped / process.seconds)
        self._add_shares(row, "agent", process.by_agent)
        self._add_shares(row, "tool", process.by_tool)

    def _case(self, view: EvaluationView) -> int:
        case = self._cases.get(view.case.id)
        if case is None:
            case = self._cases[view.case.id] = len(self._cases)
            cluster = group_of(view.case, self._group)
            self._cluster_of.append(self._clusters.setdefault(cluster, len(self._clusters)))
        return case

    def _add_shares(self, row: int, kind: str, shares: tuple[TimeShare, ...]) -> None:
        for one in shares:
            who = (kind, one.name)
            if who not in self._shares:
                self._shares[who] = _SparseColumn()
            self._shares[who].add(row, one.share or 0.0)
            self._seconds[who] = self._seconds.get(who, 0.0) + one.seconds

    def section(self, level: float) -> Section | None:
        """The section of the run's page, or None if no attempt has a trace.

        Args:
            level: Level of the intervals.
        """
        if not self._case_of:
            return None
        blocks: list[Block] = []
        if self._timed:
            blocks += self._shares_shown(np.array(self._timed, np.int64), level)
        again = [self._again(name, words, level) for name, words in _REPEAT_COUNTS.items()]
        if any(row.number for row in again):
            blocks.append(table(self._again_columns(), again, label="Retries, repeats and unfinished spans"))
        else:
            blocks.append(Paragraph((f"No {', no '.join(_REPEAT_COUNTS.values())}.",), "quiet"))
        return Section(title="where the time went", blocks=blocks, key="time")

    def _shares_shown(self, timed: npt.NDArray[np.int64], level: float) -> list[Block]:
        mean, ends = self._mean(self._parallel, timed, level, high=1.0)
        parallel = f"{wording.share(mean)} {wording.interval(ends) if ends else ''}".strip()
        note = (
            f"Traces with times: {wording.counted(len(timed), 'attempt')}. Share of wall time, averaged by "
            f"case; spans at work at once share their time equally. Two or more were at work {parallel} of "
            "the time."
        )
        shown: list[_Share] = []
        left_out: list[str] = []
        for kind in ("agent", "tool"):
            rows = [self._share(who, timed, level) for who in self._shares if who[0] == kind]
            shown += sorted(rows, key=lambda row: (-row.mean, row.name))[:ROWS_SHOWN]
            if (more := len(rows) - ROWS_SHOWN) > 0:
                left_out.append(f"and {wording.counted(more, f'more {kind}')}")
        return [
            Paragraph((note,), "quiet"),
            table(_SHARES, shown, label="Time by agent and tool", notes=left_out),
        ]

    def _share(self, who: NameKey, timed: npt.NDArray[np.int64], level: float) -> "_Share":
        mean, ends = self._mean(self._shares[who], timed, level, high=1.0)
        name = "nobody" if who[1] is None else one_line(who[1], at_most=RUN_NAME_CHARS)
        seconds, attempts = self._seconds[who] / len(timed), len(self._shares[who].rows)
        return _Share(kind=who[0], name=name, mean=mean, ends=ends, seconds=seconds, attempts=attempts)

    def _again(self, name: str, words: str, level: float) -> "_Again":
        column = self._counts[name]
        mean, ends = self._mean(column, np.arange(len(self._case_of)), level, high=None)
        if len(self._clusters) < TOO_FEW_GROUPS:
            ends = None  # with so few clusters the interval is far wider than the observed counts
        count = int(sum(column.values))
        return _Again(words=words, number=count, mean=mean, ends=ends, attempts=len(column.rows))

    def _again_columns(self) -> list[Column["_Again"]]:
        return [
            Column("steps", lambda row: row.words, "text"),
            Column("count", lambda row: Toned(f"{row.number:,}", "strong")),
            Column("per attempt", lambda row: f"{row.mean:.1f}"),
            Column("interval", lambda row: wording.interval(row.ends, digits=1), "interval", optional=True),
            Column("attempts with any", lambda row: f"{row.attempts:,} of {len(self._case_of):,}"),
        ]

    def _mean(
        self, figure: _SparseColumn, among: npt.NDArray[np.int64], level: float, *, high: float | None
    ) -> tuple[float, tuple[float, float] | None]:
        """Mean over cases of the means of their attempts, with its cluster-robust interval."""
        cases = np.array(self._case_of, np.int64)
        sizes = np.bincount(cases[among], minlength=len(self._cluster_of))
        rows = np.array(figure.rows, np.int64)
        sums = np.bincount(cases[rows], weights=np.array(figure.values), minlength=len(self._cluster_of))
        has_attempts = sizes > 0
        values = sums[has_attempts] / sizes[has_attempts]
        if high is not None:
            values = np.clip(values, 0.0, high)
        clusters = np.array(self._cluster_of, np.int64)[has_attempts]
        _, codes = np.unique(clusters, return_inverse=True)
        low = None if high is None else 0.0
        interval = mean_interval(values, codes, level=level, low=low, high=high)
        ends = None if interval is None else (max(0.0, interval.low), interval.high)
        return float(values.mean()), ends


_REPEAT_COUNTS = {
    "retries": "retries of failed calls",
    "repeats": "calls repeated after a success",
    "looped": "calls that only repeat a loop",
    "unfinished": "unfinished spans",
}


class _Share(NamedTuple):
    """The share that an agent or a tool has of the time."""

    kind: str
    name: str
    mean: float
    ends: tuple[float, float] | None
    seconds: float
    attempts: int


class _Again(NamedTuple):
    """How often steps of a kind were done again, or not finished."""

    words: str
    number: int
    mean: float
    ends: tuple[float, float] | None
    attempts: int


_SHARES: tuple[Column[_Share], ...] = (
    Column("who", lambda row: Toned(row.kind, "quiet"), "text"),
    Column("name", lambda row: row.name, "name"),
    Column("share", lambda row: Toned(wording.share(row.mean), "strong")),
    Column("interval", lambda row: wording.interval(row.ends), "interval"),
    Column("0 … 1", lambda row: Range(row.mean, row.ends), "range"),
    Column("per attempt", lambda row: wording.seconds(row.seconds)),
    Column("attempts", lambda row: f"{row.attempts:,}"),
)
