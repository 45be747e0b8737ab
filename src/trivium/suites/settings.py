"""Settings of a suite, each with its default (spec: files, suite settings)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trivium.suites.case import Complexity, Texts
from trivium.suites.certificate import JudgeCertificate
from trivium.suites.rubrics.rubric import Rubric, Scale, Step

Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1, le=2**53)]


class SuccessRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When an attempt counts as a success (spec: metrics, T1.6). Exactly one way is meant.

    Attributes:
        metric: Metric whose value is compared with ``at_least``.
        at_least: The bar, in [0, 1].
        exact: Whether the output must equal ``expect.output`` (or a reference) after ``strip()``.
        contains: Whether ``any`` or ``all`` of the references must stand in the output, as whole words.
        ignore_case: Whether ``contains`` takes upper and lower case as the same (default: true).
        regex: Pattern (as Python's ``re`` has them, of the package ``regex``) to be found in the output.
        predicate: ``pkg.mod:function`` called with (case, attempt); what it returns is the verdict.
        reward: The recorded reward must be at least this, in [0, 1].
    """

    metric: str | None = None
    at_least: Share | None = None
    exact: bool | None = None
    contains: Literal["any", "all"] | None = None
    ignore_case: bool | None = None
    regex: str | None = None
    predicate: str | None = None
    reward: Share | None = None


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
        min_coverage: Least share of the weight that must be scored for a recommendation, in [0, 1].
        thresholds: Lowest composite of each recommendation.
    """

    weights: dict[str, Weight] = msgspec.field(default_factory=lambda: dict.fromkeys(COMPOSITE_PARTS, 0.167))
    missing: Literal["rescale", "zero"] = "rescale"
    min_coverage: Share = 0.5
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
    """A limit that the mean of a metric must reach or stay under.

    Attributes:
        at_least: The lowest mean that is good.
        at_most: The highest mean that is good.
        missing: Scores that were due and are not there are taken at their worst for a pass and at their best
            for a fail (``worst``), or are left out (``ignore``).
    """

    at_least: float | None = None
    at_most: float | None = None
    missing: Literal["worst", "ignore"] = "worst"


LEFT_OUT = ("temperature", "seed", "max_tokens", "logprobs", "response_format", "tools")
"""Request parameters that judges send by themselves, and ``judge.parameters`` can leave out with null.

Without ``response_format`` the JSON schema is sent as a tool, without ``tools`` too in the prompt."""

Rubrics = Annotated[
    tuple[str | Rubric, ...], Meta(extra={"also": "single"}, extra_json_schema={"also": "string"})
]
"""Rubrics by their names, or themselves; in a file a single one will do."""


Certificates = Annotated[
    tuple[str | JudgeCertificate, ...], Meta(extra={"also": "single"}, extra_json_schema={"also": "string"})
]
"""Certificates by their files, or themselves; in a file a single one will do."""


class ServerSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where one model is asked, and what its requests carry besides the usual.

    Attributes:
        base_url: In place of the provider's. ``${NAME}`` in it stands for an environment variable.
        headers: Added to each request, in place of usual ones of the same name; ``${NAME}`` likewise, which
            is how a header holds a secret.
        body: Fields added to the body of each request, in place of usual ones of the same name.
    """

    base_url: str | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}


class JudgeSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Who judges, by what rubric, and at what cost (spec: metrics, T2).

    Attributes:
        models: Models by their PydanticAI names, the first that answers judging (T2.6).
        models_by_complexity: Models for cases of a complexity, in place of ``models``.
        rubric: ``review``, ``agent``, a file or a rubric itself, or several of these; a file is read when
            the suite is loaded, and what it holds takes its place.
        together: Whether the dimensions of a rubric are judged in one request, or each in its own.
        samples: Answers asked of each model for each judgement.
        panel: Whether every model judges and the median counts, instead of the first that answers.
        concurrency: Most requests in flight; None lets the limiter find it.
        timeout: Seconds that a request may take.
        time_limit: Seconds that the judging of a run may take in all: a provider that asks to wait is waited
            for until then, and nothing is asked later. None sets no bound.
        temperature: None means 0 with one sample and 0.7 with several (T2.5).
        seed: Sent with each request, raised by the sample's index.
        reasoning_effort: How much a model that reasons does so; None leaves it to the provider.
        parameters: Request parameters by the provider's names, sent as they are; null leaves out one that is
            sent otherwise (:data:`LEFT_OUT`).
        servers: Base URL, headers and body of single models.
        client: How models are asked: directly over HTTP where that can be done, always so, or through
            PydanticAI and the provider's SDK.
        excerpts: Which part of a long document the judge is shown: its beginning, or the passages that the
            sentences of the output lead to.
        excerpt_chars: Characters of the source, of each reference and of the trace's steps that the judge is
            shown; no more than the context of its model has tokens, where that is known.
        evidence_similarity: How cited quotes are compared with passages of the source.
        tokens: Whose log-probabilities make the token signals: those of the scores, or of all.
        scale: How a Likert value becomes a score: v/5, or (v−1)/4 (T2.1).
        step: Distance of two neighbouring values on a Likert scale.
        budget_usd: Most that a run may spend; None sets no bound.
        budget_tokens: Most tokens that a run may use; None sets no bound.
        prices: USD per million tokens, ``{model: {input: …, output: …}}``; they go before the list's.
        max_tokens: Most tokens of an answer; None takes what its dimensions need. A request in flight is held
            against the budget at this bound.
        cache: Whether the answers of other runs of the store are taken, instead of asking anew.
        cache_mb: Most megabytes of answers that the store keeps when a run ends; those that were not used
            for longest leave first.
        on_failure: What stands in for a judgement that cannot be had (T2.6).
        certificate: Files that ``trivium trust certify --output`` wrote, one a dimension: they say which
            judgements are accepted and which go to people. A file is read when the suite is loaded, and what
            it holds takes its place.
    """

    models: Texts = ()
    models_by_complexity: dict[Complexity, Texts] = {}
    rubric: Rubrics = ("review",)
    together: bool = True
    samples: Count = 1
    panel: bool = False
    concurrency: Count | None = None
    timeout: Annotated[float, Meta(gt=0)] = 60
    time_limit: Annotated[float, Meta(gt=0)] | None = 86_400
    temperature: Weight | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    parameters: dict[str, Any] = {}
    servers: dict[str, ServerSettings] = {}
    client: Literal["auto", "direct", "pydantic-ai"] = "auto"
    excerpts: Literal["head", "retrieval"] = "head"
    excerpt_chars: Count = 60_000
    evidence_similarity: Literal["cosine", "encoder"] = "cosine"
    tokens: Literal["score", "all"] = "score"
    scale: Scale = "ratio"
    step: Step = 1
    budget_usd: Weight | None = None
    budget_tokens: Count | None = None
    prices: dict[str, dict[Literal["input", "output"], Weight]] = {}
    max_tokens: Count | None = None
    cache: bool = True
    cache_mb: Weight = 500
    on_failure: Literal["tier1", "skip", "fail"] = "tier1"
    certificate: Certificates = ()


DEFAULT_SUCCESS = SuccessRule(metric="similarity", at_least=0.8)
"""What counts as success where a suite does not say, and its references are longer than a few words."""

DEFAULT_SIMILARITY = {"semantic": 0.5, "cosine": 0.3, "jaccard": 0.2}


class Settings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"passed": "pass"},
):
    """How a suite is asked and scored. Every field is a key of the suite file.

    Attributes:
        metrics: What is measured; None measures all that applies.
        references: Whether the best or the mean value over several references counts.
        group: The field or metadata key of a case that names its cluster (default: its group, else its id).
        repeats: How often each case is asked.
        reduce: How the attempts of a case become one figure.
        failed_attempts: Whether failed attempts count as 0 or leave the averages.
        encoder: Name or folder of the encoder for ``semantic``.
        similarity: Weights of the parts of ``similarity``.
        success: When an attempt is a success; None says nothing, and ``success_rule`` has what counts then.
        passed: ``pass`` in files: when an evaluation counts as passed (spec: metrics, "What passed means").
        tools: How tool calls are read.
        messages: Which messages coordinate and which produce.
        judge: Who judges, or None without judges.
        composite: How the parts become one number.
        limits: Bounds on asking.
        gates: Bars for the means of metrics, by metric or ``pass_rate``.
        margin: A comparison passes when the loss is surely smaller than this.
        level: Of the intervals.
        resamples: Of the bootstrap.
        seed: Of everything random.
    """

    metrics: Texts | None = None
    references: Literal["best", "mean"] = "best"
    group: str | None = None
    repeats: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    reduce: Literal["mean", "best", "worst", "majority"] = "mean"
    failed_attempts: Literal["zero", "skip"] = "zero"
    encoder: str | None = None
    similarity: dict[str, Weight] = msgspec.field(default_factory=lambda: dict(DEFAULT_SIMILARITY))
    success: SuccessRule | None = None
    passed: PassRule | None = None
    tools: ToolSettings = ToolSettings()
    messages: MessageSettings = MessageSettings()
    judge: JudgeSettings | None = None
    composite: CompositeSettings = CompositeSettings()
    limits: Limits = Limits()
    gates: dict[str, Gate] = {}
    margin: Share = 0.02
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    seed: Annotated[int, Meta(ge=0)] = 42

    @property
    def success_rule(self) -> SuccessRule:
        """When an attempt is a success, where the suite does not say either (spec: metrics, T1.6)."""
        return self.success or DEFAULT_SUCCESS
