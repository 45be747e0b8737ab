"""Reads Who&When: failed conversations of several agents, labelled with the agent and step at fault.

Each file is one JSON object: ``history`` (the messages in order), the question and the label.
Algorithm-generated conversations are group chats in which each message has a ``name``; in hand-crafted ones
(Magentic-One) the ``role`` is the speaker, and an orchestrator notes in brackets whom it addresses, or that
the message is only a thought.
"""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from trivium.errors import Problem, TraceError
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import at, first_item, flat, text
from trivium.traces.trace import Message, Span, Trace, TraceProblem
from trivium.values import JsonObject

PEOPLE = frozenset({"human", "user"})
"""Human speakers, in files where the role is the speaker."""

TERMINALS = frozenset({"computerterminal", "computer_terminal", "executor"})
"""Speakers that run code, which makes them tools."""

_MARKS = ("mistake_agent", "mistake_step", "mistake_reason", "question_ID", "ground_truth", "is_correct")
_METADATA_KEYS = ("question", "question_ID", "ground_truth", "level", "is_correct", "is_corrected")
_ADDRESSED = re.compile(r"^(.{1,200}?) *\((.{0,200})\)$", re.DOTALL)
_ARROW = "->"
_EXIT = re.compile(r"\s*exitcode:\s*(-?\d{1,9})")
_AGENT_STEP = re.compile(r"\s*(-?\d{1,9})\s*")


class Turn(NamedTuple):
    """One message: its speaker, its receiver if stated, and whether other agents get it."""

    step: int
    speaker: str
    to: str | None
    public: bool
    person: bool
    content: Any


def sniff(document: Any) -> bool:
    """Whether a JSON value is a labelled conversation, or a list of them."""
    first = first_item(document)
    return isinstance(at(first, "history"), list) and any(key in first for key in _MARKS)


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The conversations of a file's documents, one trace each.

    Raises:
        TraceError: If one is not a conversation.
    """
    items = flat(documents)
    return [_trace(item, source, f"[{index}]" if len(items) > 1 else "") for index, item in enumerate(items)]


def _trace(item: Any, source: str, where: str) -> Trace:
    if not isinstance(item, dict) or not isinstance(item.get("history"), list):
        what = 'expected a conversation, an object with a list "history"'
        raise TraceError(source, Problem(where, what))
    problems: list[TraceProblem] = []
    turns = _turns(item["history"], problems)
    metadata: JsonObject = {key: item[key] for key in _METADATA_KEYS if key in item}
    metadata |= _mistake(item, turns, problems)
    people = sorted({turn.speaker for turn in turns if turn.person})
    if people:
        metadata["people"] = people
    return normalise(
        _spans(turns),
        _messages(turns),
        trace_id=text(item, "question_ID") or "",
        problems=problems,
        metadata=metadata,
    )


def _turns(history: list[Any], problems: list[TraceProblem]) -> list[Turn]:
    turns = []
    for step, message in enumerate(history):
        speaker = text(message, "name", "role") if isinstance(message, dict) else None
        if speaker is None:
            what = f"message {step} has no speaker; it was left out"
            problems.append(TraceProblem(kind="bad_message", what=what))
            continue
        to, public = None, True
        match = None if "name" in message else _ADDRESSED.match(speaker)
        if match:
            note = match[2].strip()
            speaker = match[1]
            to = note.removeprefix(_ARROW).strip() or None if note.startswith(_ARROW) else None
            public = to is not None
        person = "name" not in message and speaker.lower() in PEOPLE
        turns.append(Turn(step, speaker, to, public, person, message.get("content")))
    return turns


def _mistake(item: JsonObject, turns: list[Turn], problems: list[TraceProblem]) -> JsonObject:
    """The label: agent, step (from 0) and reason, where stated."""
    stated = ((key, text(item, f"mistake_{key}")) for key in ("agent", "step", "reason"))
    label: JsonObject = {key: value for key, value in stated if value is not None}
    agent, step = label.get("agent"), label.get("step")
    if step is not None:
        match = _AGENT_STEP.fullmatch(step)
        if match and 0 <= int(match[1]) < len(item["history"]):
            label["step"] = int(match[1])
        else:
            del label["step"]
            what = f"the labelled step {step[:40]!r} is none of the {len(item['history']):,} messages"
            problems.append(TraceProblem(kind="bad_label", what=what))
    speaker = next((turn.speaker for turn in turns if turn.step == label.get("step")), None)
    if agent is not None and speaker is not None and speaker != agent:
        what = f"the labelled step {label['step']} is by {speaker}, not {agent}"
        problems.append(TraceProblem(kind="bad_label", span=f"step-{label['step']}", what=what))
    return {"mistake": label} if label else {}


def _spans(turns: list[Turn]) -> list[Span]:
    """A run for each agent, with one span for each message: a model answer, or code that was run."""
    runs: dict[str, Span] = {}
    message_spans: list[Span] = []
    asker: str | None = None
    for turn in turns:
        if turn.person:
            continue
        code = _is_terminal(turn.speaker)
        owner = (asker or turn.speaker) if code else turn.speaker
        if owner not in runs:
            runs[owner] = Span(id=f"agent-{len(runs)}", kind="agent", name=owner, agent=owner)
        message_spans.append(_message_span(turn, runs[owner], code=code))
        if not code:
            asker = turn.speaker
    return [*runs.values(), *message_spans]


def _message_span(turn: Turn, run: Span, *, code: bool) -> Span:
    match = _EXIT.match(turn.content) if code and isinstance(turn.content, str) else None
    ran = code and match is not None
    return Span(
        id=f"step-{turn.step}",
        kind="tool" if ran else "llm" if not code else "other",
        name=turn.speaker,
        agent=run.name,
        parent=run.id,
        ok=int(match[1]) == 0 if match else True,
        output=turn.content,
    )


def _is_terminal(speaker: str) -> bool:
    return speaker.lower() in TERMINALS


def _messages(turns: list[Turn]) -> list[Message]:
    """The receiver of each message: the one it names, else the last requester, else the next speaker.

    A thought, and the last message of a group chat, has no receiver.
    """
    public = [turn for turn in turns if turn.public]
    callers: dict[str, str] = {}
    addressed = any(turn.to for turn in turns)
    messages = []
    for turn, after in zip_longest(public, public[1:]):
        kind = "data_transfer"
        if turn.to is not None:
            receiver: str | None = turn.to
            kind = "task_request"
            callers[turn.to] = turn.speaker
        elif turn.speaker in callers:
            receiver = callers[turn.speaker]
            kind = "result_delivery"
        else:
            receiver = after.speaker if after is not None else None
            kind = "task_request" if turn.person else kind
        if addressed and turn.person:
            receiver = _first_agent(turns)
        if receiver is not None and receiver != turn.speaker:
            messages.append(Message(sender=turn.speaker, receiver=receiver, type=kind, content=turn.content))
    return messages


def _first_agent(turns: list[Turn]) -> str | None:
    return next((turn.speaker for turn in turns if not turn.person), None)
