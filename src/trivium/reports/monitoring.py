"""What production looks like, in blocks: the status of a monitor, its alerts, samples, and a replay."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

from trivium.monitor import sentences
from trivium.monitor.alerting.messages import Example, Message, duration, facts, percent, words
from trivium.monitor.replay import Replayed
from trivium.monitor.status import MonitorStatus
from trivium.monitor.trials import Trial
from trivium.monitor.windows import COMPOSITE, Estimate, Point, Resources
from trivium.reports.document.blocks import (
    VERDICTS,
    Answer,
    Block,
    Cell,
    Column,
    Drawing,
    Facts,
    Links,
    Mark,
    Paragraph,
    Picture,
    Section,
    Surface,
    Table,
    Title,
    Toned,
    table,
)
from trivium.reports.drawings.over_time import over_time_svg
from trivium.reports.wording import dollars, moment, number, seconds, share
from trivium.safe_text import one_line
from trivium.store.live_alerts import Mark as Recorded
from trivium.store.live_alerts import StoredAlert
from trivium.store.live_samples import Sample
from trivium.values import counted

MOST_ROWS = 8
"""Values of a facet that are shown, except on a page."""

BARS = "▁▂▃▄▅▆▇█"


def describe(status: MonitorStatus, surface: Surface, *, rows: int = MOST_ROWS) -> Iterator[Block]:
    """Yield the blocks of a status: the answer, firing alerts, figures, where they differ, reservations.

    Args:
        status: The status.
        surface: Where it is shown.
        rows: Values of each facet that are shown, except on a page.
    """
    yield from _answer(status, surface)
    if status.alerts:
        yield alerts_table(status.alerts, now=status.time)
    if status.window.samples:
        yield table(FIGURES, _distinct(status.window.figures), label="Figures of all traffic")
        yield _resources(status.window.resources[0])
        line = sparkline(status.series)
        if line or surface == "page":
            marks = "▲ deployments, ◆ alerts (◇ resolved), // unknown"
            label = f"Pass rate, cost, latency and volume over the window; {marks}"
            drawn = Picture(over_time_svg(status), label, label)
            yield Drawing((drawn,), f"{line}  pass rate, oldest first")
        yield from _facets(status, surface, rows)
    yield Paragraph(tuple(sentences.reservations(status)), "quiet")


def _answer(status: MonitorStatus, surface: Surface) -> Iterator[Block]:
    what, figure = sentences.answer(status)
    if surface != "page":  # a page has it in its head
        yield Title(text=status.monitor)
    sentence = f"{figure[:1].upper()}{figure[1:]}." if figure else ""
    yield Answer(answer=words(status.status), words=what, sentence=sentence, grounds=())


def _resources(took: Resources) -> Facts:
    """What the interactions of all traffic took."""
    cost = "unknown: no trace states it"
    if took.with_cost:
        cost = (
            f"{dollars(took.cost_usd)}, mean of an interaction{_known(took) and f' ({_known(took)} samples)'}"
        )
    latency = f"p50 {seconds(took.latency_p50)}, p95 {seconds(took.latency_p95)}" if took.timed else "unknown"
    volume = f"about {counted(round(took.interactions), 'interaction')}"
    return Facts((("cost", cost), ("latency", latency), ("volume", volume)))


def _known(took: Resources) -> str:
    """Of how many samples the cost is known, if it is of some only."""
    return f"{took.with_cost:,} of {took.samples:,}" if 0 < took.with_cost < took.samples else ""


def _latency(took: Resources) -> str:
    return f"{seconds(took.latency_p50)}, {seconds(took.latency_p95)}" if took.timed else ""


def _facets(status: MonitorStatus, surface: Surface, rows: int) -> Iterator[Table]:
    """Yield the pass rate by each facet that has more than one value, a table each."""
    took = {(each.facet, each.value): each for each in status.window.resources}

    def of(each: Estimate) -> Resources:
        return took[each.facet, each.value]

    for facet, worst in sentences.by_facet(status).items():
        shown = worst if surface == "page" else worst[:rows]
        columns: list[Column[Estimate]] = [
            Column(f"by {facet}, worst first", lambda each: each.value, "name"),
            *FIGURES[1:2],
            Column("pass rate", lambda each: Toned(sentences.mean(each), "strong")),
            *FIGURES[3:5],
            Column("latency p50, p95", lambda each: _latency(of(each)), "interval", where="wide"),
            Column("cost", lambda each: dollars(of(each).cost_usd), optional=True),
            Column("cost known of", lambda each: _known(of(each)), "interval", where="page", optional=True),
            Column("its own calls failed in", _own_failures, "text", optional=True),
        ]
        more = f"… {len(shown)} of {len(worst)} shown" if len(shown) < len(worst) else ""
        yield table(columns, shown, label=f"By {facet}, worst first", notes=(more,))


def _own_failures(each: Estimate) -> Cell:
    """In how many samples a call of a tool failed, whatever became of the interaction."""
    if not each.called:
        return ""
    words = f"{each.failed:,} of {each.called:,} ({percent(each.failed / each.called)})"
    return Toned(words, "" if each.failed else "quiet")


def _state(each: Estimate) -> Cell:
    if each.status is None:
        return ""
    said = (words(each.status), "sure" if each.sure else "", "worse" if each.changed else "")
    return Mark(words(each.status), ", ".join(filter(None, said)), brief=False)


FIGURES: tuple[Column[Estimate], ...] = (
    Column("figure", lambda each: words(each.figure), "name"),
    Column("status", _state, "mark"),
    Column("mean", lambda each: Toned(sentences.mean(each), "strong")),
    Column("95 % interval", sentences.bounds, "interval"),
    Column("samples", lambda each: f"{each.samples:,}"),
    Column("sessions", lambda each: f"{each.sessions:,}", where="wide"),
)


def alerts_table(alerts: Iterable[StoredAlert], *, now: float) -> Table:
    """Alerts, each with the link to its page.

    Args:
        alerts: The alerts.
        now: Unix time.
    """
    columns: list[Column[StoredAlert]] = [
        Column("", lambda each: Mark(_word(each), _word(each), brief=False), "mark"),
        Column("", lambda each: Toned(_title(each), link=f"/alerts/{each.number}"), "text"),
        Column("", lambda each: Toned(_since(each, now), "quiet"), "text"),
    ]
    return table(columns, alerts, label="Alerts")


def _word(alert: StoredAlert) -> str:
    return "resolved" if alert.state == "resolved" else words(alert.status)


def _title(alert: StoredAlert) -> str:
    title = str(alert.body.get("title", "")).removeprefix(f"{alert.monitor}: ")
    return one_line(title, at_most=400) or f"alert {alert.number}"


def _since(alert: StoredAlert, now: float) -> str:
    if alert.resolved is not None:
        return f"resolved {duration(max(0.0, now - alert.resolved))} ago"
    return f"for {duration(max(0.0, now - alert.opened))}"


def describe_message(
    message: Message,
    *,
    state: str = "firing",
    resolved: float | None = None,
    places: Mapping[str, tuple[str, str | None]] = {},
) -> Iterator[Block]:
    """Yield the blocks of a message: its sentence, the numbers, what else is bad, the worst examples.

    Args:
        message: The message.
        state: ``firing`` or ``resolved``.
        resolved: Unix time at which it was resolved.
        places: Address of each example's case, and its error, by trace; others lead to their trace.
    """
    word = "resolved" if state == "resolved" else words(message.status)
    grounds = tuple(facts(message, resolved=resolved))
    yield Answer(answer=word, sentence=f"{message.title}.", grounds=grounds)
    if message.origin is not None:
        yield _samples_of(message.monitor, *message.origin.part)
    if message.beside:
        others = ((f"alert {each.alert}", f"/alerts/{each.alert}") for each in message.beside)
        yield Links("Beside it:", tuple(others))
    if message.examples:
        yield table(_examples(places), message.examples, label="Worst cases")
    if message.advice and state != "resolved":
        yield Paragraph((f"What to do: {message.advice}",))


_QUESTION = re.compile(r'\{"(?:question|input|query|prompt|text|message|content)": ?("(?:[^"\\]|\\.)*")')
"""The beginning of an input that is an object with a question."""


def _asked(query: str, output: str) -> str:
    """The input of an interaction, of an object its question."""
    if not query and not output:
        return "no input or output is recorded"
    found = _QUESTION.match(query)
    try:
        question = query if found is None else str(json.loads(found[1]))
    except ValueError:
        question = query
    return one_line(question, at_most=120)


def _samples_of(monitor: str, facet: str, value: str) -> Links:
    """The links to the samples of a part of the traffic: all, and those that did not pass."""
    part = {"part": f"{facet} {value}"}
    links = {"all": part, "those that did not pass": {**part, "failed": "true"}}
    page = f"/monitors/{quote(monitor, safe='')}"
    return Links(
        f"Samples of {facet} {value}:",
        tuple((words, f"{page}?{urlencode(chosen)}#samples") for words, chosen in links.items()),
    )


def _distinct(figures: Sequence[Estimate]) -> Iterator[Estimate]:
    """The figures but a composite that is the pass rate under another name, and has no thresholds."""
    rate = figures[0] if figures else None
    for each in figures:
        if each.figure != COMPOSITE or each.status or rate is None or each.mean != rate.mean:
            yield each


def _examples(places: Mapping[str, tuple[str, str | None]]) -> list[Column[Example]]:
    """The columns of the worst cases."""

    def asked(each: Example) -> Toned:
        place, _ = places.get(each.trace, (trace_address(each.trace), None))
        return Toned(_asked(each.query, each.output), link=place)

    errors = {trace: error for trace, (_, error) in places.items() if error}
    return [
        Column("worst cases", asked, "text"),
        Column("output", lambda each: _answered(each, errors), "text"),
        Column("composite", lambda each: number(each.score), where="page"),
        Column("time (UTC)", lambda each: moment(each.time), "interval", where="page"),
        Column(
            "trace",
            lambda each: Toned(one_line(each.trace), "quiet", link=trace_address(each.trace)),
            "text",
        ),
    ]


def _answered(each: Example | Sample, errors: Mapping[str, str]) -> Toned:
    """The output; in its place, of an interaction that failed without one, why it did."""
    if not each.output and each.trace in errors:
        return Toned(one_line(f"error: {errors[each.trace]}", at_most=200), "bad")
    return Toned(one_line(each.output, at_most=200))


def trace_address(trace: str) -> str:
    """Address of the page that says why a trace has its scores."""
    return f"/traces/{quote(trace, safe='')}"


def samples_table(samples: Iterable[Sample], errors: Mapping[str, str]) -> Table:
    """Scored samples, each with the link to why it has its scores.

    Args:
        samples: The samples.
        errors: Why those that failed did, by trace.
    """
    shown = list(samples)
    columns = [*SAMPLES[:3], Column("output", lambda each: _answered(each, errors), "text"), *SAMPLES[3:]]
    if any(each.score != each.passed for each in shown):
        columns.insert(4, Column("composite", lambda each: number(each.score)))
    return table(columns, shown, label="Samples")


def _verdict(each: Sample) -> Mark:
    if each.failed or each.passed is None:
        return VERDICTS["error" if each.failed else "undecided"]
    return VERDICTS["passed" if each.passed else "failed"]


SAMPLES: tuple[Column[Sample], ...] = (
    Column("time (UTC)", lambda each: Toned(moment(each.time), link=trace_address(each.trace)), "name"),
    Column("verdict", _verdict, "mark"),
    Column("input", lambda each: _asked(each.query, each.output), "text"),
    Column("latency", lambda each: seconds(each.seconds)),
    Column("cost", lambda each: dollars(each.cost_usd)),
    Column(
        "sampled by",
        lambda each: Toned(f"{each.rule or 'rate'}, {share(each.probability)}", "quiet"),
        "interval",
    ),
)


def monitors_table(statuses: Iterable[MonitorStatus]) -> Table:
    """Monitors with their answers, each with the link to its page."""
    columns: list[Column[MonitorStatus]] = [
        Column(
            "monitor",
            lambda each: Toned(each.monitor, link=f"/monitors/{quote(each.monitor, safe='')}"),
            "name",
        ),
        Column(
            "status", lambda each: Mark(words(each.status), sentences.answer(each)[0], brief=False), "mark"
        ),
        Column("figure", lambda each: sentences.answer(each)[1], "text"),
        Column("waiting", _waiting, "text", optional=True),
    ]
    return table(columns, statuses, label="Monitors")


def _waiting(status: MonitorStatus) -> str:
    if not status.waiting:
        return ""
    age = "" if status.oldest_seconds is None else f", the oldest for {duration(status.oldest_seconds)}"
    return f"{counted(status.waiting, 'sample')} to be scored{age}"


def history(
    past: Sequence[StoredAlert], marks: Sequence[Recorded], refused: Sequence[tuple[str, int]], *, now: float
) -> Iterator[Section]:
    """Yield what happened: deployments and resets, resolved alerts, spans that were refused.

    Args:
        past: Resolved alerts.
        marks: Deployments and resets.
        refused: Reasons, with how many spans were refused for each within a day.
        now: Unix time.
    """
    if marks:
        yield Section(title="deployments and resets", blocks=[table(MARKS, marks, label="Deployments")])
    if past:
        yield Section(title="resolved alerts", blocks=[alerts_table(past, now=now)])
    if refused:
        shown = table(REFUSED, refused, label="Refused spans")
        yield Section(title="refused spans, last day, of all services", blocks=[shown])


MARKS: tuple[Column[Recorded], ...] = (
    Column("time (UTC)", lambda each: moment(each.time), "text"),
    Column("what", lambda each: " ".join(filter(None, (each.kind, each.version))), "text"),
    Column("note", lambda each: Toned(each.note or "", "quiet"), "text", optional=True),
)
REFUSED: tuple[Column[tuple[str, int]], ...] = (
    Column("spans", lambda each: f"{each[1]:,}"),
    Column("reason", lambda each: each[0], "text"),
)


def describe_replay(found: Replayed) -> Iterator[Block]:
    """Yield the blocks of a replay: its messages, other thresholds, and the status at the end."""
    total = counted(len(found.messages), "message") if found.messages else "no message"
    yield Title(text=f"{total}, sent" if found.sent else f"{total} would have been sent")
    for message in found.messages:
        state = "resolved" if message.kind == "resolved" else "firing"
        after = f"after {duration(message.time - found.begin)}: {message.kind}"
        yield Section(title=after, blocks=describe_message(message, state=state))
    yield table(TRIALS, found.trials, label="Thresholds")
    yield from _answer(found.status, "terminal")
    yield from _facets(found.status, "terminal", MOST_ROWS)
    times = "which state no times: spread evenly" if found.spread else "in their own time"
    traces = f"{found.traces:,} traces over {duration(found.end - found.begin)}, {times}"
    yield Paragraph((f"{traces}; {found.samples:,} sampled and scored",), "quiet")


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else duration(seconds)


TRIALS: tuple[Column[Trial], ...] = (
    Column("pass rate below", lambda each: percent(each.threshold), "interval"),
    Column("surely, after", lambda each: _after(each.first_sure), "interval"),
    Column("in the window, after", lambda each: _after(each.first_below), "interval"),
    Column("times", lambda each: f"{each.crossings}"),
)


def sparkline(points: Sequence[Point]) -> str:
    """Means over time as bars; a blank where there is no sample, empty without two."""
    if sum(point.mean is not None for point in points) < 2:
        return ""
    top = len(BARS) - 1
    return "".join(" " if each.mean is None else BARS[round(each.mean * top)] for each in points)
