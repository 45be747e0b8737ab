"""Messages about alerts: the answer in a sentence, where it comes from, the numbers, the worst examples."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from trivium.monitor.alerting.origins import Origin, Part
from trivium.monitor.windows import PASS_RATE, value_of
from trivium.store.live_samples import Sample
from trivium.suites.monitor_settings import MonitorSettings
from trivium.values import resolved

Kind = Literal["firing", "escalated", "eased", "resolved"]

PLURALS = {
    "agent": "all other agents",
    "model": "all other models",
    "version": "all other versions",
    "service": "all other services",
}
"""The rest of the traffic, by facet of the cause; an interaction may have several tools and tags."""

MOST_LIKEWISE = 3
"""Parts that cannot be told from the cause which a message names."""


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """A mean that is bad.

    Attributes:
        figure: ``pass_rate``, ``composite`` or a metric.
        facet: Its facet; empty for all traffic.
        value: The facet's value.
        severity: 1 worse than before the last deployment, 2 warning, 3 critical.
        threshold: What it is below.
        sure: Whether that is sure, at every look.
        mean: Its mean in the window; None without samples.
        low: Lower end of its interval of 95 %.
        high: Upper end of its interval of 95 %.
        samples: Number of samples.
        before: Lower confidence bound of its mean before the last deployment, if it is worse than that.
        below: Probability that its level is below ``threshold`` (docs/definitions/monitoring.md#alert).
    """

    figure: str
    facet: str = ""
    value: str = ""
    severity: int
    threshold: float
    sure: bool
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    before: float | None = None
    below: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Figure, facet and value."""
        return self.figure, self.facet, self.value


class Beside(msgspec.Struct, frozen=True):
    """Another alert about quality that fires at the same time.

    Attributes:
        alert: Its number.
        facet: Facet of its cause; empty if none was found.
        value: The facet's value.
    """

    alert: int
    facet: str = ""
    value: str = ""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One of the worst samples.

    Attributes:
        trace: Its trace id.
        time: Unix time at which the interaction began.
        figure: Its value of the alert's figure.
        score: Its composite.
        query: First characters of the input.
        output: First characters of the output.
    """

    trace: str
    time: float
    figure: float | None
    score: float | None
    query: str
    output: str


@resolved
class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message that is sent about an alert.

    Attributes:
        monitor: Name of the monitor.
        alert: Number of the alert.
        key: The same for the same message, on every channel and at every try.
        cause: ``quality``, ``stalled`` or ``no_data``.
        kind: ``firing``, ``escalated``, ``eased`` or ``resolved``.
        status: ``critical``, ``warning`` or ``worse`` (than before the last deployment), or the cause;
            ``healthy`` when it is resolved.
        previous: Status that the message before stated.
        title: The answer in one sentence.
        time: Unix time.
        opened: Unix time at which the alert began to fire.
        mean: The mean that is bad, over all traffic or of the first facet.
        sure: Whether its status is sure.
        error: Probability that any of the monitor's statuses is wrongly called sure, at most.
        origin: Where it comes from; None if from everywhere.
        without: Causes of earlier alerts, whose samples are left out where the rest is spoken of.
        beside: The other alerts about quality that fire at the same time.
        also: The other figures that are bad, each over all traffic or the cause.
        examples: The worst samples.
        advice: What to do.
        text: The message as plain text, as e-mails have it; empty in the store.
        waiting: Number of samples that wait to be scored.
        oldest_seconds: Age of the oldest of them.
        last: Unix time at which traffic last came.
    """

    monitor: str
    alert: int = 0
    key: str = ""
    cause: str = "quality"
    kind: Kind = "firing"
    status: str = ""
    previous: str | None = None
    title: str = ""
    time: float = 0.0
    opened: float = 0.0
    mean: Bad | None = None
    sure: bool = False
    error: float | None = None
    origin: Origin | None = None
    without: tuple[Part, ...] = ()
    beside: tuple[Beside, ...] = ()
    also: tuple[Bad, ...] = ()
    examples: tuple[Example, ...] = ()
    advice: str = ""
    text: str = ""
    waiting: int = 0
    oldest_seconds: float | None = None
    last: float | None = None


def over(about: Message, last: Message | None, samples: Sequence[Sample]) -> Message:
    """The message that an alert is resolved.

    Args:
        about: Monitor, cause, times and origin.
        last: The alert's latest message.
        samples: Samples of the window.
    """
    what = None if last is None else last.mean
    said = f"{_over(about.cause, what, samples)}, after {duration(max(0.0, about.time - about.opened))}"
    return replace(about, kind="resolved", status="healthy", title=_title(about, said), mean=what)


def of_outage(about: Message, settings: MonitorSettings) -> Message:
    """The message that scoring has stalled, or that no traffic comes.

    Args:
        about: Monitor, cause, times, and what waits.
        settings: Settings of the monitor.
    """
    return replace(about, status=about.cause, title=_title(about, _outage(about, settings)))


def of_quality(
    about: Message, bad: Sequence[Bad], samples: Sequence[Sample], settings: MonitorSettings
) -> Message:
    """The message that means are bad.

    Args:
        about: Monitor, kind, status, times, origin, and the causes of earlier alerts.
        bad: The means that are bad.
        samples: Samples of the window.
        settings: Settings of the monitor.
    """
    origin = about.origin
    named = None if origin is None else origin.part
    first = max(
        bad,
        key=lambda each: (each.severity, not each.facet, (each.facet, each.value) == named, each.samples),
    )
    return replace(
        about,
        title=_title(about, sentence(first, origin, without=about.without)),
        mean=first,
        sure=first.sure,
        error=settings.alpha if first.severity > 1 and first.sure else None,
        also=_also(bad, first, named),
        examples=_examples(samples, first, origin, settings.alerts.examples),
        advice=_advice(about.monitor, first, origin),
    )


def _title(about: Message, said: str) -> str:
    return one_line(f"{about.monitor}: {said}")


def sentence(bad: Bad, origin: Origin | None, *, without: Sequence[Part] = ()) -> str:
    """Describe a bad figure, and the cause of the drop, in one sentence.

    Args:
        bad: The figure.
        origin: The cause.
        without: Causes of other alerts, whose samples are not among the rest of the traffic.

    >>> sentence(Bad(figure="pass_rate", severity=3, threshold=0.7, sure=True, mean=0.61, samples=240), None)
    'pass rate is critical: 61 % of 240 samples, surely below 70 %'
    >>> sentence(Bad(figure="a", severity=2, threshold=0.8, sure=False, mean=0.7, samples=9, below=0.8), None)
    'a is low (warning): 0.700 over 9 samples, below 80 % (with a probability of 80 %)'
    """
    status = {1: "worse than before the last deployment", 2: "low (warning)", 3: "critical"}[bad.severity]
    cause = None if origin is None else origin.part
    what = words(bad.figure)
    if bad.facet and (bad.facet, bad.value) != cause:
        what += f" of {bad.facet} {bad.value}"
    if origin is None:
        return f"{what} is {status}: {_level(bad)}"
    return f"{what} is {status} in {origin.facet} {origin.value}: {fall(origin, without=without)}"


def fall(origin: Origin, *, without: Sequence[Part] = ()) -> str:
    """How much the cause of a drop fell, and what the rest did, without the causes of other alerts.

    >>> from msgspec.structs import replace
    >>> one = Origin(facet="tool", value="a", samples=50, mean=0.4, before=None, others=0.96, explains=1.0)
    >>> fall(one)
    '40 % of 50 samples; all traffic without it 96 %'
    >>> fall(replace(one, facet="version", before=0.95, others_before=0.96, since=0.0))
    '95 % → 40 % since 1970-01-01 00:00 UTC; all other versions unchanged at 96 %'
    >>> fall(one, without=[("version", "1.5")])
    '40 % of 50 samples; all traffic without it and version 1.5 96 %'
    """
    if origin.before is None or origin.since is None:
        own = f"{percent(origin.mean)} of {origin.samples:,} samples"
    else:
        own = f"{percent(origin.before)} → {percent(origin.mean)} since {moment(origin.since)}"
    others = _named(without)
    rest = f"all traffic without it{others and f' and {others}'}"
    if origin.facet in PLURALS:
        rest = f"{PLURALS[origin.facet]}{others and f' except {others}'}"
    if origin.others is None:
        return f"{own}; nothing ran beside it"
    if origin.others_before is None:
        return f"{own}; {rest} {percent(origin.others)}"
    if origin.others_fell:
        return f"{own}; {rest} {percent(origin.others_before)} → {percent(origin.others)}"
    return f"{own}; {rest} unchanged at {percent(origin.others)}"


def _named(parts: Sequence[Part]) -> str:
    return ", ".join(f"{facet} {value}" for facet, value in parts)


def _level(bad: Bad) -> str:
    """A mean, on how many samples it rests, and how surely it is below the threshold."""
    number = "no samples" if bad.mean is None else f"{percent(bad.mean)} of {bad.samples:,} samples"
    if bad.mean is not None and bad.figure != PASS_RATE:
        number = f"{bad.mean:.3f} over {bad.samples:,} samples"
    if bad.severity == 1:
        return f"{number}, it was at least {percent(bad.before)}{_odds(bad)}"
    below = f"surely below {percent(bad.threshold)}"
    return f"{number}, {below if bad.sure else f'below {percent(bad.threshold)}{_odds(bad)}'}"


def _odds(bad: Bad) -> str:
    """How probable it is that the level, not only the mean of these samples, is below the threshold."""
    if bad.below is None:
        return ""
    what = f"below {percent(bad.threshold)} now " if bad.severity == 1 else ""
    return f" ({what}with a probability of {probability(bad.below)})"


def facts(message: Message, *, resolved: float | None = None) -> list[str]:
    """The numbers of a message, a sentence each.

    Args:
        message: The message.
        resolved: Unix time at which its alert was resolved.
    """
    end = "" if resolved is None else f", resolved {moment(resolved)}"
    lines = [f"#{message.alert}, since {moment(message.opened)}{end}"]
    mean, origin = message.mean, message.origin
    if mean is not None and mean.low is not None and mean.high is not None:
        interval = f"95 % interval {percent(mean.low)} to {percent(mean.high)}, {mean.samples:,} samples"
        if origin is not None:
            whom = f"{mean.facet} {mean.value}" if mean.facet else "all traffic"
            interval = f"{whom}: {_level(mean)}, 95 % interval {percent(mean.low)} to {percent(mean.high)}"
        wrong = f"; wrong with a probability of at most {percent(message.error)}" if message.error else ""
        lines.append(f"{interval}{wrong}")
    if origin is not None:
        lines += _grounds(origin, message.without)
    elif message.cause == "quality" and message.kind != "resolved":
        lines.append("no cause was found: no part of the traffic surely fell more than the rest")
    if message.beside:
        named = ", ".join(
            f"#{each.alert}{each.value and f' ({each.facet} {each.value})'}" for each in message.beside
        )
        lines.append(f"beside alert {named}: another cause at the same time")
    if message.also:
        lines.append(f"also low: {', '.join(map(_brief, message.also))}")
    return lines


def _grounds(origin: Origin, without: Sequence[Part]) -> list[str]:
    """Why a part is named as the cause, and what speaks against it."""
    name = f"{origin.facet} {origin.value}"
    left = f" that is left without {_named(without)}" if without else ""
    lines = [f"{name} explains {percent(origin.explains)} of the drop{left}, {origin.samples:,} samples"]
    if origin.compared:
        how = "is lower" if origin.since is None else "fell more"
        parts = f"{origin.compared} part{'s' * (origin.compared != 1)} of the traffic compared"
        lines.append(f"it {how} than the rest beyond chance, {parts}")
    if origin.likewise:
        more, same = len(origin.likewise) - MOST_LIKEWISE, "they are in the same interactions"
        named = f"{_named(origin.likewise[:MOST_LIKEWISE])}{f' and {more} more' if more > 0 else ''}"
        lines.append(f"not to be told from it: {named}; {same}")
    if origin.others is None:
        lines.append(f"whatever else changed when {name} came would look the same: nothing ran beside it")
    return lines


_ADVICE = {
    "version": "roll {} back, or repair it and tell when: trivium monitor mark {} --deployed VERSION",
    "tool": "see in the worst cases what {} was asked and what it answered; is it up, and has it changed?",
    "model": "see in the worst cases what {} answered; has its provider changed it, and does another one do?",
    "agent": "see in the worst cases what {} did; have its prompt, tools or model changed?",
    "tag": "see what the worst cases with {} have in common; has this traffic changed?",
    "service": "see in the worst cases what {} did; was it deployed, and is what it needs up?",
}


def _advice(monitor: str, bad: Bad, origin: Origin | None) -> str:
    """What to do."""
    if origin is None and bad.facet:
        return f"see what the worst cases of {bad.facet} {bad.value} have in common"
    if origin is None:
        shared = "the model's provider, the data, the judge"
        return f"look at what all traffic shares ({shared}), then at the worst cases"
    name = f"{origin.facet} {origin.value}"
    return _ADVICE.get(origin.facet, "see the worst cases of {}").format(name, shlex.quote(monitor))


def _also(bad: Sequence[Bad], first: Bad, named: tuple[str, str] | None) -> tuple[Bad, ...]:
    """The worst mean of each other figure, over all traffic or the cause."""
    found: dict[str, Bad] = {}
    for each in sorted(bad, key=lambda each: (-each.severity, bool(each.facet))):
        if each.figure != first.figure and (not each.facet or (each.facet, each.value) == named):
            found.setdefault(each.figure, each)
    return tuple(found.values())


def text_of(message: Message) -> str:
    """A message as plain text."""
    lines = [message.title, "", *facts(message)]
    if message.examples:
        lines += ["", "The worst cases:"]
        lines += [
            f"{each.trace}: {one_line(each.query)[:120]} -> {one_line(each.output)[:120]}"
            for each in message.examples
        ]
    if message.advice:
        lines += ["", f"What to do: {message.advice}"]
    return "\n".join(one_line(line) for line in lines) + "\n"


def _brief(bad: Bad) -> str:
    value = percent(bad.mean) if bad.figure == PASS_RATE or bad.mean is None else f"{bad.mean:.3f}"
    return words(bad.figure) + (f" of {bad.facet} {bad.value}" if bad.facet else "") + f" {value}"


def one_line(text: str) -> str:
    """A text on one line, without control characters: names come from the traffic."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def words(figure: str) -> str:
    """The name of a figure in words."""
    return figure.replace("_", " ")


def percent(value: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.614)
    '61 %'
    """
    if value is None:
        return "unknown"
    number = f"{value * 100:.3g}" if value < 0.1 or value > 0.99 else f"{value * 100:.0f}"
    return f"{number} %"


def probability(value: float) -> str:
    """A probability that is an estimate, so that it is never certain.

    >>> probability(0.9999), probability(0.001)
    ('99 %', 'under 1 %')
    """
    return "under 1 %" if value < 0.01 else percent(min(value, 0.99))


def duration(seconds: float) -> str:
    """A time span, in its largest unit.

    >>> duration(5400)
    '1.5 hours'
    """
    for unit, size in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= size:
            number = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{number} {unit}{'' if number == '1' else 's'}"
    return f"{seconds:.0f} seconds"


def moment(time: float) -> str:
    """A Unix time as date and time in UTC.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _outage(about: Message, settings: MonitorSettings) -> str:
    if about.cause == "stalled":
        return (
            f"scoring has stalled: {about.waiting:,} samples wait, the oldest for "
            f"{duration(about.oldest_seconds or 0)} (bound: {duration(settings.stalled_after)})"
        )
    when = "at all" if about.last is None else f"since {moment(about.last)}"
    return f"no data: no traffic has come {when} (bound: {duration(settings.no_data_after)})"


def _over(cause: str, bad: Bad | None, samples: Sequence[Sample]) -> str:
    if cause == "stalled":
        return "samples are scored again"
    if cause == "no_data":
        return "traffic comes again"
    if bad is None:
        return "resolved"
    if bad.facet and not any(bad.value in each.facets.get(bad.facet, ()) for each in samples):
        return f"no samples of {bad.facet} {bad.value} come any more"
    return words(bad.figure) + (f" of {bad.facet} {bad.value}" if bad.facet else "") + " has recovered"


def _examples(samples: Sequence[Sample], bad: Bad, origin: Origin | None, number: int) -> tuple[Example, ...]:
    """The worst samples of the origin, else of what is bad; the latest among equals."""
    facet, value = (bad.facet, bad.value) if origin is None else (origin.facet, origin.value)
    valued = [
        (figure, each)
        for each in samples
        if (figure := value_of(each, bad.figure)) is not None
        and (not facet or value in each.facets.get(facet, ()))
    ]
    valued.sort(key=lambda pair: (pair[0], 1.0 if pair[1].score is None else pair[1].score, -pair[1].number))
    shown = ("trace", "time", "score", "query", "output")
    return tuple(
        Example(figure=figure, **{name: getattr(each, name) for name in shown})
        for figure, each in valued[:number]
    )
