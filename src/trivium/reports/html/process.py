"""The section of a run's page on the process of its attempts: times, repeated calls."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from trivium.reports import wording
from trivium.reports.document.blocks import Block, Column, Paragraph, Range, Section, Toned, table
from trivium.reports.view import EvaluationView
from trivium.safe_text import one_line
from trivium.suites.selection import group_of
from trivium.traces.process.process import Process
from trivium.trust.clustered import TOO_FEW_GROUPS
from trivium.trust.intervals import mean_interval
from trivium.values import counted

ROWS_SHOWN = 15
RUN_NAME_CHARS = 60

FigureKey = tuple[str, str | None]
"""What is measured, and of whom: ``agent`` or ``tool`` with its name, or what else is measured with None."""


def _name(name: str | None) -> str:
    return "nobody" if name is None else one_line(name, at_most=RUN_NAME_CHARS)


class RunTimes:
    """Time by agent and tool over attempts, and counts of retries, repeats and unfinished spans.

    Args:
        group: The case field that defines the cluster, as in the suite's settings.
    """

    def __init__(self, group: str | None = None) -> None:
        self._group = group
        self._clusters: dict[str | None, int] = {}
        self._cluster_of: dict[str, int] = {}
        self._attempts: Counter[str] = Counter()
        self._timed: Counter[str] = Counter()
        self._sums: defaultdict[FigureKey, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._having: Counter[FigureKey] = Counter()
        self._seconds: defaultdict[FigureKey, float] = defaultdict(float)

    def add(self, view: EvaluationView) -> None:
        """Add an attempt; one without a trace is ignored."""
        if view.attempt.trace is None:
            return
        process, case = Process(view.attempt.trace), view.case.id
        cluster = group_of(view.case, self._group)
        self._cluster_of[case] = self._clusters.setdefault(cluster, len(self._clusters))
        self._attempts[case] += 1
        retries = sum(one.retry for one in process.repeats.repeated)
        counts = {
            "retries": retries,
            "repeats": len(process.repeats.repeated) - retries,
            "looped": len(process.repeats.looped),
            "unfinished": process.unfinished.total(),
        }
        for name, count in counts.items():
            if count:
                self._add((name, None), case, count)
        if not process.seconds:
            return
        self._timed[case] += 1
        self._add(("parallel", None), case, process.concurrency.overlapped / process.seconds)
        for kind, shares in (("agent", process.by_agent), ("tool", process.by_tool)):
            for one in shares:
                self._add((kind, one.name), case, one.share or 0.0)
                self._seconds[kind, one.name] += one.seconds

    def _add(self, key: FigureKey, case: str, value: float) -> None:
        self._sums[key][case] += value
        self._having[key] += 1

    def section(self, level: float) -> Section | None:
        """The section of the run's page, or None if no attempt has a trace.

        Args:
            level: Level of the intervals.
        """
        if not self._attempts:
            return None
        blocks: list[Block] = self._shares_shown(level) if self._timed else []
        again = [
            self._figure((name, None), words, self._attempts, level, high=None)
            for name, words in _REPEAT_COUNTS.items()
        ]
        if any(row.total for row in again):
            blocks.append(table(_AGAIN, again, label="Retries, repeats and unfinished spans"))
        else:
            blocks.append(Paragraph((f"No {', no '.join(_REPEAT_COUNTS.values())}.",), "quiet"))
        return Section(title="where the time went", blocks=blocks, key="time")

    def _shares_shown(self, level: float) -> list[Block]:
        both = self._figure(("parallel", None), "", self._timed, level)
        parallel = f"{wording.share(both.mean)} {wording.interval(both.ends) if both.ends else ''}".strip()
        note = (
            f"Traces with times: {counted(both.of, 'attempt')}. Share of wall time, averaged by "
            f"case; spans at work at once share their time equally. Two or more were at work {parallel} of "
            "the time."
        )
        shown: list[_Figure] = []
        left_out: list[str] = []
        for kind in ("agent", "tool"):
            rows = [
                self._figure(key, _name(key[1]), self._timed, level) for key in self._sums if key[0] == kind
            ]
            shown += sorted(rows, key=lambda row: (-row.mean, row.name))[:ROWS_SHOWN]
            if (more := len(rows) - ROWS_SHOWN) > 0:
                left_out.append(f"and {counted(more, f'more {kind}')}")
        return [
            Paragraph((note,), "quiet"),
            table(_SHARES, shown, label="Time by agent and tool", notes=left_out),
        ]

    def _figure(
        self, key: FigureKey, name: str, among: Mapping[str, int], level: float, *, high: float | None = 1.0
    ) -> "_Figure":
        """A figure over cases, each the mean of its attempts, with its cluster-robust interval.

        Args:
            key: The figure.
            name: What it is called.
            among: Number of attempts of each case.
            level: Level of the interval.
            high: Its largest value; None for a count, whose interval is shown from ten clusters on, since it
                is far wider than the observed counts with fewer.
        """
        sums = self._sums[key]
        values = np.array([sums[case] / attempts for case, attempts in among.items()])
        _, codes = np.unique([self._cluster_of[case] for case in among], return_inverse=True)
        few = high is None and len(self._clusters) < TOO_FEW_GROUPS
        if high is not None:
            values = np.clip(values, 0.0, high)
        low = None if high is None else 0.0
        found = None if few else mean_interval(values, codes, level=level, low=low, high=high)
        return _Figure(
            kind=key[0],
            name=name,
            mean=float(values.mean()),
            ends=None if found is None else (max(0.0, found.low), found.high),
            total=self._seconds[key] if key in self._seconds else sum(sums.values()),
            having=self._having[key],
            of=sum(among.values()),
        )


_REPEAT_COUNTS = {
    "retries": "retries of failed calls",
    "repeats": "calls repeated after a success",
    "looped": "calls that only repeat a loop",
    "unfinished": "unfinished spans",
}


class _Figure(NamedTuple):
    """A share of the time, or a count of steps that were done again or not finished.

    Attributes:
        kind: What is measured.
        name: Of whom, or in words.
        mean: Mean over cases.
        ends: Its interval.
        total: All seconds, or all steps.
        having: Attempts that have any of it.
        of: Attempts.
    """

    kind: str
    name: str
    mean: float
    ends: tuple[float, float] | None
    total: float
    having: int
    of: int


_SHARES: tuple[Column[_Figure], ...] = (
    Column("who", lambda row: Toned(row.kind, "quiet"), "text"),
    Column("name", lambda row: row.name, "name"),
    Column("share", lambda row: Toned(wording.share(row.mean), "strong")),
    Column("interval", lambda row: wording.interval(row.ends), "interval"),
    Column("0 … 1", lambda row: Range(row.mean, row.ends), "range"),
    Column("per attempt", lambda row: wording.seconds(row.total / row.of)),
    Column("attempts", lambda row: f"{row.having:,}"),
)
_AGAIN: tuple[Column[_Figure], ...] = (
    Column("steps", lambda row: row.name, "text"),
    Column("count", lambda row: Toned(f"{row.total:,.0f}", "strong")),
    Column("per attempt", lambda row: f"{row.mean:.1f}"),
    Column("interval", lambda row: wording.interval(row.ends, digits=1), "interval", optional=True),
    Column("attempts with any", lambda row: f"{row.having:,} of {row.of:,}"),
)
