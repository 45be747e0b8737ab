"""Reads a results file of tau-bench as cases, attempts and traces, and a file of tasks as cases.

A results file is a JSON array; each element has ``task_id``, ``trial``, ``reward``, ``info`` and ``traj``,
the chat messages. Messages have no times: their position gives the order, and starts and ends are null. A
file of tasks is an array of tasks, or an object with ``tasks`` and what they share: ``state``, ``tools``,
``policy``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.record import checked_attempt
from trivium.agents.worlds.checks import End, ended
from trivium.errors import Problem, SuiteError, TraceError, raise_problems
from trivium.formats.samples import Found, NamedAttempts
from trivium.records.documents import parse_json, read_document
from trivium.records.validation import convert
from trivium.suites.case import Case
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.traces.readers.chat import answer_of, trace_of_chat
from trivium.traces.readers.json_input import at, documents_of, first_item, flat
from trivium.traces.trace import Trace
from trivium.values import JsonObject, dict_, dicts, json_text, list_, number, resolved

CHANGES_STATE = ("book", "cancel", "exchange", "modify", "return", "send", "update")
"""First words of the names of tools that change state, in the airline and the retail domain."""

METRICS = (
    "action_match",
    "state_match",
    "tool_selection",
    "tool_recall",
    "tool_success",
    "path_convergence",
    "path_agreement",
    "success",
)


class _Action(msgspec.Struct, frozen=True):
    """A call that a task expects."""

    name: str
    kwargs: JsonObject | None = {}
    arguments: JsonObject | None = None

    @property
    def given(self) -> JsonObject | None:
        """Its arguments, under either name; None for any."""
        return self.kwargs if self.arguments is None else self.arguments


class _Task(msgspec.Struct, frozen=True):
    instruction: str
    actions: tuple[_Action, ...] = ()
    user_id: Any = None
    outputs: Any = None


class _OwnTask(_Task, frozen=True):
    """A task that stands alone."""

    id: int | str | None = None
    task_id: int | str | None = None


@resolved
class _TaskFile(msgspec.Struct, frozen=True):
    """A file of tasks.

    Attributes:
        tasks: The tasks.
        state: The state that each attempt begins with, or a JSON file that holds it.
        tools: ``package.module:name`` of the functions that get the state as their first argument.
        policy: What the agent has to keep to.
        user: The model that plays the user, whose goal is the instruction; None gives it to the agent itself.
    """

    tasks: tuple[_OwnTask, ...]
    state: Any = None
    tools: str | None = None
    policy: str | None = None
    user: str | None = None


class _Info(msgspec.Struct, frozen=True):
    task: _Task


@resolved
class _Entry(msgspec.Struct, frozen=True):
    """The fields from which a case is made."""

    task_id: int | str
    info: _Info
    traj: list[Any] = []


def _entries(raw: Any, path: Path) -> list[_Entry]:
    """The trajectories of a file.

    Raises:
        SuiteError: With every mistake found.
    """
    if not isinstance(raw, list):
        raise SuiteError(str(path), "expected a list of trajectories, or an object with tasks")
    read = [convert(entry, _Entry, f"[{index}]") for index, entry in enumerate(raw)]
    raise_problems([problem for _, problems in read for problem in problems], str(path))
    return [entry for entry, _ in read if entry is not None]


def read_suite(path: Path) -> SourceCases:
    """The tasks of a file as cases, one per id, with the number of trials as repeats."""
    raw = read_document(path, parse=parse_json)
    if _holds_tasks(raw):
        return _read_tasks(raw if isinstance(raw, dict) else {"tasks": raw}, path)
    entries = _entries(raw, path)
    trials = Counter(str(entry.task_id) for entry in entries)
    tasks = {str(entry.task_id): entry.info.task for entry in reversed(entries)}
    cases, problems = cases_of(
        (f"task {id_}", _case(id_, tasks[id_], _calls_left(tasks[id_]))) for id_ in trials
    )
    raise_problems(problems, str(path))
    tools = {tool for entry in entries for tool in _tools(entry)}
    settings = {
        "metrics": list(METRICS),
        "success": {"reward": 1.0},
        "repeats": max(trials.values(), default=1),
        "tools": {"read_only": sorted(filterfalse(changes_state, tools))},
    }
    return SourceCases(path.stem, cases, settings)


def _holds_tasks(raw: Any) -> bool:
    """Whether a JSON value holds tasks, and no results."""
    if isinstance(raw, dict):
        return "tasks" in raw
    return isinstance(raw, list) and bool(raw) and all("instruction" in each for each in dicts(raw))


def _read_tasks(raw: JsonObject, path: Path) -> SourceCases:
    """The tasks of a file as cases, in the world of the file if it has a state and tools.

    An attempt succeeds if it leaves the state that the expected writes leave, and its answer has the outputs;
    a conversation, in which they may be said in any turn, by the state alone.
    """
    found, problems = convert(raw, _TaskFile)
    raise_problems(problems, str(path))
    if found is None:
        raise SuiteError(str(path), "holds no tasks")
    world = found.state is not None and found.tools is not None
    rows = [_own_case(place, task, found, world=world) for place, task in enumerate(found.tasks)]
    cases, problems = cases_of((f"tasks[{place}]", row) for place, row in enumerate(rows))
    raise_problems(problems, str(path))
    names = {action.name for task in found.tasks for action in task.actions}
    settings: JsonObject = {"tools": {"read_only": sorted(filterfalse(changes_state, names))}}
    if world:
        said = found.user is None and any(task.outputs for task in found.tasks)
        state = str((path.parent / found.state).absolute()) if isinstance(found.state, str) else found.state
        settings["world"] = {"json": state, "tools": found.tools}
        settings["success"] = {"state": True, **({"contains": "all"} if said else {})}
    return SourceCases(path.stem, cases, settings)


def _own_case(place: int, task: _OwnTask, shared: _TaskFile, *, world: bool) -> JsonObject:
    named = next((each for each in (task.id, task.task_id) if each is not None), place)
    state = {"after": [_expected_call(action) for action in task.actions if changes_state(action.name)]}
    case = _case(str(named), task, state if world else None)
    case |= {"source": shared.policy, "references": [str(each) for each in list_(task.outputs)]}
    if shared.user is None:
        return case
    before = [] if shared.policy is None else [{"role": "system", "content": shared.policy}]
    return case | {"input": before, "user": {"goal": task.instruction, "model": shared.user}}


def _expected_call(action: _Action) -> JsonObject:
    return {"name": action.name, "arguments": action.given, "reads": not changes_state(action.name)}


def _case(id_: str, task: _Task, state: JsonObject | None) -> JsonObject:
    stated = {"user_id": task.user_id, "outputs": task.outputs}
    metadata = {key: value for key, value in stated.items() if value}
    expect = {"tools": [_expected_call(action) for action in task.actions], "state": state}
    return {"id": id_, "input": task.instruction, "expect": expect, "metadata": metadata}


def _calls_left(task: _Task) -> JsonObject:
    """The state that a task expects of recorded calls."""
    return {"equals": _writes((action.name, action.given) for action in task.actions)}


def _writes(calls: Iterable[tuple[str, Any]]) -> JsonObject:
    """The state as far as calls tell it: those that change it, in the order of their JSON."""
    made = [{"name": name, "arguments": arguments} for name, arguments in calls if changes_state(name)]
    return {"writes": sorted(made, key=lambda call: json_text(call, canonical=True))}


def _tools(entry: _Entry) -> Iterator[str]:
    """Every tool that a trajectory expects or calls."""
    yield from (action.name for action in entry.info.task.actions)
    for message in dicts(entry.traj):
        for call in dicts(message.get("tool_calls")):
            name = dict_(call.get("function")).get("name")
            if isinstance(name, str):
                yield name


def changes_state(tool: str) -> bool:
    """Whether a tool of tau-bench writes to the database."""
    return tool.partition("_")[0] in CHANGES_STATE


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trajectory or a list of them."""
    return isinstance(at(first_item(document), "traj"), list)


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file's trajectories, in order."""
    return [each.trace for each in _trajectories(documents, source) if each.trace is not None]


def read_trajectories(path: str | Path) -> list[Attempt]:
    """The trajectories of a file as attempts that are not checked yet, in order.

    Raises:
        TraceError: If the file cannot be read or an element is not a trajectory.
    """
    return _trajectories(documents_of(Path(path)), str(path))


def _trajectories(documents: Sequence[Any], source: str) -> list[Attempt]:
    """The trajectories that a file's documents hold, one each or a list of them."""
    return [_trajectory(item, source, f"[{index}]") for index, item in enumerate(flat(documents))]


def _trajectory(item: Any, source: str, where: str) -> Attempt:
    """One trial of a task; its reward is 1.0 if the database and the answers were right."""
    if not isinstance(item, dict) or not isinstance(item.get("traj"), list):
        raise TraceError(source, Problem(where, 'expected a trajectory, an object with a list "traj"'))
    if "task_id" not in item:
        raise TraceError(source, Problem(where, 'expected a "task_id"'))
    trial, reward = item.get("trial", 0), item.get("reward")
    return Attempt(
        case=str(item["task_id"]),
        repeat=trial if isinstance(trial, int) else 0,
        output=answer_of(item["traj"]),
        trace=trace_of_chat(item["traj"], f"{item['task_id']}/{trial}"),
        reward=number(int(reward) if isinstance(reward, bool) else reward),
        metadata={"finished": dict_(item.get("info")).get("reward_info") is not None},
    )


def read_attempts(path: Path, suite: Suite) -> NamedAttempts:
    """Every trajectory of a file: output = the last text that the agent wrote, repeat = trial.

    The format has neither times nor usage; ``metadata.finished`` is False for a trial that reached the step
    limit.

    Raises:
        OutputsError: If a task is not a case of the suite, or a trial of a task occurs twice.
        TraceError: If the file cannot be read.
    """
    trials = enumerate(read_trajectories(path))
    found = [Found(each.case, each.repeat, f"[{index}]", each) for index, each in trials]
    return NamedAttempts(
        str(path),
        suite,
        lambda: found,
        lambda trial, limit: _attempt(trial.held, suite.case(trial.case), limit),
    )


def _attempt(trial: Attempt, case: Case, limit: int) -> Attempt:
    """A checked attempt. Of the state at its end only the calls that changed the database are recorded."""
    calls = [call for call in (trial.trace or Trace()).tool_calls if call.ok is not False]
    done = _writes((call.name, call.input) for call in calls)
    end = End(state=done, before={"writes": []}, after=done)
    attempt = msgspec.structs.replace(trial, world=ended("recorded calls", case, end))
    return checked_attempt(attempt, limit=limit)
