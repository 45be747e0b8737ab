"""The settings of a suite and their defaults."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypedDict, get_args

import msgspec
from msgspec import Meta

from trivium.suites.agent_settings import AgentSettings
from trivium.suites.case import SINGLE, Complexity, Count, Seconds, Share, Texts, Weight
from trivium.suites.certificate import JudgeCertificate
from trivium.suites.monitor_settings import MonitorSettings
from trivium.suites.rubrics.rubric import Rubric, Scale, Step
from trivium.suites.simulated_users import UserSettings
from trivium.suites.world_settings import WorldSettings
from trivium.values import FileRecord, resolved

if TYPE_CHECKING:
    from trivium.trust.distributions import Answer


class SuccessRule(FileRecord, frozen=True, kw_only=True):
    """When an attempt counts as a success. Exactly one criterion is given.

    Attributes:
        metric: Metric whose value is compared with ``at_least``.
        at_least: The threshold of that metric, in [0, 1].
        exact: Whether the output must equal ``expect.output`` (or a reference) but for white space around it.
        contains: Whether the output must contain ``any`` or ``all`` of the references, as whole words and
            whole numbers.
        ignore_case: Whether ``contains`` ignores upper and lower case (default: true).
        number: A number in the output must differ from that of a reference (or ``expect.output``) by at most
            this much, in its unit.
        regex: Regular expression (of the package ``regex``) that must match somewhere in the output.
        predicate: Function ``pkg.mod:function``, called with (case, attempt); it returns the verdict.
        reward: Threshold of the recorded reward, in [0, 1].
        state: Whether ``expect.state`` and ``expect.never`` must hold, where a case states them; alone, or
            besides another criterion.
        turns: Whether a case that expects something of its turns succeeds if all of it is met, instead of by
            the other criterion; alone, or besides another one.
        unless: Attempts that count neither way, besides another criterion: those in which a judge finds a
            mistake of the simulated user (``user_mistakes``).
    """

    metric: str | None = None
    at_least: Share | None = None
    exact: bool | None = None
    contains: Literal["any", "all"] | None = None
    ignore_case: bool | None = None
    number: Weight | None = None
    regex: str | None = None
    predicate: str | None = None
    reward: Share | None = None
    state: bool | None = None
    turns: bool | None = None
    unless: Literal["user_mistakes"] | None = None


CRITERIA = ("metric", "exact", "contains", "number", "regex", "predicate", "reward")
"""The keys of a success rule of which one at most is given; ``state`` and ``turns`` need no other."""


class PassRule(FileRecord, frozen=True, kw_only=True):
    """When an attempt passes: a metric (or ``composite``) and its threshold in [0, 1]."""

    metric: str
    at_least: Share = 1.0


class ToolSettings(FileRecord, frozen=True, kw_only=True):
    """How tool calls are interpreted.

    Attributes:
        read_only: Tools that change no state.
        ignore: Tools that every tool metric ignores.
        match: How the calls made are matched with the expected calls: by name, by name and arguments, or by
            name in order.
        by: Whether the tool graph has one call sequence for the run, or one for each agent.
    """

    read_only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    match: Literal["names", "arguments", "ordered"] = "names"
    by: Literal["run", "agent"] = "run"


class MessageSettings(FileRecord, frozen=True, kw_only=True):
    """Which message types are coordination and which are productive work."""

    coordination: tuple[str, ...] = ("coordination", "status_update", "handoff")
    productive: tuple[str, ...] = ("task_request", "result_delivery", "data_transfer")


class RetrievalSettings(FileRecord, frozen=True, kw_only=True):
    """How retrieved documents are rated.

    Attributes:
        k: How many of the first documents count; None for all that were retrieved.
    """

    k: Count | None = None


class Thresholds(FileRecord, frozen=True, kw_only=True):
    """Lowest composite of each recommendation, in [0, 1]."""

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


class CompositeSettings(FileRecord, frozen=True, kw_only=True):
    """Weights and thresholds of the composite.

    Attributes:
        weights: Weight of each part, rescaled to sum to 1. Parts that are not named have weight 0.
        missing: Whether a part without a score is left out and the weights are rescaled (``rescale``), or
            counts as 0 (``zero``).
        min_coverage: Share of the weight that must be scored for a recommendation, in [0, 1].
        thresholds: Lowest composite of each recommendation.
    """

    weights: dict[str, Weight] = msgspec.field(default_factory=lambda: dict.fromkeys(COMPOSITE_PARTS, 0.167))
    missing: Literal["rescale", "zero"] = "rescale"
    min_coverage: Share = 0.5
    thresholds: Thresholds = Thresholds()


class Limits(FileRecord, frozen=True, kw_only=True):
    """Limits on calls of the agent.

    Attributes:
        seconds: Time limit of one attempt, in seconds of wall time.
        output_bytes: Largest output in UTF-8 bytes; a larger one fails the attempt.
        attempts_at_once: Number of attempts that run at the same time.
        retries: Number of retries after a retryable error.
    """

    seconds: Seconds = 600
    output_bytes: Count = 10_000_000
    attempts_at_once: Count = 16
    retries: Annotated[int, Meta(ge=0)] = 2


class Gate(FileRecord, frozen=True, kw_only=True):
    """A threshold that the mean of a metric must reach or must not exceed.

    Attributes:
        at_least: Lowest mean that passes.
        at_most: Highest mean that passes.
        missing: How missing scores count: with their worst value for a pass and their best value for a fail
            (``worst``), or not at all (``ignore``).
    """

    at_least: float | None = None
    at_most: float | None = None
    missing: Literal["worst", "ignore"] = "worst"


Policy = Literal["balanced", "proof", "strict"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
About = Literal["these", "like-these"]


class Costs(FileRecord, frozen=True, kw_only=True):
    """What wrong decisions cost, in one unit of any size.

    Attributes:
        ship: Cost of shipping a version that is worse by more than the margin.
        block: Cost of blocking one that is not.
        call: Cost of one call of the agent. The confirmation of a comparison stops when further calls would
            cost more than the wrong decisions that they are expected to prevent.
    """

    ship: Seconds = 1.0
    block: Seconds = 1.0
    call: Weight = 0.0

    @property
    def threshold(self) -> float:
        """The probability of a loss above which blocking costs less on average."""
        return self.block / (self.ship + self.block)


class DecideSettings(FileRecord, frozen=True, kw_only=True):
    """How gates and comparisons are decided (docs/definitions/decisions.md#policy).

    Attributes:
        policy: ``balanced`` does what costs less on average, ``proof`` answers only what is proven, and
            ``strict`` fails what is not proven to be good.
        by: The metric that decides a comparison; None for the pass rate, else the composite.
        costs: What wrong decisions cost under ``balanced``.
        about: Which cases a comparison decides about: all similar ones, of which the suite is a sample
            (``like-these``), or only the cases of the suite, run again (``these``).
    """

    policy: Policy = "balanced"
    by: str | None = None
    about: About = "like-these"
    costs: Costs = Costs()

    def with_policy(self, policy: Policy | None) -> Self:
        """The same with another policy; None keeps it."""
        return self if policy is None else msgspec.structs.replace(self, policy=policy)

    def answer(self, proven: "Answer", probabilities: Sequence[float]) -> "Answer":
        """Decide by the policy, from what is proven and how probable a loss is.

        Args:
            proven: What the interval proves.
            probabilities: Probability of a loss, or of missing a limit. If values are missing, two: with all
                missing values at their worst, and at their best; both must give the same answer. Empty if
                nothing was measured.
        """
        if self.policy == "proof":
            return proven
        if self.policy == "strict":
            return "pass" if proven == "pass" else "fail"
        if not probabilities:
            return "inconclusive"
        if max(probabilities) <= self.costs.threshold:
            return "pass"
        return "fail" if min(probabilities) > self.costs.threshold else "inconclusive"


LEFT_OUT = ("temperature", "seed", "max_tokens", "logprobs", "response_format", "tools")
"""Request parameters that Trivium sets and that ``judge.parameters`` can leave out with null.

Without ``response_format`` the JSON schema is sent as a tool; without ``tools`` as well, it is sent in the
prompt."""

Rubrics = Annotated[tuple[str | Rubric, ...], SINGLE]
"""Rubrics or their names."""

Certificates = Annotated[tuple[str | JudgeCertificate, ...], SINGLE]
"""Certificates or their files."""


class ServerSettings(FileRecord, frozen=True, kw_only=True):
    """Base URL of one model, and additions to its requests.

    Attributes:
        base_url: Replaces the provider's URL. ``${NAME}`` stands for an environment variable.
        headers: Headers added to each request; they replace default headers of the same name. ``${NAME}``
            stands for an environment variable, so that a header can hold a secret.
        body: Fields added to the body of each request; they replace default fields of the same name.
    """

    base_url: str | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}


class JudgeSettings(FileRecord, frozen=True, kw_only=True):
    """The judge models, their rubrics, and limits on their cost.

    Attributes:
        models: PydanticAI names of the models; the first one that answers judges.
        models_by_complexity: Models for the cases of a complexity, instead of ``models``.
        rubric: ``review``, ``agent``, a file, a rubric, or a list of these. Files are read when the suite is
            loaded.
        together: Whether one request covers all dimensions of a rubric, or each dimension has its own.
        samples: Number of samples of each model for each judgement.
        panel: Whether every model judges and the median counts, instead of the first model that answers.
        concurrency: Maximum number of requests in flight; None lets the rate limiter choose.
        timeout: Time limit of a request, in seconds.
        time_limit: Time limit for all judging of a run, in seconds, waits that a provider asks for included;
            None for no limit.
        temperature: Sampling temperature; None means 0 with one sample and 0.7 with several.
        seed: Seed sent with the first sample; each further sample adds 1.
        reasoning_effort: Reasoning effort of the model; None leaves it to the provider.
        parameters: Further request parameters by the provider's names, sent unchanged; null leaves out one
            that Trivium sends by default (:data:`LEFT_OUT`).
        servers: Base URL, headers and body fields for single models, by model name.
        client: HTTP client: Trivium's own (``direct``), PydanticAI with the provider's SDK (``pydantic-ai``),
            or the direct one where the provider supports it (``auto``).
        excerpts: Which part of a long document the judge sees: its beginning (``head``), or the passages most
            similar to the sentences of the output (``retrieval``).
        excerpt_chars: Maximum number of characters of the source, of each reference and of the trace's steps
            that the judge sees; at most one for each token of the model's context, if that is known.
        evidence_similarity: How quotes are compared with passages of the source.
        tokens: Which tokens' log-probabilities make the token signals: those of the scores, or all.
        scale: How a Likert value v becomes a score: v/5 (``ratio``) or (v−1)/4 (``minmax``).
        step: Distance between neighbouring values of a Likert scale.
        budget_usd: Budget of a run in US dollars; None for no limit.
        budget_tokens: Budget of a run in tokens; None for no limit.
        prices: US dollars per million tokens, ``{model: {input: …, output: …}}``; they override the built-in
            price list.
        max_tokens: Maximum number of output tokens of a response; None derives it from the dimensions. A
            request in flight reserves this many from the budget.
        cache: Whether responses cached by other runs of the store are reused.
        cache_mb: Size limit of the response cache in megabytes; at the end of a run the least recently used
            responses are evicted.
        on_failure: What happens if no judge answers: fall back to ``similarity`` (``tier1``), skip the score
            (``skip``), or make the score an error (``fail``).
        certificate: Certificate files of ``trivium trust certify --output``, one per dimension; they decide
            which judgements are accepted and which people must check. Read when the suite is loaded.
    """

    models: Texts = ()
    models_by_complexity: dict[Complexity, Texts] = {}
    rubric: Rubrics = ("review",)
    together: bool = True
    samples: Count = 1
    panel: bool = False
    concurrency: Count | None = None
    timeout: Seconds = 60
    time_limit: Seconds | None = 86_400
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
"""Success rule of a suite that states none and has references of more than a few words."""

DEFAULT_SIMILARITY = {"semantic": 0.5, "cosine": 0.3, "jaccard": 0.2}


@resolved
class Settings(FileRecord, frozen=True, kw_only=True, rename={"passed": "pass"}):
    """How a suite is run and scored. Every field is a key of the suite file.

    Attributes:
        metrics: Metrics to compute; None computes all that apply.
        references: Whether the best or the mean value over several references counts.
        group: Field or metadata key of a case that names its cluster (default: its group, else its id).
        repeats: Number of attempts at each case.
        reduce: How the scores of a case's attempts become one score.
        failed_attempts: Whether failed attempts count as 0 or are left out of the averages.
        encoder: Name or folder of the encoder for ``semantic``.
        similarity: Weights of the parts of ``similarity``.
        success: When an attempt counts as a success; None applies the default rule.
        passed: When an attempt passes; the key ``pass`` of a suite file.
        tools: How tool calls are interpreted.
        messages: Which message types are coordination and which are productive work.
        retrieval: How retrieved documents are rated.
        judge: The judge's models, rubrics and limits; None for no judge.
        composite: Weights and thresholds of the composite.
        limits: Limits on calls of the agent.
        gates: Thresholds for the means of metrics, by metric or ``pass_rate``.
        decide: How gates and comparisons are decided.
        until_decided: Whether cases are asked in random order until all gates are decided, instead of all.
        monitor: How production traffic is sampled, scored and watched; None for the defaults.
        margin: Largest loss that a comparison tolerates, in [0, 1].
        level: Confidence level of the intervals.
        resamples: Number of bootstrap resamples.
        seed: Seed of all randomness.
        agent: The agent that ``trivium run`` calls if it is given no other.
        world: What the agent may change, made afresh for each attempt: ``package.module:factory``, or where a
            JSON, SQLite or folder state is.
        user: What the simulated users have in common, and which models play them.
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
    retrieval: RetrievalSettings = RetrievalSettings()
    judge: JudgeSettings | None = None
    composite: CompositeSettings = CompositeSettings()
    limits: Limits = Limits()
    gates: dict[str, Gate] = {}
    decide: DecideSettings = DecideSettings()
    until_decided: bool = False
    monitor: MonitorSettings | None = None
    margin: Share = 0.02
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    seed: Annotated[int, Meta(ge=0)] = 42
    agent: str | AgentSettings | None = None
    world: str | WorldSettings | None = None
    user: UserSettings | None = None

    @property
    def success_rule(self) -> SuccessRule:
        """The suite's success rule, or the default one (docs/definitions/text.md#success)."""
        return self.success or DEFAULT_SUCCESS

    @property
    def asks_for_composite(self) -> bool:
        """Whether the suite uses the composite: its settings, or a pass rule, a gate or a decision by it.

        Only then do reports show it, and only then does it count in a comparison that something else decides
        (docs/definitions/scores.md#composite-shown).
        """
        used = {*self.gates, self.decide.by, None if self.passed is None else self.passed.metric}
        return self.composite != CompositeSettings() or "composite" in used


class SettingKeywords(TypedDict, total=False):
    """Settings as keywords, with mappings where :class:`Settings` has records.

    Attributes:
        metrics: Metrics to compute; None computes all that apply.
        references: Whether the best or the mean value over several references counts.
        group: Field or metadata key of a case that names its cluster.
        repeats: Number of attempts at each case.
        reduce: How the scores of a case's attempts become one score.
        failed_attempts: Whether failed attempts count as 0 or are left out of the averages.
        encoder: Name or folder of the encoder for ``semantic``.
        similarity: Weights of the parts of ``similarity``.
        success: When an attempt counts as a success.
        passed: When an attempt passes; the key ``pass`` of a suite file.
        tools: How tool calls are interpreted.
        messages: Which message types are coordination and which are productive work.
        retrieval: How retrieved documents are rated.
        judge: The judge's models, rubrics and limits; None for no judge.
        composite: Weights and thresholds of the composite.
        limits: Limits on calls of the agent.
        gates: Thresholds for the means of metrics, by metric or ``pass_rate``.
        decide: How gates and comparisons are decided: policy, deciding metric and costs.
        until_decided: Whether cases are asked in random order only until all gates are decided.
        monitor: How production traffic is sampled, scored and watched.
        margin: Largest loss that a comparison tolerates, in [0, 1].
        level: Confidence level of the intervals.
        resamples: Number of bootstrap resamples.
        seed: Seed of all randomness.
        agent: The agent that is called if an evaluation is given no other.
        world: What the agent may change, made afresh for each attempt.
        user: What the simulated users have in common, and which models play them.
    """

    metrics: Sequence[str] | str | None
    references: Literal["best", "mean"]
    group: str | None
    repeats: int
    reduce: Literal["mean", "best", "worst", "majority"]
    failed_attempts: Literal["zero", "skip"]
    encoder: str | None
    similarity: Mapping[str, float]
    success: SuccessRule | Mapping[str, Any] | None
    passed: PassRule | Mapping[str, Any] | None
    tools: ToolSettings | Mapping[str, Any]
    messages: MessageSettings | Mapping[str, Any]
    retrieval: RetrievalSettings | Mapping[str, Any]
    judge: JudgeSettings | Mapping[str, Any] | None
    composite: CompositeSettings | Mapping[str, Any]
    limits: Limits | Mapping[str, Any]
    gates: Mapping[str, Gate | Mapping[str, Any]]
    decide: DecideSettings | Mapping[str, Any]
    until_decided: bool
    monitor: MonitorSettings | Mapping[str, Any] | None
    margin: float
    level: float
    resamples: int
    seed: int
    agent: str | AgentSettings | Mapping[str, Any] | None
    world: str | WorldSettings | Mapping[str, Any] | None
    user: UserSettings | Mapping[str, Any] | None
