"""Defines what a metric is and what it returns: Metric, TextMetric, TraceMetric, MetricInput and Score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

import msgspec

from trivium.agents.attempt import TRACE_LEFT_OUT, Attempt
from trivium.errors import MissingExtra
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.traces.trace import Trace

Tier = Literal["text", "judge", "trace"]
Status = Literal["ok", "fallback", "abstained", "skipped", "error"]
STATUSES: tuple[Status, ...] = ("ok", "fallback", "abstained", "skipped", "error")


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure about one attempt.

    Attributes:
        name: The metric.
        tier: text, judge or trace.
        value: In [0, 1], higher is better; None unless status is ok or fallback. An ``ok`` score
            without value is a figure that is reported, not scored.
        status: ok, fallback, abstained, skipped or error.
        raw: The figure in its natural unit.
        reason: Why it is not ok.
        method: What was used when it was not the defined way, or which of several ways it was.
        detail: Anything a report may show.
        missing: Whether a skipped score was due: the metric applies, and what it needs could not be had
            (no judge answered, and ``on_failure`` is ``skip``).
    """

    name: str
    tier: Tier
    value: float | None = None
    status: Status = "ok"
    raw: Any = None
    reason: str | None = None
    method: str | None = None
    detail: dict[str, Any] = {}
    missing: bool = False

    @property
    def has_value(self) -> bool:
        """Whether there is a number that may enter an average."""
        return self.value is not None

    @property
    def shown(self) -> Any:
        """Which of the texts that it rests on were shown to a judge in part, and how much of them."""
        return self.detail.get("shown")


class ScoreLike(Protocol):
    """What a score and its outline have in common; see :class:`Score`."""

    @property
    def tier(self) -> str:
        """text, judge or trace."""

    @property
    def value(self) -> float | None:
        """In [0, 1], or None."""

    @property
    def status(self) -> str:
        """ok, fallback, abstained, skipped or error."""

    @property
    def missing(self) -> bool:
        """Whether a skipped score was due."""


def is_judge_fallback(score: ScoreLike) -> bool:
    """Whether the value stands in for a judgement: another quantity, which decides nothing."""
    return score.tier == "judge" and score.status == "fallback"


def is_unavailable(score: ScoreLike) -> bool:
    """Whether it was due and is not there because of an error, or because no judge could be had."""
    return score.status == "error" or score.missing or is_judge_fallback(score)


def is_missing(score: ScoreLike) -> bool:
    """Whether it was due and is not there, for whatever reason (spec: metrics, "What was due …")."""
    return score.status == "abstained" or is_unavailable(score)


class MetricInput(msgspec.Struct, frozen=True):
    """What a metric looks at: a case, an attempt of it, and the scores that the metric ``needs``.

    Metrics keep in ``prefetched`` what they have under way for it.
    """

    case: Case
    attempt: Attempt
    scores: Mapping[str, Score] = {}
    prefetched: dict[Any, Any] = {}


class Skip(Exception):
    """Raised by a metric that does not apply; its text becomes the reason of a skipped score."""


class Stopped(Exception):
    """Raised by a metric that was closed before its scores were there; the attempt stays unscored."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Base of all metrics.

    Subclasses are frozen dataclasses, made by the decorator ``@metric``; their fields are their settings.

    Attributes:
        name: How suites and reports call it.
        tier: text, judge or trace.
        fixed_needs: Metrics whose scores must be there first, whatever the settings.
        version: Changes when the same input may give another score; runs with unlike versions are
            compared only on request.
    """

    name: ClassVar[str] = ""
    tier: ClassVar[Tier] = "text"
    fixed_needs: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[str] = "1"
    prefetches: ClassVar[bool] = False
    """Whether ``prefetch`` does something; it is then called with attempts before their turn to be scored."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric as a suite's settings want it."""
        return cls()

    @property
    def needs(self) -> tuple[str, ...]:
        """Metrics whose scores must be there first. Override where the settings decide."""
        return self.fixed_needs

    def check(self) -> None:
        """Refuse to be measured where what the metric needs is not installed.

        Raises:
            TriviumError: Saying what to install.
        """

    def score(self, subject: MetricInput) -> Score:
        """The score of one attempt; raises Skip where the metric does not apply."""
        raise NotImplementedError

    def score_many(self, subjects: Sequence[MetricInput]) -> list[Score]:
        """Scores of several attempts, in order. Override where a batch is cheaper."""
        return [self.score_or_skip(subject) for subject in subjects]

    def prefetch(self, subjects: Sequence[MetricInput]) -> None:
        """Start what takes long without waiting for it; ``score_many`` gets the same inputs later."""

    def close(self) -> None:
        """Let go of what is held: nothing is scored any more. May be called twice, and from any thread."""

    def score_or_skip(self, subject: MetricInput) -> Score:
        """The score of one attempt; a Skip, or an extra that is not installed, becomes a skipped score."""
        try:
            return self.score(subject)
        except (Skip, MissingExtra) as skip:
            return self.skipped(str(skip))

    def ok(self, value: float | None, **fields: Any) -> Score:
        """A score of this metric that was computed as defined."""
        return Score(name=self.name, tier=self.tier, value=value, **fields)

    def skipped(self, reason: str, **fields: Any) -> Score:
        """A score of this metric that does not apply."""
        return Score(name=self.name, tier=self.tier, status="skipped", reason=reason, **fields)

    def error(self, reason: str, **fields: Any) -> Score:
        """A score of this metric that was due and failed."""
        return Score(name=self.name, tier=self.tier, status="error", reason=reason, **fields)


@dataclass(frozen=True, kw_only=True)
class TextMetric(Metric):
    """A metric that compares an output with a reference text; several references are handled here.

    Attributes:
        references: ``best`` takes the highest value over the references, ``mean`` their mean.
    """

    tier: ClassVar[Tier] = "text"
    references: str = "best"

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's rule for several references."""
        return cls(references=settings.references)

    def compare(self, output: str, reference: str) -> float:
        """How close an output is to one reference, in [0, 1]."""
        raise NotImplementedError

    def score(self, subject: MetricInput) -> Score:
        """Compares with every reference and reduces; ``raw`` keeps every value."""
        references = subject.case.references
        if not references:
            raise Skip("the case has no reference")
        text = subject.attempt.text
        return self.reduced([self.compare(text, reference) for reference in references])

    def reduced(self, values: Sequence[float], **fields: Any) -> Score:
        """The score of one attempt from its values against each reference."""
        value = max(values) if self.references == "best" else sum(values) / len(values)
        return self.ok(value, raw=list(values), **fields)


@dataclass(frozen=True, kw_only=True)
class TraceMetric(Metric):
    """A metric of what an agent did; an attempt without a trace, or whose trace is broken, ends here."""

    tier: ClassVar[Tier] = "trace"

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; raises Skip where the metric does not apply."""
        raise NotImplementedError

    def score(self, subject: MetricInput) -> Score:
        """Measures the attempt's trace."""
        trace = subject.attempt.trace
        if trace is None and TRACE_LEFT_OUT in subject.attempt.flags:
            why = subject.attempt.metadata.get("trace_error")
            return self.error(f"the trace of the attempt cannot be read: {why}")
        if trace is None:
            raise Skip("the attempt has no trace")
        made = self.measure(trace, subject.case)
        if trace.missing_part is not None and made.status == "ok":
            made = msgspec.structs.replace(made, reason=f"{INCOMPLETE_TRACE}{trace.missing_part}")
        return made


INCOMPLETE_TRACE = "the trace is incomplete: "
"""How the reason of a score begins that was computed all the same."""

RECORDED_BY = "recorded by "
"""How the method of a figure names what recorded the trace, where the figure depends on it."""
