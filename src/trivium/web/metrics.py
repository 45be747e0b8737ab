"""``/metrics``: counts and gauges for Prometheus, in its text format.

Names, suffixes and escapes are those of
https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/practices/naming/.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from litestar import Response, get

from trivium.store.live_alerts import alerts_of, count_deliveries, open_traffic
from trivium.store.live_counts import counts_of, spent_usd
from trivium.store.live_jobs import LiveJobs
from trivium.web.services import Services

MEDIA_TYPE: Final = "text/plain; version=0.0.4"
"""Litestar adds the encoding."""

_COUNTERS: Final = {
    "received": ("trivium_spans_received_total", "Spans that were stored.", ""),
    "again": ("trivium_spans_again_total", "Spans that were stored already when they were sent again.", ""),
    "refused": ("trivium_spans_refused_total", "Spans that were refused.", "reason"),
    "complete": ("trivium_interactions_complete_total", "Interactions that are complete.", ""),
    "unsampled": ("trivium_interactions_unsampled_total", "Interactions that were not sampled.", ""),
    "sampled": ("trivium_interactions_sampled_total", "Interactions that were sampled.", "rule"),
    "dropped": ("trivium_samples_dropped_total", "Samples that were dropped unscored.", "reason"),
    "scored": ("trivium_samples_scored_total", "Samples that were scored.", ""),
    "failed": ("trivium_samples_failed_total", "Samples that could not be scored.", "reason"),
}
"""For each event that the store counts: name and help of the metric, and the label for its reason."""

_OF_SERVER: Final = {"received", "again", "refused"}
"""Events that are counted for the whole server, not for a monitor."""

Labels = tuple[tuple[str, str], ...]


class Exposition:
    """Collects metric samples and writes them in the text format."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, list[tuple[Labels, float]]]] = {}

    def add(self, kind: str, name: str, help_: str, value: float, **labels: str) -> None:
        """Add a sample to a metric family."""
        family = self._families.setdefault(name, (kind, help_, []))
        family[2].append((tuple(labels.items()), value))

    def text(self) -> str:
        """Return all metric families in the text format."""
        lines = []
        for name, (kind, help_, samples) in self._families.items():
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_braces(labels)} {value!r}" for labels, value in samples]
        return "\n".join([*lines, ""])


def metrics_route(services: Services, refusals: Sequence[Counter[str]]) -> Any:
    """Return the route ``/metrics``.

    Args:
        services: The store, monitors and intake of the server.
        refusals: Number of refused requests by reason, one counter for each part that refuses requests.
    """

    @get("/metrics", sync_to_thread=True, include_in_schema=False)
    def metrics() -> Response[str]:
        return Response(exposition(services, refusals), media_type=MEDIA_TYPE)

    return metrics


def exposition(services: Services, refusals: Sequence[Counter[str]]) -> str:
    """Return the metrics in the text format of Prometheus.

    Raises:
        StoreError: If the store cannot be read.
    """
    made = Exposition()
    _add_counts(made, services)
    refused, help_ = "trivium_requests_refused_total", "Requests that this server refused."
    for reason, number in sorted(sum(refusals, Counter()).items()):
        made.add("counter", refused, help_, number, reason=reason)
    requests, size = services.intake.waiting
    made.add("gauge", "trivium_waiting_requests", "Requests that wait to be stored.", requests)
    made.add("gauge", "trivium_waiting_bytes", "Bytes of the requests that wait to be stored.", size)
    traces = open_traffic(services.store).traces
    made.add("gauge", "trivium_open_traces", "Traces that are not complete.", traces)
    spent = spent_usd(services.store)
    firing = Counter(alert.monitor for alert in alerts_of(services.store, firing=True, limit=10_000))
    jobs, now = LiveJobs(services.store), services.clock()
    for name in sorted(services.monitors):
        backlog = jobs.backlog(name)
        age = 0.0 if backlog.oldest is None else max(0.0, now - backlog.oldest)
        usd = spent.get(name, 0.0)
        for kind, metric, help_, value in (
            ("gauge", "trivium_backlog", "Samples that wait to be scored.", backlog.waiting),
            ("gauge", "trivium_backlog_age_seconds", "Age of the oldest sample that waits.", age),
            ("gauge", "trivium_alerts_firing", "Alerts that are not resolved.", firing[name]),
            ("counter", "trivium_judge_cost_usd_total", "What judges cost, in US dollars.", usd),
        ):
            made.add(kind, metric, help_, value, monitor=name)
    for state, number in ({"waiting": 0, "sent": 0, "failed": 0} | count_deliveries(services.store)).items():
        made.add("gauge", "trivium_deliveries", "Messages of alerts to channels.", number, state=state)
    return made.text()


def _add_counts(made: Exposition, services: Services) -> None:
    """Add the counts of the store, with 0 for events that never happened, so that rates have a start."""
    by_event: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for (monitor, event, reason), number in sorted(counts_of(services.store).items()):
        by_event[event][monitor, reason] = number
    for event, (name, help_, reason_label) in _COUNTERS.items():
        counts = by_event[event]
        if not reason_label:
            monitors = [""] if event in _OF_SERVER else sorted(services.monitors)
            counts = dict.fromkeys(((monitor, "") for monitor in monitors), 0) | counts
        for (monitor, reason), number in counts.items():
            labels = {"monitor": monitor} if monitor else {}
            if reason_label:
                labels[reason_label] = reason
            made.add("counter", name, help_, number, **labels)


def _braces(labels: Labels) -> str:
    parts = [f'{name}="{_escaped(value)}"' for name, value in labels]
    return f"{{{','.join(parts)}}}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
