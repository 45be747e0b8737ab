"""tau-bench: OpenAI-style chat trajectories of one agent, one user and tools.

A file is a JSON array; each element has ``task_id``, ``trial``, ``reward``, ``info`` and ``traj``, the
chat messages. Messages have no times: their place is the order, and starts and ends are null.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError
from trivium.traces.readers.documents import documents_of
from trivium.traces.readers.fields import dict_, dicts
from trivium.traces.repair import normalise
from trivium.traces.trace import Message, Span, Trace, TraceProblem

AGENT, USER = "agent", "user"

WRITES = ("book_", "cancel_", "update_", "send_", "modify_", "return_", "exchange_")
"""How the tools that change the database are called, in the airline and the retail domain."""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a task.

    Attributes:
        task: Id of the task.
        trial: Which try it is, from 0.
        reward: 1.0 when the database and what was said were right; None where it was not judged.
        instruction: What the simulated user was told to want.
        actions: The expected calls, each a name and its arguments.
        outputs: What the agent must say.
        finished: Whether the user or a tool ended it; False at the step limit.
        answer: The last text that the agent wrote.
        trace: What happened.
    """

    task: str
    trial: int
    reward: float | None
    instruction: str
    actions: tuple[tuple[str, dict[str, Any]], ...]
    outputs: tuple[str, ...]
    finished: bool
    answer: str
    trace: Trace


def changes_state(tool: str) -> bool:
    """Whether a tool of tau-bench writes to the database."""
    return tool.startswith(WRITES)


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trajectory or a list of them."""
    if isinstance(document, list):
        return bool(document) and isinstance(document[0], dict) and sniff(document[0])
    return isinstance(document, dict) and isinstance(document.get("traj"), list)


def read(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file's trajectories, in order."""
    return [trajectory.trace for trajectory in trajectories(documents, source)]


def read_trajectories(path: str | Path) -> list[Trajectory]:
    """The trajectories of a file, in order.

    Raises:
        TraceError: If the file cannot be read or an element is no trajectory.
    """
    return trajectories(documents_of(Path(path)), str(path))


def trajectories(documents: Sequence[Any], source: str) -> list[Trajectory]:
    """The trajectories that a file's documents hold, one each or a list of them."""
    items: list[Any] = []
    for document in documents:
        items += document if isinstance(document, list) else [document]
    return [_trajectory(item, source, f"[{index}]") for index, item in enumerate(items)]


def _trajectory(item: Any, source: str, where: str) -> Trajectory:
    if not isinstance(item, dict) or not isinstance(item.get("traj"), list):
        raise TraceError(source, Problem(where, 'expected a trajectory, an object with a list "traj"'))
    if "task_id" not in item:
        raise TraceError(source, Problem(where, 'expected a "task_id"'))
    info = dict_(item.get("info"))
    task = dict_(info.get("task"))
    trial, reward = item.get("trial", 0), item.get("reward")
    trace_id = f"{item['task_id']}/{trial}"
    return Trajectory(
        task=str(item["task_id"]),
        trial=trial if isinstance(trial, int) else 0,
        reward=float(reward) if isinstance(reward, int | float) else None,
        instruction=str(task.get("instruction", "")),
        actions=tuple(
            (action["name"], dict_(action.get("kwargs")))
            for action in dicts(task.get("actions"))
            if isinstance(action.get("name"), str)
        ),
        outputs=tuple(str(output) for output in task.get("outputs") or ()),
        finished=info.get("reward_info") is not None,
        answer=_answer(item["traj"]),
        trace=_trace(item["traj"], trace_id),
    )


def _answer(chat: list[Any]) -> str:
    texts = [
        turn["content"]
        for turn in chat
        if isinstance(turn, dict) and turn.get("role") == "assistant" and isinstance(turn.get("content"), str)
    ]
    return texts[-1] if texts else ""


def _trace(chat: list[Any], trace_id: str) -> Trace:
    builder = _Builder()
    for place, turn in enumerate(chat):
        if isinstance(turn, dict):
            builder.add(place, turn)
        else:
            what = f"message {place} is no object; it was left out"
            builder.problems.append(TraceProblem(kind="bad_message", what=what))
    return normalise(
        [Span(id="run", kind="agent", name=AGENT), *builder.spans()],
        builder.messages,
        trace_id=trace_id,
        problems=builder.problems,
        metadata={"people": [USER]},
    )


class _Builder:
    """Spans and messages of one chat, a result paired with the call before it, never by id alone.

    Ids of calls repeat within a trajectory, so a result goes to the nearest call before it that waits
    for one and, where several do, has the result's id.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.problems: list[TraceProblem] = []
        self._spans: list[Span] = []
        self._open: list[tuple[str, int]] = []  # id of the call, place of its span

    def spans(self) -> list[Span]:
        """The spans; a call that got no result neither succeeded nor failed."""
        for _, place in self._open:
            span = self._spans[place]
            self.problems.append(TraceProblem(kind="unfinished", span=span.id, what="it has no result"))
            self._spans[place] = msgspec.structs.replace(span, ok=None)
        return self._spans

    def add(self, place: int, turn: dict[str, Any]) -> None:
        role, content = turn.get("role"), turn.get("content")
        if role == "user":
            self.messages.append(Message(sender=USER, receiver=AGENT, content=content))
        elif role == "assistant":
            self._spans.append(
                Span(id=f"llm-{place}", kind="llm", name="assistant", parent="run", output=content)
            )
            if content:
                self.messages.append(
                    Message(sender=AGENT, receiver=USER, type="result_delivery", content=content)
                )
            for number, call in enumerate(dicts(turn.get("tool_calls"))):
                self._call(place, number, call)
        elif role == "tool":
            self._result(place, turn)

    def _call(self, place: int, number: int, call: dict[str, Any]) -> None:
        function = dict_(call.get("function"))
        self._open.append((str(call.get("id", "")), len(self._spans)))
        self._spans.append(
            Span(
                id=f"tool-{place}-{number}",
                kind="tool",
                name=str(function.get("name", "")),
                parent="run",
                input=_arguments(function.get("arguments")),
            )
        )

    def _result(self, place: int, turn: dict[str, Any]) -> None:
        if not self._open:
            what = f"message {place} is a result without a call before it; it was left out"
            self.problems.append(TraceProblem(kind="orphan_result", what=what))
            return
        wanted = str(turn.get("tool_call_id", ""))
        same = [index for index, (call_id, _) in enumerate(self._open) if call_id == wanted]
        _, at = self._open.pop(same[-1] if same else -1)
        content = turn.get("content")
        failed = isinstance(content, str) and content.startswith("Error")
        self._spans[at] = msgspec.structs.replace(self._spans[at], output=content, ok=not failed)


def _arguments(text: Any) -> Any:
    """The arguments that a JSON text holds, or the text itself where it holds none."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
