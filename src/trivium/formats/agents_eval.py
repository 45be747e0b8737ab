"""Reads run folders of Agents-eval as cases, attempts and traces.

A run folder holds a ``trace.json``, or the ``stream.jsonl`` of a run with Claude Code; folders that only hold
scores are ignored.

``trace.json`` is the ``GraphTraceData`` of that project: interactions without times, tool calls with the
time of their end, coordination events that mostly repeat an interaction, and ``timing_data`` or a start and
an end. It stores no agent runs, so they are inferred: each delegation starts a run of its receiver, with the
times of its ``delegate_*`` call; an agent that calls a tool outside such a run gets a run from its first call
to its last. A ``delegate_*`` call is a real tool call of its agent, not a hand-off.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.record import checked_attempt
from trivium.errors import Problem, SuiteError, TraceError, placed, raise_problems
from trivium.formats.samples import Found, NamedAttempts
from trivium.records.documents import read_mapping
from trivium.storage import path_of
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.traces.normalize import normalise
from trivium.traces.readers import read_one_file
from trivium.traces.readers.json_input import documents_of, seconds, text
from trivium.traces.trace import Message, Span, Trace, TraceProblem, extent, start_time
from trivium.values import JsonObject, dict_, dicts

MESSAGE_TYPES = {
    "delegation": "task_request",
    "request": "task_request",
    "result": "result_delivery",
    "broadcast": "status_update",
    "control": "coordination",
}
"""Message type of each Agents-eval type; other types stay as they are.

Definition: docs/definitions/traces.md#messages.
"""

_COORDINATING = frozenset({"coordination", "status_update", "handoff"})
_SENDERS = ("from", "from_agent", "sender", "manager_agent", "agent_id")
_RECEIVERS = ("to", "to_agent", "receiver")


@dataclass
class Interaction:
    """A message between agents, and the tool call that carried it out once they are paired."""

    message: Message
    task: str | None = None
    call: Span | None = None
    repeated: bool = False  # by a coordination event

    @property
    def starts_a_run(self) -> bool:
        """Whether it makes the receiver start a run."""
        return self.message.type == "task_request"


def interactions_of(document: JsonObject, graph: Any, problems: list[TraceProblem]) -> list[Interaction]:
    """The interactions of a trace, and the delegations of its graph without an interaction."""
    interactions = []
    for index, item in enumerate(dicts(document.get("agent_interactions"))):
        sender, receiver = text(item, *_SENDERS), text(item, *_RECEIVERS)
        if sender is None or receiver is None:
            what = f"agent_interactions[{index}] has no sender or no receiver; it was left out"
            problems.append(TraceProblem(kind="bad_message", what=what))
            continue
        message = Message(
            sender=sender,
            receiver=receiver,
            type=_type(item.get("type"), "task_request"),
            time=seconds(item.get("timestamp")),
            content=item.get("query"),
        )
        interactions.append(Interaction(message, text(item, "task_type")))
    stated = {(each.message.sender, each.message.receiver) for each in interactions}
    return interactions + [
        Interaction(Message(sender=sender, receiver=receiver))
        for sender, receiver in _delegations(graph)
        if (sender, receiver) not in stated
    ]


def messages_of(interactions: list[Interaction], document: JsonObject, *, first: str | None) -> list[Message]:
    """The messages of a trace.

    An interaction is a message; a delegation whose call ended is answered by a ``result_delivery``,
    unless the trace lists one. A coordination event that repeats an interaction is the same event again;
    any other is a coordination message to each of its targets.

    Args:
        interactions: The interactions, paired with their calls.
        document: The trace, for its coordination events.
        first: The agent that acted first: the sender of events that name none.
    """
    sent = [interaction.message for interaction in interactions]
    answered = {(each.receiver, each.sender) for each in sent if each.type == "result_delivery"}
    messages = []
    for message, call in [(interaction.message, interaction.call) for interaction in interactions]:
        messages.append(message if call is None else msgspec.structs.replace(message, time=call.start))
        if call is not None and (message.sender, message.receiver) not in answered:
            messages.append(
                Message(
                    sender=message.receiver,
                    receiver=message.sender,
                    type="result_delivery",
                    time=call.end,
                )
            )
    messages += _events(document, interactions, first or "manager")
    if all(message.time is not None for message in messages):
        messages.sort(key=lambda message: message.time or 0.0)
    return messages


def _events(document: JsonObject, interactions: list[Interaction], first: str) -> Iterator[Message]:
    for event in dicts(document.get("coordination_events")):
        targets = event.get("target_agents")
        word = _type(event.get("coordination_type"), "coordination")
        for target in targets if isinstance(targets, list) else []:
            same = [found for found in interactions if _repeats(event, str(target), word, found)]
            if same:
                same[0].repeated = True
                continue
            yield Message(
                sender=text(event, *_SENDERS) or first,
                receiver=str(target),
                type=word if word in _COORDINATING else "coordination",
                time=seconds(event.get("timestamp")),
                content=event.get("query"),
            )


def _repeats(event: JsonObject, target: str, word: str, interaction: Interaction) -> bool:
    message = interaction.message
    return (
        not interaction.repeated
        and (message.receiver, message.type) == (target, word)
        and text(event, *_SENDERS) in (None, message.sender)
        and event.get("query", message.content) == message.content
        and event.get("task_type", interaction.task) == interaction.task
    )


def _delegations(graph: Any) -> Iterator[tuple[str, str]]:
    """Sender and receiver of each delegation in a node-link graph."""
    if not isinstance(graph, dict):
        return
    for edge in dicts(graph.get("edges", graph.get("links"))):
        if edge.get("interaction") == "delegation":
            yield str(edge.get("source")), str(edge.get("target"))


def _type(word: Any, default: str) -> str:
    return MESSAGE_TYPES.get(word, word) if isinstance(word, str) and word else default


TRACE_FILE = "trace.json"
STREAM_FILE = "stream.jsonl"
"""The events of a run with Claude Code; its only trace file."""
METRICS = (
    "path_convergence",
    "tool_efficiency",
    "tool_success",
    "complexity",
    "communication_overhead",
    "centrality",
    "coordination_quality",
    "task_balance",
    "time",
)
"""Metrics of a trace that need no reference."""

DEEPEST = 3
"""Levels below the given folder that are searched for runs."""


def run_folders(folder: str | Path) -> dict[str, Path]:
    """Run folders by the id of their case: the path below ``folder``, such as ``mas/2026…``.

    A folder that is itself a run folder is its only run, under its own name.

    Raises:
        SuiteError: If there is none.
    """
    root = Path(folder)
    if not root.is_dir():
        raise SuiteError(str(root), "is not a folder" if root.exists() else "there is no such folder")
    names = (TRACE_FILE, STREAM_FILE)
    if any(_is_trace(root / name) for name in names):
        return {root.resolve().name: root}
    patterns = ["/".join(["*"] * depth) + f"/{name}" for depth in range(1, DEEPEST + 1) for name in names]
    folders = sorted({path.parent for pattern in patterns for path in root.glob(pattern) if _is_trace(path)})
    if not folders:
        what = f"holds no run: expected folders with a {TRACE_FILE}, or a {STREAM_FILE} of Claude Code"
        raise SuiteError(str(root), what)
    return {path.relative_to(root).as_posix(): path for path in folders}


def _is_trace(path: Path) -> bool:
    """Whether a file may hold a trace; Claude Code leaves an empty file if it could not start."""
    return path.is_file() and (path.name == TRACE_FILE or path.stat().st_size > 0)


def read_suite(folder: Path) -> SourceCases:
    """The runs of a folder as cases; the input asks for a review of the paper in ``metadata.json``."""
    raw = []
    problems: list[Problem] = []
    for id_, path in run_folders(folder).items():
        try:
            raw.append((str(path), _case(id_, _metadata(path))))
        except SuiteError as error:
            problems += placed(error)
    raise_problems(problems, str(folder))
    cases, problems = cases_of(raw)
    raise_problems(problems, str(folder))
    return SourceCases(folder.resolve().name, cases, {"metrics": list(METRICS)})


def _metadata(folder: Path) -> JsonObject:
    path = folder / "metadata.json"
    return read_mapping(path) if path.exists() else {}


def _case(id_: str, metadata: JsonObject) -> JsonObject:
    paper = metadata.get("paper_id")
    known = isinstance(paper, str) and paper != "unknown"
    present = {key: value for key, value in metadata.items() if value is not None}
    return {
        "id": id_,
        "input": f"Review the paper {paper}." if known else "Review a paper.",
        "metadata": present,
    }


REVIEW_FILE = "review.json"


def read_attempts(path: Path, suite: Suite) -> NamedAttempts:
    """Every run of a folder as an attempt.

    The output is the review that the run wrote, if it is stored. The time is that of the trace, from the
    start of its first call to the end of its last, because the files state the first *end* as the start.

    Raises:
        OutputsError: If a run is not a case of the suite.
        SuiteError: If the folder holds no run.
    """
    found = [Found(case, 0, str(folder), folder) for case, folder in run_folders(path).items()]
    return NamedAttempts(
        str(path), suite, lambda: found, lambda run, limit: _attempt(run.case, run.held, limit)
    )


def _attempt(case: str, folder: Path, limit: int) -> Attempt:
    trace = output = unreadable = failure = None
    try:
        trace = read_run(folder)
    except TraceError as error:
        unreadable = str(error)
    try:
        output = _review(folder / REVIEW_FILE)
    except SuiteError as error:
        failure = f"the review cannot be read: {error}"
    attempt = Attempt(case=case, output=output, trace=trace, error=failure)
    return checked_attempt(attempt, limit=limit, trace_error=unreadable)


def _review(path: Path) -> Any:
    """The text of a review, or the whole object if it has no text; None without a review."""
    if not path.exists():
        return None
    raw = read_mapping(path)
    review = raw.get("review", raw)
    comments = review.get("comments") if isinstance(review, dict) else None
    return comments if isinstance(comments, str) else review


DELEGATING = "delegate_"
_MARKS = ("agent_interactions", "coordination_events", "execution_id")
_METADATA_KEYS = ("execution_id", "performance_metrics", "timing_data")


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trace of this format."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("tool_calls"), list)
        and any(key in document for key in _MARKS)
    )


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, one per document; that of a run's folder with the delegations of its graph.

    Raises:
        TraceError: If a document is of another form, or if the graph beside it cannot be read.
    """
    graph = path_of(source).parent / "agent_graph.json"
    beside = len(documents) == 1 and Path(source).name == TRACE_FILE and graph.exists()
    stored = documents_of(graph)[0] if beside else None
    return [agents_eval_trace(document, graph=stored, source=source) for document in documents]


def read_run(folder: str | Path) -> Trace:
    """The trace of a run's folder, its graph included.

    Raises:
        TraceError: If it holds no trace, several, or one that cannot be read.
    """
    path, stream = path_of(folder) / TRACE_FILE, path_of(folder) / STREAM_FILE
    if stream.exists() and not path.exists():
        path, traces = stream, read_one_file(stream, "claude-code")[1]
    else:
        traces = read_traces(documents_of(path), str(path))
    if len(traces) != 1:
        raise TraceError(str(path), f"expected one trace, found {len(traces):,}")
    return traces[0]


def agents_eval_trace(document: Any, *, graph: Any = None, source: str = "") -> Trace:
    """Build a trace from the contents of ``trace.json`` and ``agent_graph.json``.

    Args:
        document: The trace.
        graph: The node-link graph, which may hold delegations that the trace does not list.
        source: The file, for error messages.

    Raises:
        TraceError: If it is not a trace of this format.
    """
    if not isinstance(document, dict) or not isinstance(document.get("tool_calls", []), list):
        raise TraceError(source, 'expected an object with a list "tool_calls"')
    problems: list[TraceProblem] = []
    calls = [_call(index, item) for index, item in enumerate(dicts(document.get("tool_calls")))]
    interactions = interactions_of(document, graph, problems)
    _pair(calls, interactions)
    delegated = {
        f"delegation-{index}": interaction
        for index, interaction in enumerate(interactions)
        if interaction.starts_a_run
    }
    placed = [_with_parent(call, delegated) for call in calls]
    inferred = _inferred_runs(placed, interactions, _stated_times(document))
    runs = [*inferred.values(), *_delegated_runs(delegated, inferred)]
    first = min(calls, key=start_time).agent if calls else next(iter(inferred), None)
    return normalise(
        [*runs, *(call if call.parent else _below(call, inferred) for call in placed)],
        messages_of(interactions, document, first=first),
        trace_id=text(document, "execution_id") or "",
        problems=problems,
        metadata={key: document[key] for key in _METADATA_KEYS if key in document},
    )


def _call(index: int, item: JsonObject) -> Span:
    end = seconds(item.get("timestamp"))
    duration = seconds(item.get("duration"))
    return Span(
        id=f"call-{index}",
        kind="tool",
        name=text(item, "tool_name", "name") or "",
        agent=text(item, "agent_id") or "manager",
        start=end if end is None or duration is None else end - duration,
        end=end,
        ok=item.get("success") is not False,
        attributes={} if item.get("context") is None else {"context": item["context"]},
    )


def _pair(calls: list[Span], interactions: list[Interaction]) -> None:
    """Pair each delegation with the call that carried it out.

    Interactions are logged when they start and calls when they end, so both are matched by start. A
    ``delegate_X`` call belongs to its agent's first delegation of task type X that has no call yet, else to
    its first one of any type. A call that raised was not logged, so a delegation may have no call.
    """
    for call in sorted((call for call in calls if call.name.startswith(DELEGATING)), key=start_time):
        open_ones = [each for each in interactions if each.call is None and each.starts_a_run]
        free = [each for each in open_ones if each.message.sender == call.agent]
        task = call.name.removeprefix(DELEGATING)
        for interaction in [each for each in free if each.task == task][:1] or free[:1]:
            interaction.call = call


def _with_parent(call: Span, delegated: dict[str, Interaction]) -> Span:
    """Put a call below the innermost delegation of its agent that encloses it, if there is one.

    A delegation without a call, or with a call without times, has no interval: the agent's first such
    delegation is used if no other encloses the call.
    """
    runs = [
        (run, interaction.call)
        for run, interaction in delegated.items()
        if interaction.message.receiver == call.agent
    ]
    around = [(start_time(outer), run) for run, outer in runs if outer is not None and _encloses(outer, call)]
    vague = [run for run, outer in runs if outer is None or (call.start is None and outer.id != call.id)]
    if around:
        return msgspec.structs.replace(call, parent=max(around)[1])
    return msgspec.structs.replace(call, parent=vague[0]) if vague else call


def _encloses(outer: Span, inner: Span) -> bool:
    if outer.id == inner.id or outer.start is None or outer.end is None:
        return False
    if inner.start is None or inner.end is None:
        return False
    return outer.start <= inner.start and inner.end <= outer.end


def _inferred_runs(
    placed: list[Span], interactions: list[Interaction], stated: tuple[float | None, float | None]
) -> dict[str, Span]:
    """Infer a run for every agent that acts or delegates outside the runs delegated to it."""
    receivers = {each.message.receiver for each in interactions if each.starts_a_run}
    actors = dict.fromkeys(call.agent or "" for call in placed if call.parent is None)
    senders = (interaction.message.sender for interaction in interactions)
    actors |= dict.fromkeys(sender for sender in senders if sender not in receivers)
    runs = {}
    for actor in actors:
        start, end = extent(call for call in placed if call.parent is None and call.agent == actor)
        start, end = stated if start is None or end is None else (start, end)
        runs[actor] = Span(id=f"run-{actor}", kind="agent", name=actor, agent=actor, start=start, end=end)
    return runs


def _delegated_runs(delegated: dict[str, Interaction], inferred: dict[str, Span]) -> list[Span]:
    runs = []
    for run, interaction in delegated.items():
        call, message = interaction.call, interaction.message
        asker = inferred.get(message.sender)
        runs.append(
            Span(
                id=run,
                kind="agent",
                name=message.receiver,
                agent=message.receiver,
                parent=call.id if call else asker.id if asker else None,
                start=call.start if call else None,
                end=call.end if call else None,
                ok=call.ok if call else None,
                input=message.content,
            )
        )
    return runs


def _below(call: Span, inferred: dict[str, Span]) -> Span:
    return msgspec.structs.replace(call, parent=inferred[call.agent or ""].id)


def _stated_times(document: JsonObject) -> tuple[float | None, float | None]:
    """Start and end of the whole run, as the file or its ``timing_data`` states them."""
    timing = dict_(document.get("timing_data"))
    start = seconds(document.get("start_time", timing.get("start_time", timing.get("start"))))
    end = seconds(document.get("end_time", timing.get("end_time", timing.get("end"))))
    return (start, end) if start is not None and end is not None else (None, None)
