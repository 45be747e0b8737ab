"""Where the time of a run's attempts went, gathered while they pass by."""

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from trivium.reports import wording
from trivium.reports.html.range_svg import range_svg
from trivium.reports.untrusted import one_line
from trivium.reports.view import EvaluationView
from trivium.suites.selection import group_of
from trivium.traces.process.process import Process
from trivium.traces.process.time_shares import TimeShare
from trivium.trust.intervals import mean_interval

ROWS_SHOWN = 15
NAME_CHARS = 60

Who = tuple[str, str | None]
"""``agent`` or ``tool``, and its name."""


class _Sparse:
    """A figure of attempts that is 0 for those that are not among its rows."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.values = array("d")

    def add(self, row: int, value: float) -> None:
        self.rows.append(row)
        self.values.append(value)


class RunTimes:
    """Time by agent and tool over attempts, and how often attempts did things again.

    Args:
        group: The case field that names the cluster, as in the suite's settings.
    """

    def __init__(self, group: str | None = None) -> None:
        self._group = group
        self._clusters: dict[str | None, int] = {}
        self._cases: dict[str, int] = {}
        self._cluster_of: list[int] = []
        self._case_of = array("q")
        self._timed = array("q")
        self._shares: dict[Who, _Sparse] = {}
        self._seconds: dict[Who, float] = {}
        self._again = {name: _Sparse() for name in _AGAIN}
        self._parallel = _Sparse()

    def add(self, view: EvaluationView) -> None:
        """Take in an attempt; one without a trace has nothing to tell."""
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
                self._again[name].add(row, count)
        if not process.seconds:
            return
        self._timed.append(row)
        self._parallel.add(row, process.concurrency.overlapped / process.seconds)
        self._take(row, "agent", process.by_agent)
        self._take(row, "tool", process.by_tool)

    def _case(self, view: EvaluationView) -> int:
        case = self._cases.get(view.case.id)
        if case is None:
            case = self._cases[view.case.id] = len(self._cases)
            cluster = group_of(view.case, self._group)
            self._cluster_of.append(self._clusters.setdefault(cluster, len(self._clusters)))
        return case

    def _take(self, row: int, kind: str, shares: tuple[TimeShare, ...]) -> None:
        for one in shares:
            who = (kind, one.name)
            if who not in self._shares:
                self._shares[who] = _Sparse()
            self._shares[who].add(row, one.share or 0.0)
            self._seconds[who] = self._seconds.get(who, 0.0) + one.seconds

    def context(self, level: float) -> dict[str, Any] | None:
        """Everything that the template of the page needs, or None where no attempt has a trace."""
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
        for name, told in _AGAIN.items():
            again = self._again[name]
            mean, ends = self._mean(again, every, level, high=None)
            if len(self._clusters) < wording.FEW_GROUPS:
                ends = None  # of so few counts an interval reaches far beyond anything met
            counts.append(
                (
                    told,
                    int(sum(again.values)),
                    f"{mean:.1f}",
                    wording.interval(ends, digits=1),
                    len(again.rows),
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

    def _row(self, who: Who, timed: npt.NDArray[np.int64], level: float) -> dict[str, Any]:
        mean, ends = self._mean(self._shares[who], timed, level, high=1.0)
        return {
            "name": "nobody" if who[1] is None else one_line(who[1], at_most=NAME_CHARS),
            "mean": mean,
            "share": wording.share(mean),
            "interval": wording.interval(ends),
            "range": Markup(range_svg(mean, ends)),  # noqa: S704 - made of numbers
            "seconds": wording.seconds(self._seconds[who] / len(timed)),
            "attempts": len(self._shares[who].rows),
        }

    def _mean(
        self, figure: _Sparse, among: npt.NDArray[np.int64], level: float, *, high: float | None
    ) -> tuple[float, tuple[float, float] | None]:
        """Mean over cases of the means of their attempts, and its interval by clusters."""
        cases = np.array(self._case_of, np.int64)
        sizes = np.bincount(cases[among], minlength=len(self._cluster_of))
        rows = np.array(figure.rows, np.int64)
        sums = np.bincount(cases[rows], weights=np.array(figure.values), minlength=len(self._cluster_of))
        met = sizes > 0
        values = sums[met] / sizes[met]
        if high is not None:
            values = np.clip(values, 0.0, high)
        clusters = np.array(self._cluster_of, np.int64)[met]
        _, codes = np.unique(clusters, return_inverse=True)
        low = None if high is None else 0.0
        interval = mean_interval(values, codes, level=level, low=low, high=high)
        ends = None if interval is None else (max(0.0, interval.low), interval.high)
        return float(values.mean()), ends


_AGAIN = {
    "retries": "retries of failed calls",
    "repeats": "calls made again after a success",
    "looped": "calls that only go round in a loop",
    "unfinished": "spans that never finished",
}
