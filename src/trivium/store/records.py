"""Records of stored runs, attempts and evaluations, and their JSON bodies.

The outlines decode only the fields that a summary needs, which is faster than decoding whole bodies.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, TypeVar

import msgspec

from trivium.agents.attempt import Attempt, Usage
from trivium.agents.response import masked
from trivium.any_object import plain
from trivium.errors import StoreError
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Status, Tier
from trivium.safe_text import sanitise
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.traces.trace import Message, Span, SpanKind, SpanUsage, Trace
from trivium.values import JsonObject, resolved

RunKind = Literal["agent", "recorded", "human", "live", "confirm"]
RunState = Literal["running", "done", "interrupted"]

End = Literal["decided", "calls", "cases", "costs", "nothing"]
"""Why no further attempts were made: it was decided, the calls were used up, only more cases would tell, more
calls would cost more than they save, or none gives a value."""


@resolved
class Confirms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The purpose of a run that makes further attempts at some cases of another run.

    Definition: docs/definitions/decisions.md#confirm.

    Attributes:
        run: Id of the run whose version is asked again.
        against: Id of the run with which that one is compared.
        budget: Shared by the runs of both sides whose calls are counted together.
        refused: Why its attempts do not count; None if they do.
        end: Why no further attempts were made; None as long as they may be.
    """

    run: str
    against: str
    budget: str
    refused: str | None = None
    end: End | None = None


@resolved
class StoppedFor(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison for which a run stopped.

    Attributes:
        against: Id of the run that it was compared with.
        metric: The metric that decided.
    """

    against: str
    metric: str


@resolved
class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit of the working folder.

    Attributes:
        commit: Its hash.
        dirty: Whether there were uncommitted changes.
        subject: The first line of its message, if it is known.
    """

    commit: str
    dirty: bool = False
    subject: str | None = None


@resolved
class JudgedWith(msgspec.Struct, frozen=True, kw_only=True):
    """Models, addresses, parameters and prompts of the judges; :class:`JudgeSettings` says what each means.

    Attributes:
        addresses: By model, where it was asked; None if it was unavailable.
        rubrics: By name, the digest of each rubric.
        prompts: By name of a rubric, the digest of it and of the wording around it.
    """

    models: list[str] = []
    addresses: dict[str, str | None] = {}
    temperature: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    parameters: JsonObject = {}
    servers: dict[str, JsonObject] = {}
    client: str | None = None
    samples: int | None = None
    panel: bool = False
    rubrics: dict[str, str] = {}
    prompts: dict[str, str] = {}


@resolved
class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run depends on (made in ``trivium.runs.provenance``).

    Attributes:
        trivium: Version of Trivium.
        python: Version of Python.
        packages: Versions of other packages.
        git: The commit of the working folder; None outside a repository.
        host: System, machine and number of CPUs.
        agent: Readable name of the agent or the outputs.
        seed: Seed of the suite.
        metrics: By name, the version of each metric.
        units: By name, unit and direction of the metrics of which they are not the usual ones.
        judges: Models that judged.
        prompts: Digests of their prompts, by rubric where the run itself asked them.
        judge: How they were asked, if the run asked them.
        version: Name of the agent's version.
        fingerprint: Digest of the agent's code, if it has no named version.
        called_as: How the agent was named, if that finds it again.
        confirms: The purpose of a run of kind ``confirm``.
        until_decided: The comparison that decides how many cases are asked, if not the gates.
        world: ``start``: the digest of what a world begins with.
        notes: What to know when reading its figures.
        partitions: Folder of its partitions.
        judgements: File, count and run of judgements that were imported.
    """

    trivium: str | None = None
    python: str | None = None
    packages: dict[str, str] = {}
    git: Commit | None = None
    host: dict[str, str | int | None] = {}
    agent: str | None = None
    seed: int | None = None
    metrics: dict[str, str] = {}
    units: dict[str, dict[str, str | None]] = {}
    judges: list[str] | None = None
    prompts: dict[str, str] | list[str] | None = None
    judge: JudgedWith | None = None
    version: str | None = None
    fingerprint: str | None = None
    called_as: str | None = None
    confirms: Confirms | None = None
    until_decided: StoppedFor | None = None
    world: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    partitions: str | None = None
    judgements: dict[str, str | int] = {}


@resolved
class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run.

    Attributes:
        number: Primary key; rises with every run of the store.
        id: Id shown to users.
        suite_name: Name of the suite.
        suite: Digest of the suite's cases.
        kind: Origin of the outputs: ``agent`` (called), ``recorded`` (read from a file), ``human``,
            ``live`` (a monitor's samples of one day), or ``confirm`` (further attempts at some cases of
            another run; see :class:`Confirms`).
        state: running, done or interrupted. A killed run stays ``running`` until it is resumed.
        created: Unix time, seconds.
        finished: Unix time, or None.
        attempts_from: Number of the run whose attempts this one scores, or None.
        due: Number of attempts that it should have, or None if not known beforehand.
        settings: The suite's settings.
        provenance: What it depends on: versions, commit, seed, host.
        summary: The last summary, or None.
    """

    number: int
    id: str
    suite_name: str
    suite: str
    kind: RunKind
    state: RunState
    created: float
    finished: float | None
    attempts_from: int | None
    due: int | None
    settings: Settings
    provenance: Provenance
    summary: JsonObject | None

    @property
    def names(self) -> "RunNames":
        """What lists call the run by."""
        return RunNames.of(self.provenance)

    @property
    def version(self) -> str | None:
        """The version of the agent whose attempts it holds; None where nothing tells versions apart."""
        return self.provenance.version or self.provenance.fingerprint


class StoredAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt and the position of its case.

    Attributes:
        position: Position of its case in the suite, from 0.
        attempt: The attempt.
        case: The case if it is at hand; None means the suite's case at that position. Stored with the
            attempt only if it differs from the suite's (leave-one-out).
    """

    position: int
    attempt: Attempt
    case: Case | None = None


AttemptRow = tuple[int, str | None, str]
"""A stored attempt, undecoded: position, JSON of its case if it is at hand, JSON of the attempt."""


class StoredEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation and the position of its case in the suite, from 0."""

    position: int
    evaluation: Evaluation


class AttemptValues(TypedDict):
    """A row of the table ``attempts``."""

    run: int
    position: int
    repeat: int
    case_body: str | None
    body: str


class EvaluationValues(TypedDict):
    """A row of the table ``evaluations``."""

    run: int
    position: int
    repeat: int
    composite: float | None
    passed: bool | None
    body: str


class Rows:
    """Attempts and evaluations to be written in one transaction.

    Args:
        run: The run they belong to, owned by this process.

    Attributes:
        attempts: Rows of the table ``attempts``.
        evaluations: Rows of the table ``evaluations``.
        failed: Number of evaluations of failed attempts.
    """

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.attempts: list[AttemptValues] = []
        self.evaluations: list[EvaluationValues] = []
        self.failed = 0

    def add_attempt(self, stored: StoredAttempt, *, own_case: bool = False) -> None:
        """Add a new attempt, with its secrets masked.

        Args:
            stored: The attempt.
            own_case: Also store its case, because it differs from the suite's.
        """
        self.attempts.append(
            {
                "run": self.run.number,
                "position": stored.position,
                "repeat": stored.attempt.repeat,
                "case_body": encode(stored.case) if own_case else None,
                "body": encode(masked(stored.attempt)),
            }
        )

    def add_evaluation(self, stored: StoredEvaluation) -> None:
        """Add a new evaluation."""
        evaluation = stored.evaluation
        self.failed += evaluation.failed is not None
        self.evaluations.append(
            {
                "run": self.run.number,
                "position": stored.position,
                "repeat": evaluation.repeat,
                "composite": evaluation.composite.value,
                "passed": evaluation.passed,
                "body": encode(evaluation),
            }
        )

    def outlines(self) -> "list[EvaluationOutline]":
        """Each evaluation without details, read from its row."""
        return [_outline.decode(row["body"]) for row in self.evaluations]


def figures_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What lists of runs show of a summary; the composite only if the suite uses it."""
    composite = summary.get("composite") or {}
    rate = summary.get("pass_rate") or {}
    low, high = rate.get("ci95") or (None, None)
    return {
        "attempts": summary.get("attempts"),
        "pass_rate": rate.get("value"),
        "pass_rate_low": low,
        "pass_rate_high": high,
        "composite": composite.get("mean") if composite.get("asked", True) else None,
    }


NAME_CHARS = 200
"""Longest name of an agent, a version or a tag in lists, in characters."""


class RunNames(msgspec.Struct, frozen=True, kw_only=True):
    """What lists of runs call a run by, besides its suite and id.

    Attributes:
        agent: Readable name of the agent or the outputs.
        version: The name of the agent's version, if it was given one.
        git_commit: The first 9 characters of the commit, with a + if there were uncommitted changes; None
            outside a git repository.
        git_subject: The first line of the commit's message.
    """

    agent: str | None = None
    version: str | None = None
    git_commit: str | None = None
    git_subject: str | None = None

    @classmethod
    def of(cls, provenance: Provenance) -> "RunNames":
        """The names that a run's provenance holds."""
        git = provenance.git
        return cls(
            agent=_name(provenance.agent),
            version=_name(provenance.version),
            git_commit=_name(f"{git.commit[:9]}{'+' * git.dirty}" if git else None),
            git_subject=_name(git.subject if git else None),
        )


def _name(value: str | None) -> str | None:
    return sanitise(value)[0][:NAME_CHARS] if value else None


T = TypeVar("T")

_case = msgspec.json.Decoder(Case)
_attempt = msgspec.json.Decoder(Attempt)
_encoder = msgspec.json.Encoder(enc_hook=plain)


def encode(value: Any) -> str:
    """Encode a record as JSON.

    Lone surrogates, which no database can store, are replaced (docs/definitions/text.md#sanitising). Types
    that JSON lacks are converted to plain values or text.
    """
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        cleaned, _flags = sanitise(msgspec.to_builtins(value, enc_hook=plain))
        return _encoder.encode(cleaned).decode()


def decoded_attempt(row: AttemptRow, *, store: str) -> StoredAttempt:
    """Decode a stored attempt.

    Raises:
        StoreError: If it is damaged or was written by another program.
    """
    position, case_body, body = row
    case = None if case_body is None else decode(_case, case_body, store=store)
    return StoredAttempt(position=position, attempt=decode(_attempt, body, store=store), case=case)


def decode(decoder: "msgspec.json.Decoder[T]", body: str, *, store: str) -> T:
    """Decode a stored body.

    Raises:
        StoreError: If it is damaged or was written by another program.
    """
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:  # TypeError: not text
        raise StoreError(
            f"{store}: holds a record that cannot be read ({error}): it was damaged, or written by "
            "another program. The other records are unaffected."
        ) from error


class CaseOutline(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a case that determines its cluster."""

    id: str
    group: str | None = None


class _Detail(msgspec.Struct, frozen=True, gc=False):
    shown: Any = None
    not_given: Any = None


class ScoreOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A score with only the details that a summary needs; its name is the key of the mapping.

    Fields are those of a Score.
    """

    tier: Tier
    value: float | None = None
    status: Status = "ok"
    raw: Any = None
    reason: str | None = None
    method: str | None = None
    missing: bool = False
    detail: _Detail = _Detail()

    @property
    def shown(self) -> Any:
        """See :attr:`Score.shown`."""
        return self.detail.shown

    @property
    def not_given(self) -> Any:
        """See :attr:`Score.not_given`."""
        return self.detail.not_given


class EvaluationOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An evaluation without details. Fields are those of an Evaluation."""

    case: str
    repeat: int
    scores: dict[str, ScoreOutline]
    composite: Composite
    passed: bool | None = None
    failed: str | None = None


class _Marks(msgspec.Struct, frozen=True):
    handoff: Any = None


class _SpanOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    kind: SpanKind
    name: str
    agent: str | None = None
    start: float | None = None
    end: float | None = None
    ok: bool | None = True
    attributes: _Marks = _Marks()

    def as_span(self, id_: str) -> Span:
        attributes = {"handoff": True} if self.attributes.handoff else {}
        return Span(**msgspec.structs.asdict(self) | {"id": id_, "attributes": attributes})


class _MessageOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    sender: str
    receiver: str
    type: str = "task_request"
    time: float | None = None


class _People(msgspec.Struct, frozen=True):
    people: Any = None


class _TraceOutline(msgspec.Struct, frozen=True, kw_only=True):
    spans: tuple[_SpanOutline, ...] = ()
    messages: tuple[_MessageOutline, ...] = ()
    metadata: _People = _People()


class RequestUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Kind, name and usage of a span. Fields are those of a Span."""

    kind: SpanKind
    name: str
    usage: SpanUsage | None = None


class RequestsOfTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with only kind, name and usage of its spans."""

    spans: tuple[RequestUsage, ...] = ()


class AttemptUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The time, tokens and cost of an attempt, without its content. Fields are those of an Attempt."""

    seconds: float | None = None
    trace: RequestsOfTrace | None = None
    usage: Usage | None = None
    error: str | None = None
    flags: tuple[str, ...] = ()


class AttemptOutline(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt without inputs and outputs. Fields are those of an Attempt."""

    case: str
    repeat: int = 0
    trace: _TraceOutline | None = None

    @property
    def steps(self) -> Trace | None:
        """The trace's messages and its agent and tool spans, without parents and contents."""
        if self.trace is None:
            return None
        people = self.trace.metadata.people
        return Trace(
            spans=tuple(
                [
                    span.as_span(str(index))
                    for index, span in enumerate(self.trace.spans)
                    if span.kind in ("agent", "tool")
                ]
            ),
            messages=tuple([Message(**msgspec.structs.asdict(message)) for message in self.trace.messages]),
            metadata={"people": people} if people else {},
        )


_outline = msgspec.json.Decoder(EvaluationOutline)


def outline_of(evaluation: Evaluation | EvaluationOutline) -> EvaluationOutline:
    """An evaluation without details, as it would be read from the store."""
    return evaluation if isinstance(evaluation, EvaluationOutline) else _outline.decode(encode(evaluation))
