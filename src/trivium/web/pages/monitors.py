"""Production: the monitors, one of them live, its alerts, and why a trace has its scores."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import ServerSentEvent, Stream
from litestar.response.sse import ServerSentEventMessage
from markupsafe import Markup

from trivium.labels.monitored import dimensions_of_monitor
from trivium.monitor.alerting.messages import Message
from trivium.monitor.reasons import reasons
from trivium.monitor.status import MonitorStatus, status_of
from trivium.reports.document.blocks import Section
from trivium.reports.document.html import html
from trivium.reports.monitoring import (
    alerts_table,
    describe,
    describe_message,
    history,
    monitors_table,
    samples_table,
)
from trivium.safe_text import sanitise
from trivium.store.live_alerts import alert_of, alerts_of, marks_of
from trivium.store.live_counts import HOUR, counts_of
from trivium.store.live_samples import RecentSamples, Sample, cases_of_traces, latest_samples
from trivium.web.errors import RETRY_AFTER, Refused
from trivium.web.labellers import token_of
from trivium.web.pages.site import Form, Site, case_address, monitor_called, monitor_names, table_export

__all__ = ["routes"]

ROWS = 12
"""Samples or alerts on a page."""

SEARCHED = 1000
"""Samples among which a page looks for those that are chosen; the next page goes on."""

EXPORTED = 100_000
"""Samples of a download."""

CHOSEN_BY = ("version", "tool", "tag", "model", "agent", "service")
MOST_PARTS = 60

LIVE_SECONDS = 2.0
"""Time between two looks at a status that a page shows live."""

STREAM_SECONDS = 300.0
"""Time after which a live page reconnects."""

MOST_STREAMS = 100
"""Pages that are live at the same time; further ones show their status as it was when they were opened."""

MOST_STREAMS_OF_ONE = 20
"""Of those, the pages of one token, so that nobody takes all."""

SAMPLE_COLUMNS: Final = (
    "trace",
    "version",
    "time",
    "scored",
    "probability",
    "rule",
    "score",
    "passed",
    "confidence",
    "failed",
    "seconds",
    "cost_usd",
    "session",
    "query",
    "output",
)

Before = Annotated[int | None, QueryParameter(ge=1, le=2**53)]


def routes(site: Site) -> list[Any]:
    """The routes of the pages."""
    return [*_monitor_routes(site), *_routes_of_one(site)]


def _monitor_routes(site: Site) -> list[Any]:
    """All monitors, and one of them, live."""
    store, clock = site.store, site.clock
    live = _Live(site)

    @get("/monitors", include_in_schema=False, sync_to_thread=True)
    def list_monitors(request: Request[Any, Any, Any]) -> Response[str]:
        now = clock()
        statuses = [live.status(name, now, parts=False) for name in monitor_names(site.services)]
        alerts = [alert for each in statuses for alert in each.alerts]
        return site.page(
            request,
            "monitors.html",
            title="Production",
            section="monitors",
            monitors=monitors_table(statuses) if statuses else None,
            firing=Section(title="firing", blocks=[alerts_table(alerts, now=now)]) if alerts else None,
            refused=history((), (), _refused(site, now), now=now),
        )

    @get("/monitors/{monitor:str}", include_in_schema=False, sync_to_thread=True)
    def one_monitor(
        request: Request[Any, Any, Any],
        monitor: FromPath[str],
        before: Before = None,
        part: Annotated[str, QueryParameter(max_length=300)] = "",
        failed: Annotated[bool, QueryParameter()] = False,
        format: Form = "html",  # noqa: A002
    ) -> Response[str] | Stream:
        name = monitor_called(site.services, monitor)
        if format != "html":
            found = _exported(site, name)
            return table_export(found, SAMPLE_COLUMNS, file=f"samples of {name}", form=format)
        samples, older = _chosen(site, name, before, part, failed=failed)
        failures = cases_of_traces(store, name, [each.trace for each in samples if each.failed])
        errors = {trace: each.error for trace, each in failures.items() if each.error}
        now = clock()
        past = [each for each in alerts_of(store, name, limit=ROWS) if each.state == "resolved"]
        return site.page(
            request,
            "monitor.html",
            title=name,
            section="monitors",
            forms=True,
            status=live.drawn(name, now),
            samples=samples_table(samples, errors) if samples else None,
            older=older,
            newer=before is not None,
            part=part,
            parts=_parts(live.status(name, now), part),
            failed=failed,
            dimensions=dimensions_of_monitor(store, name),
            history=history(past, marks_of(store, name, limit=10), _refused(site, now), now=now),
        )

    @get("/monitors/{monitor:str}/events", include_in_schema=False)
    async def events(request: Request[Any, Any, Any], monitor: FromPath[str]) -> ServerSentEvent:
        name, token = await asyncio.to_thread(monitor_called, site.services, monitor), token_of(request)
        return ServerSentEvent(live.stream(name, "" if token is None else token.id))

    return [list_monitors, one_monitor, events]


def _routes_of_one(site: Site) -> list[Any]:
    """An alert, and a trace."""

    @get("/alerts/{number:int}", include_in_schema=False, sync_to_thread=True)
    def one_alert(request: Request[Any, Any, Any], number: FromPath[int]) -> Response[str]:
        alert = alert_of(site.store, number) if number < 2**63 else None
        if alert is None:
            raise Refused(404, f"No alert has the number {number}.")
        message = msgspec.convert(alert.body, Message, strict=False)
        cases = cases_of_traces(site.store, alert.monitor, [each.trace for each in message.examples])
        back = f"/alerts/{number}"
        places = {
            trace: (case_address(each.run, each.case, back=back), each.error) for trace, each in cases.items()
        }
        return site.page(
            request,
            "alert.html",
            title=f"Alert {number}",
            section="monitors",
            forms=True,
            alert=alert,
            dimensions=dimensions_of_monitor(site.store, alert.monitor),
            body=describe_message(message, state=alert.state, resolved=alert.resolved, places=places),
        )

    @get("/traces/{trace:str}", include_in_schema=False, sync_to_thread=True)
    def one_trace(request: Request[Any, Any, Any], trace: FromPath[str]) -> Response[str]:
        found = reasons(site.store, sanitise(trace[:200])[0], now=site.clock())
        return site.page(
            request,
            "why.html",
            title=f"Trace {trace[:40]}",
            section="monitors",
            trace=trace,
            reasons=found,
            may_be_case=any(each.run for each in found),
        )

    return [one_alert, one_trace]


class _Live:
    """The status of each monitor, read at most every ``LIVE_SECONDS`` however many pages show it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._streams: Counter[str] = Counter()
        self._known: dict[str, tuple[float, MonitorStatus]] = {}
        self._recent: dict[str, RecentSamples] = {}

    def status(self, monitor: str, now: float, *, parts: bool = True) -> MonitorStatus:
        """The status of a monitor now, or a moment ago; for a list without its parts."""
        read, status = self._known.get(monitor, (float("-inf"), None))
        if status is None or not 0 <= now - read < LIVE_SECONDS:
            monitored = self._site.services.monitors.get(monitor)
            settings = None if monitored is None else monitored.monitor
            recent = self._recent.setdefault(monitor, RecentSamples(self._site.store, monitor))
            status = status_of(self._site.store, monitor, settings, now=now, parts=parts, recent=recent)
            if parts:
                self._known[monitor] = now, status
        return status

    def drawn(self, monitor: str, now: float) -> Markup:
        """The part of the page that is live."""
        return html(describe(self.status(monitor, now), "page"))

    def stream(self, monitor: str, viewer: str) -> AsyncIterator[ServerSentEventMessage]:
        """The live part of the page, whenever it has changed; ends after a time, and when the server does.

        Args:
            monitor: Name of the monitor.
            viewer: Id of the token whose page it is; empty without tokens.

        Raises:
            Refused: If too many pages are live already.
        """
        if viewer and self._streams[viewer] >= MOST_STREAMS_OF_ONE:
            message = f"{MOST_STREAMS_OF_ONE} pages of this token are live already: close some"
            raise Refused(429, message, headers=RETRY_AFTER, reason="streams")
        if self._streams.total() >= MOST_STREAMS:
            message = f"{MOST_STREAMS} pages are live already: this one stays as it is for now"
            raise Refused(503, message, headers=RETRY_AFTER, reason="streams")
        return self._stream(monitor, viewer)

    async def _stream(self, monitor: str, viewer: str) -> AsyncIterator[ServerSentEventMessage]:
        self._streams[viewer] += 1
        try:
            last, end = b"", asyncio.get_running_loop().time() + STREAM_SECONDS
            while not self._site.services.stopping.is_set() and asyncio.get_running_loop().time() < end:
                shown = await asyncio.to_thread(self.drawn, monitor, self._site.clock())
                digest = hashlib.sha256(shown.encode()).digest()
                yield (
                    ServerSentEventMessage(comment="here")
                    if digest == last
                    else ServerSentEventMessage(data=str(shown), event="status")
                )
                last = digest
                for _ in range(4):
                    await asyncio.sleep(LIVE_SECONDS / 4)
                    if self._site.services.stopping.is_set():
                        return
        finally:
            self._streams -= Counter([viewer])


def _exported(site: Site, monitor: str) -> Iterator[Sample]:
    """The newest samples, some at a time."""
    before: int | None = None
    for _ in range(EXPORTED // SEARCHED):
        found = latest_samples(site.store, monitor, SEARCHED, before=before)
        if not found:
            return
        yield from reversed(found)
        before = found[0].number


def _chosen(
    site: Site, monitor: str, before: int | None, part: str, *, failed: bool
) -> tuple[list[Sample], int | None]:
    """The samples of a page, newest first, and where the page with older ones begins.

    Args:
        site: The site.
        monitor: Name of the monitor.
        before: Where this page begins; None for the first one.
        part: Facet and value, such as ``version 1.5``; empty for all traffic.
        failed: Only those that did not pass.
    """
    most = SEARCHED if part or failed else ROWS + 1
    found = latest_samples(site.store, monitor, most, before=before)[::-1]
    facet, _, value = part.partition(" ")
    chosen = [
        each
        for each in found
        if (not part or value in each.facets.get(facet, ())) and not (failed and each.passed)
    ]
    if len(chosen) > ROWS:
        return chosen[:ROWS], chosen[ROWS - 1].number
    return chosen, found[-1].number if len(found) == SEARCHED else None


def _parts(status: MonitorStatus, chosen: str) -> list[str]:
    """The parts of the traffic that samples can be chosen by, and the chosen one."""
    found = {f"{each.facet} {each.value}" for each in status.window.by if each.facet in CHOSEN_BY}
    return sorted({*sorted(found)[:MOST_PARTS], *filter(None, [chosen])})


def _refused(site: Site, now: float) -> list[tuple[str, int]]:
    """Spans that were refused within the last day, by reason."""
    found: dict[str, int] = {}
    for (_, event, reason), number in counts_of(site.store, since=now - 24 * HOUR).items():
        if event == "refused":
            found[reason] = found.get(reason, 0) + number
    return sorted(found.items(), key=lambda each: -each[1])
