"""Defines what a metric is and what it returns: Metric, TextMetric, TraceMetric, MetricInput and Score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

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
    """The result of one metric for one attempt.

    Definition: docs/definitions/scores.md#score.

    Attributes:
        name: Name of the metric.
        tier: text, judge or trace.
        value: In [0, 1], higher is better; None unless the status is ok or fallback. An ``ok`` score without
            a value is reported, not scored.
        status: ok, fallback, abstained, skipped or error.
        raw: The value in its natural unit, such as seconds.
        reason: Why the status is not ok.
        method: Which of several methods computed the value.
        detail: Further data for reports.
        missing: Whether a skipped score counts as missing: the metric applies, but something that it needs
            was not available (no judge answered, and ``on_failure`` is ``skip``; or the attempt failed).
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
        """Whether the score has a number that can enter an average."""
        return self.value is not None

    @property
    def shown(self) -> Any:
        """Inputs of which the judge saw only a part, and how much of each; None if there is none."""
        return self.detail.get("shown")

    @property
    def not_given(self) -> Any:
        """Parts of a judge's answer that it lacks and that no score needs; None if there is none."""
        return self.detail.get("not_given")


class MetricInput(msgspec.Struct, frozen=True):
    """The input of a metric.

    Attributes:
        case: The case.
        attempt: An attempt at it.
        scores: Scores of the metrics that the metric ``needs``; at first, those that exist already.
        prefetched: Work that metrics have started for this input, such as pending judgements.
    """

    case: Case
    attempt: Attempt
    scores: Mapping[str, Score] = {}
    prefetched: dict[Any, Any] = {}


class Skip(Exception):
    """Raised by a metric that does not apply; the message becomes the reason of a skipped score."""


class Stopped(Exception):
    """Raised by a metric that was closed while it scored; the attempt stays unscored."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Base class of all metrics.

    The decorator ``@metric`` makes subclasses frozen dataclasses; their fields are their settings.

    Attributes:
        name: Name in suites and reports.
        tier: text, judge or trace.
        fixed_needs: Metrics that must be computed first, independent of the settings.
        fixed_case_fields: See ``case_fields``, independent of the settings.
        version: Changes when the same input may give another score; runs with different versions are
            compared only on request.
        unit: Unit of ``raw``, which reports show next to the score: ``s`` for seconds, words such as
            ``retries per call``, or "" for a plain number. None if only the score has a meaning.
        better: Whether a higher or a lower ``raw`` (without a unit: score) is better; None for a metric that
            describes an agent without rating it.
    """

    name: ClassVar[str] = ""
    tier: ClassVar[Tier] = "text"
    fixed_needs: ClassVar[tuple[str, ...]] = ()
    fixed_case_fields: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[str] = "1"
    unit: ClassVar[str | None] = None
    better: ClassVar[Literal["higher", "lower"] | None] = "higher"
    prefetches: ClassVar[bool] = False
    """Whether the metric implements ``prefetch``, which is then called before the attempts are scored."""

    uses_all_cores: ClassVar[bool] = False
    """Whether one process that computes the metric uses all cores already, as a neural encoder does."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric from the settings of a suite."""
        return cls()

    @property
    def needs(self) -> tuple[str, ...]:
        """Metrics that must be computed first. Override this if they depend on the settings."""
        return self.fixed_needs

    @property
    def case_fields(self) -> tuple[str, ...]:
        """Fields of a case of which at least one must be given, or the metric is skipped; empty for none.

        Such as ``references`` or ``expect.tools``. A metric without any can score recorded traces as they are
        (``trivium traces score``). Override this if they depend on the settings.
        """
        return self.fixed_case_fields

    def check(self) -> None:
        """Check that everything that the metric needs is installed.

        Raises:
            TriviumError: If something is not; the message says what to install.
        """

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt.

        Raises:
            Skip: If the metric does not apply.
        """
        raise NotImplementedError

    def score_many(self, inputs: Sequence[MetricInput]) -> list[Score]:
        """Score several attempts, in order. Override this if a batch is faster."""
        return [self.score_or_skip(metric_input) for metric_input in inputs]

    def prefetch(self, inputs: Sequence[MetricInput]) -> None:
        """Start slow work without waiting for it; ``score_many`` gets the same inputs later."""

    def close(self) -> None:
        """Release all resources; no score follows. May be called twice, and from any thread."""

    def score_or_skip(self, metric_input: MetricInput) -> Score:
        """Score one attempt; a Skip or a missing extra becomes a skipped score."""
        try:
            return self.score(metric_input)
        except (Skip, MissingExtra) as skip:
            return self.skipped(str(skip))

    def ok(self, value: float | None, **fields: Any) -> Score:
        """Make a score with status ok, unless the fields name another."""
        return Score(name=self.name, tier=self.tier, value=value, **fields)

    def skipped(self, reason: str, **fields: Any) -> Score:
        """Make a score with status skipped: the metric does not apply."""
        return Score(name=self.name, tier=self.tier, status="skipped", reason=reason, **fields)

    def error(self, reason: str, **fields: Any) -> Score:
        """Make a score with status error: the metric applies, but failed."""
        return Score(name=self.name, tier=self.tier, status="error", reason=reason, **fields)


@dataclass(frozen=True, kw_only=True)
class TextMetric(Metric):
    """A metric that compares an output with each reference; this class combines the values.

    Definition: docs/definitions/text.md#references.

    Attributes:
        references: Whether the ``best`` or the ``mean`` value over the references is the score.
    """

    tier: ClassVar[Tier] = "text"
    fixed_case_fields: ClassVar[tuple[str, ...]] = ("references",)
    references: str = "best"

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's rule for several references."""
        return cls(references=settings.references)

    def compare(self, output: str, reference: str) -> float:
        """Return the similarity of an output to one reference, in [0, 1]."""
        raise NotImplementedError

    def compare_many(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Compare several pairs of output and reference. Override this if a batch is faster."""
        return [self.compare(output, reference) for output, reference in pairs]

    def score(self, metric_input: MetricInput) -> Score:
        """Compare the output with every reference; ``raw`` has the value for each."""
        references = metric_input.case.references
        if not references:
            raise Skip("the case has no reference")
        text = metric_input.attempt.text
        return self.reduced([self.compare(text, reference) for reference in references])

    def reduced(self, values: Sequence[float], **fields: Any) -> Score:
        """Make the score of one attempt from its values for each reference."""
        value = max(values) if self.references == "best" else sum(values) / len(values)
        return self.ok(value, raw=list(values), **fields)


@dataclass(frozen=True, kw_only=True)
class TraceMetric(Metric):
    """A metric of the trace; this class handles attempts without a trace, or with an unreadable one."""

    tier: ClassVar[Tier] = "trace"

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace.

        Raises:
            Skip: If the metric does not apply.
        """
        raise NotImplementedError

    def score(self, metric_input: MetricInput) -> Score:
        """Score the attempt's trace."""
        trace = metric_input.attempt.trace
        if trace is None and TRACE_LEFT_OUT in metric_input.attempt.flags:
            why = metric_input.attempt.metadata.get("trace_error")
            return self.error(f"the trace of the attempt cannot be read: {why}")
        if trace is None:
            raise Skip("the attempt has no trace")
        made = self.measure(trace, metric_input.case)
        if trace.missing_part is not None and made.status == "ok":
            detail = {**(made.detail or {}), "cut": True} if trace.cut else made.detail
            reason = f"{INCOMPLETE_TRACE}{trace.missing_part}"
            made = msgspec.structs.replace(made, reason=reason, detail=detail)
        return made


INCOMPLETE_TRACE = "the trace is incomplete: "
"""Start of the reason of a score that was computed from an incomplete trace."""

NONE_RELEVANT = "no relevant document is among the retrieved ones"
CAVEATS = (INCOMPLETE_TRACE, NONE_RELEVANT)
"""How the reasons of scores begin that were computed, and that the run reports."""

RECORDED_BY = "recorded by "
"""Start of the method of a score that depends on which tool recorded the trace."""
