"""Puts the status of a monitor into sentences, the same on every surface."""

from collections.abc import Iterator

from trivium.monitor.alerting.messages import duration, moment, percent, probability
from trivium.monitor.status import LOST_SECONDS, MonitorStatus
from trivium.monitor.windows import PASS_RATE, Estimate

__all__ = ["answer", "bounds", "by_facet", "mean", "reservations", "waits_for"]


_LACKING = {
    "dropped": "samples were dropped before they were scored: the figures lack them",
    "failed": "samples could not be scored",
    "unjudged": "samples lack a judgement: no judge answered, or the day's budget was used up, and then "
    "those of the late hours lack it (per_hour makes it last)",
}
"""Events of the counts that the figures lack, in words."""


def answer(status: MonitorStatus) -> tuple[str, str]:
    """The answer in a sentence, in two parts: what the status is, and the figure that it rests on.

    The second part is empty without a figure.
    """
    what = status.status.replace("_", " ")
    if status.status in {"critical", "warning"}:
        what += " (sure)" if status.sure else " (not sure yet)"
    figure = status.window.figure(PASS_RATE)
    if figure.mean is not None:
        below = ""
        if figure.below is not None and figure.warning is not None:
            below = f", below {percent(figure.warning)} with a probability of {probability(figure.below)}"
        return what, (
            f"{percent(figure.mean)} of the traffic passes, 95 % interval {bounds(figure)}{below}, "
            f"{_samples(figure.samples)}"
        )
    if awaited := waits_for(status):
        return what, awaited
    if status.last_interaction is None:
        return what, "no traffic yet"
    if status.status == "no_data":
        return what, f"no traffic since {moment(status.last_interaction)}"
    return what, ""


def waits_for(status: MonitorStatus) -> str:
    """What was received and is not scored yet, and what it waits for; empty if nothing waits."""
    parts = []
    if status.open.traces:
        spans, traces = status.open.spans, status.open.traces
        came = f"{spans:,} span{'s' * (spans != 1)} of {traces:,} trace{'s' * (traces != 1)} received"
        due = max(0.0, (status.open.due or status.time) - status.time)
        parts.append(f"{came}, waiting {duration(due)} for further ones")
    if status.waiting:
        oldest = (
            "" if status.oldest_seconds is None else f", the oldest for {duration(status.oldest_seconds)}"
        )
        parts.append(f"waiting to be scored: {_samples(status.waiting)}{oldest}")
    return "; ".join(parts)


def mean(each: Estimate) -> str:
    """A mean: the pass rate in per cent, others with three decimals, a dash without samples."""
    if each.mean is None:
        return "–"
    return percent(each.mean) if each.figure == PASS_RATE else f"{each.mean:.3f}"


def bounds(each: Estimate) -> str:
    """The ends of an interval, or an empty text."""
    if each.low is None or each.high is None:
        return ""
    if each.figure == PASS_RATE:
        return f"{percent(each.low)} to {percent(each.high)}"
    return f"{each.low:.3f} to {each.high:.3f}"


def by_facet(status: MonitorStatus) -> dict[str, list[Estimate]]:
    """The pass rate by each facet that has more than one value, the worst value first."""
    facets: dict[str, list[Estimate]] = {}
    for each in status.window.by:
        if each.figure == PASS_RATE:
            facets.setdefault(each.facet, []).append(each)
    return {
        facet: sorted(found, key=lambda each: (each.mean is None, each.mean or 0.0, -each.samples))
        for facet, found in facets.items()
        if len(found) > 1
    }


def reservations(status: MonitorStatus) -> Iterator[str]:
    """What changes how the figures are to be read, a sentence each."""
    counts = status.counts
    window = status.window
    length = duration(max(0.0, window.end - window.begin))
    seen = counts.get("complete", 0)
    yield (
        f"window: the last {length}; {seen:,} interactions, {counts.get('sampled', 0):,} sampled, "
        f"{counts.get('scored', 0):,} scored; each sample is weighted by 1 / its probability"
    )
    for event, sentence in _LACKING.items():
        if counts.get(event):
            yield f"{counts[event]:,} {sentence}"
    if undecided := window.samples - window.figure(PASS_RATE).samples:
        yield (
            f"{undecided:,} of {_samples(window.samples)} neither passed nor failed, so the pass "
            "rate lacks them: trivium monitor why TRACE"
        )
    if window.shortened:
        yield f"the window shows its last {window.samples:,} samples"
    if (awaited := waits_for(status)) and status.window.figure(PASS_RATE).mean is not None:
        yield awaited
    for facet, number in window.left_out.items():
        yield f"{number:,} further values of {facet} are not shown"
    if status.unwatched:
        yield f"{status.unwatched:,} values of facets are not watched for alerts: there are too many"
    if unwatched := _unwatched(status):
        yield unwatched
    since = "the beginning" if status.since is None else moment(status.since)
    mark = status.mark
    if mark is not None and status.since is not None:
        what = "reset" if mark.kind == "reset" else f"deployment {mark.version or ''}".strip()
        since = f"{since} ({what})"
    wrong = percent(status.error)
    yield f'"sure" holds at every look since {since}; wrong with a probability of at most {wrong}'


def _samples(number: int) -> str:
    return "1 sample" if number == 1 else f"{number:,} samples"


def _unwatched(status: MonitorStatus) -> str:
    """That nobody decides what is sure and sends alerts; empty where somebody does."""
    if status.looked is None:
        return "nobody watches yet: trivium serve SUITE, on this store, says what is sure and sends alerts"
    if status.time - status.looked > LOST_SECONDS:
        return f"nobody has watched since {moment(status.looked)}: what is sure, and the alerts, are of then"
    return ""
