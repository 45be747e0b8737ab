"""Settings: how a suite is asked and scored, with every default (spec: files, suite settings)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]


class SuccessRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When an attempt counts as a success (spec: metrics, T1.6). Exactly one way is meant.

    Attributes:
        metric: Metric whose value is compared with ``at_least``.
        at_least: The bar, in [0, 1].
        exact: Whether the output must equal ``expect.output`` (or a reference) after ``strip()``.
        regex: Pattern (Python ``re``) that must be found in the output.
        predicate: ``pkg.mod:function`` called with (case, attempt); what it returns is the verdict.
        reward: The recorded reward must be at least this.
    """

    metric: str | None = None
    at_least: float | None = None
    exact: bool | None = None
    regex: str | None = None
    predicate: str | None = None
    reward: float | None = None


class PassRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When an evaluation counts as passed: a metric (or ``composite``) and a bar in [0, 1]."""

    metric: str
    at_least: Share = 1.0


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How tool calls are read.

    Attributes:
        read_only: Tools that change no state (spec: metrics, T3.13).
        ignore: Tools that are left out of every tool figure.
        match: How expected calls are matched with those made (T3.3).
        by: One tool sequence for the run, or one per agent (T3.1).
    """

    read_only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    match: Literal["names", "arguments", "ordered"] = "names"
    by: Literal["run", "agent"] = "run"


class MessageSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Which message types coordinate and which produce (spec: metrics, T3.8)."""

    coordination: tuple[str, ...] = ("coordination", "status_update", "handoff")
    productive: tuple[str, ...] = ("task_request", "result_delivery", "data_transfer")


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Lowest composite of each recommendation (spec: metrics, C.3)."""

    accept: Share = 0.8
    weak_accept: Share = 0.6
    weak_reject: Share = 0.4


COMPOSITE_PARTS = (
    "time",
    "success",
    "coordination_quality",
    "tool_efficiency",
    "planning_rationality",
    "similarity",
)


class CompositeSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Weights and bars of the composite (spec: metrics, C).

    Attributes:
        weights: Weight of each part, rescaled to sum to 1. Parts that are not named weigh 0.
        missing: What a part without a score does: leave (``rescale``) or count 0 (``zero``).
        thresholds: Bars of the recommendations.
    """

    weights: dict[str, Weight] = msgspec.field(default_factory=lambda: dict.fromkeys(COMPOSITE_PARTS, 0.167))
    missing: Literal["rescale", "zero"] = "rescale"
    thresholds: Thresholds = Thresholds()


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Bounds on asking.

    Attributes:
        seconds: Wall time of one attempt before it is given up.
        output_bytes: Largest output kept, in UTF-8 bytes; a larger one fails the attempt.
        attempts_at_once: Attempts in flight.
        retries: How often an attempt is asked again after an error worth retrying.
    """

    seconds: Annotated[float, Meta(gt=0)] = 600
    output_bytes: Count = 10_000_000
    attempts_at_once: Count = 16
    retries: Annotated[int, Meta(ge=0)] = 2


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A bar that the mean of a metric must reach or stay under."""

    at_least: float | None = None
    at_most: float | None = None


DEFAULT_SIMILARITY = {"semantic": 0.5, "cosine": 0.3, "jaccard": 0.2}


class Settings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"passed": "pass"},
):
    """How a suite is asked and scored. Every field is a key of the suite file."""

    metrics: tuple[str, ...] | None = None
    references: Literal["best", "mean"] = "best"
    group: str | None = None
    repeats: Count = 1
    reduce: Literal["mean", "best", "worst", "majority"] = "mean"
    failed_attempts: Literal["zero", "skip"] = "zero"
    encoder: str | None = None
    similarity: dict[str, Weight] = msgspec.field(default_factory=lambda: dict(DEFAULT_SIMILARITY))
    success: SuccessRule = SuccessRule(metric="similarity", at_least=0.8)
    passed: PassRule | None = None
    tools: ToolSettings = ToolSettings()
    messages: MessageSettings = MessageSettings()
    judge: dict[str, Any] | None = None
    composite: CompositeSettings = CompositeSettings()
    limits: Limits = Limits()
    gates: dict[str, Gate] = {}
    margin: Share = 0.02
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    resamples: Count = 10_000
    seed: Annotated[int, Meta(ge=0)] = 42
