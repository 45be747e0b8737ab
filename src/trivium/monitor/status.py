"""Computes the status of a monitor, with its figures, backlog and alerts."""

from collections.abc import Mapping

import msgspec

from trivium.monitor.levels import Levels
from trivium.monitor.windows import (
    COMPOSITE,
    MOST_SAMPLES,
    PASS_RATE,
    Columns,
    Estimate,
    Point,
    Status,
    Window,
    figures_of,
    series,
    window_of,
)
from trivium.store.live_alerts import (
    WATCH,
    Mark,
    OpenTraffic,
    StoredAlert,
    alerts_of,
    last_interaction,
    marks_of,
    open_traffic,
    state_of,
)
from trivium.store.live_counts import Counts, counts_of
from trivium.store.live_jobs import LiveJobs
from trivium.store.live_samples import RecentSamples, Sample
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings
from trivium.values import resolved

STATE = WATCH

LOST_SECONDS = 600.0
"""Time since a watcher's last look after which the monitor counts as unwatched."""

MOST_RESOLVED = 20
"""Alerts among which those that were resolved within the window are looked for, the newest."""

SEVERITY = {"no_data": 4, "critical": 3, "warning": 2, "insufficient_data": 1, "healthy": 0}


@resolved
class Watched(msgspec.Struct, kw_only=True):
    """The state of a watcher, as the store keeps it.

    Attributes:
        last: Number of the last sample that entered the betting sequences.
        started: Unix time of the first look.
        looked: Unix time of the last look.
        levels: State of :class:`~trivium.monitor.levels.Levels`; empty at first.
        alerts: State of :class:`~trivium.monitor.alerting.alerts.Alerting`, as JSON.
    """

    last: int = 0
    started: float = 0.0
    looked: float = 0.0
    levels: dict[str, object] = {}
    alerts: msgspec.Raw = msgspec.Raw(b"{}")


class MonitorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a monitor at one time.

    Attributes:
        monitor: Name of the monitor.
        time: Unix time.
        status: The worst status of a figure over all traffic; ``no_data`` if no traffic comes.
        sure: Whether the status is proven, however often the monitor looked.
        error: Upper bound on the probability that any status since the last deployment or reset is wrongly
            called sure.
        sample_count: Number of samples in the window.
        pass_rate: Estimated share of the traffic that passes; None without samples.
        average_score: Estimated mean composite; None without samples.
        window: All figures.
        series: The pass rate over time.
        counts: Number of interactions in the window by event: ``complete``, ``sampled``, ``scored``,
            ``dropped``, ``failed``.
        waiting: Number of samples that wait to be scored.
        oldest_seconds: Age of the oldest waiting sample; None if none waits.
        open: Traces that are not complete: spans of them may still come.
        stalled: Whether the oldest waiting sample is older than ``stalled_after``.
        last_interaction: Unix time at which traffic last came; None if it never did.
        since: Unix time of the last deployment or reset, from which ``sure`` counts; None at first.
        mark: The last deployment or reset.
        marks: The deployments and resets within the window, newest first; at most 20.
        looked: Unix time of a watcher's last look, from which levels and alerts are; None if none looked.
        unwatched: Number of facet values without alerts, because there are too many.
        alerts: The firing alerts, newest first.
        resolved: Unix time at which each alert opened that was resolved within the window, by its number.
    """

    monitor: str
    time: float
    status: Status
    sure: bool = False
    error: float = 0.05
    sample_count: int = 0
    pass_rate: float | None = None
    average_score: float | None = None
    window: Window
    series: tuple[Point, ...] = ()
    counts: Mapping[str, int] = {}
    waiting: int = 0
    oldest_seconds: float | None = None
    open: OpenTraffic = OpenTraffic()
    stalled: bool = False
    last_interaction: float | None = None
    since: float | None = None
    mark: Mark | None = None
    marks: tuple[Mark, ...] = ()
    looked: float | None = None
    unwatched: int = 0
    alerts: tuple[StoredAlert, ...] = ()
    resolved: Mapping[int, float] = {}


def settings_of(store: Store, monitor: str) -> MonitorSettings:
    """Return the settings of a monitor's newest run; the defaults before its first run."""
    for run in store.live_runs(monitor):
        return run.settings.monitor or MonitorSettings()
    return MonitorSettings()


def status_of(
    store: Store,
    monitor: str,
    settings: MonitorSettings | None = None,
    *,
    now: float,
    parts: bool = True,
    recent: RecentSamples | None = None,
) -> MonitorStatus:
    """Compute the status of a monitor.

    Args:
        store: The store.
        monitor: Name of the monitor.
        settings: Settings of the monitor; by default those of its newest run.
        now: Unix time.
        parts: Whether to estimate figures also by facet and over time.
        recent: Its samples as far as they were read before; by default they are all read.
    """
    if settings is None:
        settings = settings_of(store, monitor)
    if not parts:
        settings = msgspec.structs.replace(settings, by=())
    watched = watched_of(state_of(store, monitor, STATE))
    levels = Levels.from_state(settings, watched.levels) if watched.levels else None
    samples, begin = window_samples(recent or RecentSamples(store, monitor), settings, now)
    columns = Columns(samples, figures_of(settings))
    window = with_levels(window_of(columns, settings, begin=begin, end=now), levels, settings)
    backlog = LiveJobs(store).backlog(monitor)
    age = None if backlog.oldest is None else max(0.0, now - backlog.oldest)
    last = last_interaction(store, settings.services)
    worst = max(
        (each for each in window.figures if each.status is not None),
        key=lambda each: (SEVERITY[each.status or "healthy"], each.sure),
        default=None,
    )
    status: Status = (worst.status if worst is not None else None) or "insufficient_data"
    if silent(last, watched.started, settings, now):
        status = "no_data"
    marks = marks_of(store, monitor)
    changed = alerts_of(store, monitor, since=begin, limit=MOST_RESOLVED)
    return MonitorStatus(
        monitor=monitor,
        time=now,
        status=status,
        sure=worst is not None and worst.sure and status == worst.status,
        error=settings.alpha,
        sample_count=window.samples,
        pass_rate=window.figure(PASS_RATE).mean,
        average_score=window.figure(COMPOSITE).mean,
        window=window,
        series=series(columns, PASS_RATE, begin=begin, end=now) if parts else (),
        counts=_of_monitor(counts_of(store, since=begin), monitor),
        waiting=backlog.waiting,
        oldest_seconds=age,
        open=open_traffic(store, settings.services),
        stalled=age is not None and age > settings.stalled_after,
        last_interaction=last,
        since=None if levels is None else levels.since or None,
        mark=next(iter(marks), None),
        marks=tuple(each for each in marks if begin <= each.time <= now),
        looked=watched.looked or None,
        unwatched=0 if levels is None else len(levels.left_out),
        alerts=tuple(alerts_of(store, monitor, firing=True)),
        resolved={each.number: each.opened for each in changed if each.resolved is not None},
    )


def window_samples(
    recent: RecentSamples, settings: MonitorSettings, now: float
) -> tuple[list[Sample], float]:
    """Return the samples of the window, and the Unix time at which it begins."""
    figures = [name for name in settings.figures if name not in {PASS_RATE, COMPOSITE}]  # samples have them
    if settings.window_samples is not None:
        most = min(settings.window_samples, MOST_SAMPLES)
        samples = recent.latest(most, figures=figures)
        return samples, min((each.time for each in samples), default=now)
    begin = now - settings.window
    return recent.latest(MOST_SAMPLES, since=begin, figures=figures), begin


def with_levels(window: Window, levels: Levels | None, settings: MonitorSettings) -> Window:
    """Return a window whose estimates say whether their statuses are sure, and whether they have changed."""
    if levels is None:
        return window

    def complete(each: Estimate) -> Estimate:
        key = (each.figure, each.facet, each.value)
        thresholds = settings.figures.get(each.figure)
        limits = (
            {} if thresholds is None else {"critical": thresholds.critical, "warning": thresholds.warning}
        )
        limit = limits.get(each.status or "")
        return msgspec.structs.replace(
            each,
            sure=limit is not None and levels.sure_below(key, limit),
            changed=levels.changed(key),
        )

    return msgspec.structs.replace(
        window,
        figures=tuple(complete(each) for each in window.figures),
        by=tuple(complete(each) for each in window.by),
    )


def silent(last: float | None, started: float, settings: MonitorSettings, now: float) -> bool:
    """Whether no traffic came for ``no_data_after`` seconds, counted at the earliest from the first look."""
    if last is None and not started:
        return True
    return now - max(last or 0.0, 0.0 if last is not None else started) > settings.no_data_after


def watched_of(body: str) -> Watched:
    """Decode the state of a watcher; return a new state if the text is empty."""
    return msgspec.json.decode(body, type=Watched) if body else Watched()


def _of_monitor(counts: Counts, monitor: str) -> dict[str, int]:
    events: dict[str, int] = {}
    for (name, event, _), number in counts.items():
        if name == monitor:
            events[event] = events.get(event, 0) + number
    return events
