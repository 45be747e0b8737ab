"""Sections of the report on the process: times, repeated calls, hand-offs."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from trivium.reports import wording
from trivium.reports.escape import one_line
from trivium.reports.html.fragments import bar
from trivium.reports.trace_tables import arrow_chain, handoff_loop_words, loop_words, ping_pong_words
from trivium.reports.view import EvaluationView
from trivium.suites.selection import group_of
from trivium.traces.process.process import Process
from trivium.traces.process.timing import TimeShare
from trivium.trust.intervals import mean_interval

SHARES_SHOWN = 10
SENTENCES_OF_A_KIND = 3
NAME_CHARS = 40


def process_context(process: Process) -> dict[str, Any]:
    """Values about the process for the template of a trace."""
    shares = [("Time by agent", process.by_agent), ("Time by tool", process.by_tool)]
    return {
        "timed": bool(process.path_segments),
        "has_repeats": bool(process.looped or any(one.retry for one in process.repeated)),
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
    retries = [calls[one.call] for one in process.repeated if one.retry]
    if retries:
        recovered = sum(call.ok is True for call in retries)
        count = wording.counted(len(retries), "retry", "retries")
        sentences.append(f"{count} of failed calls, {recovered:,} succeeded.")
    repeats = len(process.repeated) - len(retries)
    if repeats:
        sentences.append(f"{wording.counted(repeats, 'call')} repeated after a success.")
    return sentences + _at_most([f"Loop: {loop_words(loop)}." for loop in process.loops], "loop")


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
            "retries": sum(one.retry for one in process.repeated),
            "repeats": sum(not one.retry for one in process.repeated),
            "looped": len(process.looped),
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

    def context(self, level: float) -> dict[str, Any] | None:
        """Values for the page's template, or None if no attempt has a trace."""
        if not self._case_of:
            return None
        every, timed = np.arange(len(self._case_of)), np.array(self._timed, np.int64)
        tables = []
        for kind, title in (("agent", "Time by agent"), ("tool", "Time by tool")):
            rows = [self._row(who, timed, level) for who in self._shares if who[0] == kind]
            rows.sort(key=lambda row: (-row["mean"], row["name"]))
            if rows:
                tables.append((title, rows[:ROWS_SHOWN], max(0, len(rows) - ROWS_SHOWN)))
        counts = []
        for name, words in _REPEAT_COUNTS.items():
            column = self._counts[name]
            mean, ends = self._mean(column, every, level, high=None)
            if len(self._clusters) < wording.FEW_GROUPS:
                ends = None  # with so few clusters the interval is far wider than the observed counts
            counts.append(
                (
                    words,
                    int(sum(column.values)),
                    f"{mean:.1f}",
                    wording.interval(ends, digits=1),
                    len(column.rows),
                )
            )
        parallel = None
        if timed.size:
            mean, ends = self._mean(self._parallel, timed, level, high=1.0)
            parallel = f"{wording.share(mean)} {wording.interval(ends) if ends else ''}".strip()
        return {
            "attempts": len(self._case_of),
            "timed": len(timed),
            "tables": tables,
            "counts": counts,
            "parallel": parallel,
        }

    def _row(self, who: NameKey, timed: npt.NDArray[np.int64], level: float) -> dict[str, Any]:
        mean, ends = self._mean(self._shares[who], timed, level, high=1.0)
        return {
            "name": "nobody" if who[1] is None else one_line(who[1], at_most=RUN_NAME_CHARS),
            "mean": mean,
            "share": wording.share(mean),
            "interval": wording.interval(ends),
            "range": bar(mean, ends),
            "seconds": wording.seconds(self._seconds[who] / len(timed)),
            "attempts": len(self._shares[who].rows),
        }

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
