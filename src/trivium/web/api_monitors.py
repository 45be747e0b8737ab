"""The JSON interface to production: monitors, their samples, alerts and marks, counts, reasons of a trace."""

from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from trivium.monitor.reasons import TraceReason, reasons
from trivium.monitor.status import MonitorStatus, status_of
from trivium.safe_text import sanitise
from trivium.store.audit import audit
from trivium.store.live_alerts import Mark, StoredAlert, add_mark, alerts_of, marks_of
from trivium.store.live_counts import HOUR, counts_of
from trivium.store.live_samples import Sample, latest_samples
from trivium.web.errors import refusals
from trivium.web.pages.site import monitor_called, monitor_names
from trivium.web.services import Services

__all__ = ["Before", "Limit", "NewMark", "live_routes"]

Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="Most records of the answer.")]
Before = Annotated[
    int | None, QueryParameter(ge=1, le=2**53, description="The field `next` of the page before this one.")
]
Since = Annotated[float, QueryParameter(ge=0, le=1e12, description="Unix time in seconds.")]
MonitorName = Annotated[str, PathParameter(description="Name of a monitor; a slash in it is %2F.")]
Firing = Annotated[bool, QueryParameter(description="Only those that are not resolved.")]
TraceId = Annotated[str, PathParameter(max_length=64, description="Id of a trace.")]


class Monitors(msgspec.Struct, frozen=True, kw_only=True):
    """The monitors of this server and its store.

    Attributes:
        monitors: Their names, sorted.
        scoring: Those that this server scores.
    """

    monitors: tuple[str, ...]
    scoring: tuple[str, ...]


class SamplePage(msgspec.Struct, frozen=True, kw_only=True):
    """Scored samples, newest first.

    Attributes:
        samples: The samples.
        next: What ``before`` has to be for the next page; None on the last one.
    """

    samples: tuple[Sample, ...]
    next: int | None = None


class Alerts(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts, newest first."""

    alerts: tuple[StoredAlert, ...]


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Deployments and resets, newest first."""

    marks: tuple[Mark, ...]


class NewMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment that has just happened.

    Attributes:
        version: The version that was deployed.
        note: What there is to say about it.
    """

    version: Annotated[str, Meta(max_length=200)] | None = None
    note: Annotated[str, Meta(max_length=2000)] | None = None


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How often something happened to production traffic.

    Attributes:
        monitor: Name of the monitor; empty for what belongs to none.
        event: What happened: ``received``, ``again``, ``refused``, ``complete``, ``sampled``, ``scored``, …
        reason: Why; empty for no reason.
        number: How often.
    """

    monitor: str
    event: str
    reason: str
    number: int


class IntakeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to production traffic.

    Attributes:
        since: Unix time from which on is counted: the beginning of an hour.
        counts: The counts.
    """

    since: float
    counts: tuple[Count, ...]


class TraceReasons(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trace has scores, or none: an answer for each monitor that sampled it, else one in all."""

    reasons: tuple[TraceReason, ...]


def live_routes(services: Services) -> list[Any]:
    """The routes."""
    return [*_monitor_routes(services), *_traffic_routes(services)]


def _monitor_routes(services: Services) -> list[Any]:
    """Return the routes of a single monitor."""
    store, clock, known = services.store, services.clock, partial(monitor_called, services)

    @get("/monitors", sync_to_thread=True, responses=refusals())
    def list_monitors() -> Monitors:
        """Names of the monitors."""
        return Monitors(monitors=tuple(monitor_names(services)), scoring=tuple(sorted(services.monitors)))

    @get("/monitors/{monitor:str}/status", sync_to_thread=True, responses=refusals(404))
    def monitor_status(monitor: MonitorName) -> MonitorStatus:
        """The current status of a monitor, with its figures, backlog and alerts."""
        own = services.monitors.get(known(monitor))
        return status_of(store, monitor, None if own is None else own.monitor, now=clock())

    @get("/monitors/{monitor:str}/samples", sync_to_thread=True, responses=refusals(404))
    def monitor_samples(monitor: MonitorName, before: Before = None, limit: Limit = 100) -> SamplePage:
        """Scored samples, newest first."""
        found = latest_samples(store, known(monitor), limit, before=before)[::-1]
        following = found[-1].number if len(found) == limit else None
        return SamplePage(samples=tuple(found), next=following)

    @get("/monitors/{monitor:str}/alerts", sync_to_thread=True, responses=refusals(404))
    def monitor_alerts(
        monitor: MonitorName, firing: Firing = False, since: Since = 0, limit: Limit = 100
    ) -> Alerts:
        """Alerts, newest first."""
        found = alerts_of(store, known(monitor), firing=firing, since=since, limit=limit)
        return Alerts(alerts=tuple(found))

    @get("/monitors/{monitor:str}/marks", sync_to_thread=True, responses=refusals(404))
    def monitor_marks(monitor: MonitorName, limit: Limit = 100) -> Marks:
        """Deployments and resets, newest first."""
        name = known(monitor)
        return Marks(marks=tuple(marks_of(store, name, limit=limit)))

    @post("/monitors/{monitor:str}/marks", sync_to_thread=True, responses=refusals(404, 408, 413, 415))
    def mark_deployment(
        monitor: MonitorName, data: JSONBody[NewMark], request: Request[Any, Any, Any]
    ) -> Mark:
        """Mark a deployment: figures are compared with those before it."""
        version, note = _clean(data.version), _clean(data.note)
        mark = add_mark(store, known(monitor), now=clock(), version=version, note=note)
        body = {"monitor": monitor, "mark": mark.number, "version": version}
        audit(store, request.scope["state"]["actor"], "deployment marked", body, now=mark.time)
        return mark

    return [list_monitors, monitor_status, monitor_samples, monitor_alerts, monitor_marks, mark_deployment]


def _traffic_routes(services: Services) -> list[Any]:
    """Return the routes of all monitors."""
    store, clock = services.store, services.clock

    @get("/intake", sync_to_thread=True, responses=refusals())
    def intake_counts(since: Since = 0) -> IntakeCounts:
        """What happened to production traffic, by monitor, event and reason."""
        rows = sorted(counts_of(store, since=since).items())
        counts = (Count(monitor=m, event=event, reason=reason, number=n) for (m, event, reason), n in rows)
        return IntakeCounts(since=since // HOUR * HOUR, counts=tuple(counts))

    @get("/traces/{trace:str}", sync_to_thread=True, responses=refusals())
    def trace_reasons(trace: TraceId) -> TraceReasons:
        """Why a trace has scores, or none."""
        return TraceReasons(reasons=tuple(reasons(store, sanitise(trace)[0], now=clock())))

    return [intake_counts, trace_reasons]


def _clean(text: str | None) -> str | None:
    """Text as the store can hold it; empty text is none."""
    return (sanitise(text)[0] or None) if text is not None else None
