"""Reads a results file of tau-bench as cases, attempts and traces.

The file is a JSON array; each element has ``task_id``, ``trial``, ``reward``, ``info`` and ``traj``, the
chat messages. Messages have no times: their position gives the order, and starts and ends are null.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.record import checked_attempt, no_such_case
from trivium.errors import OutputsError, Problem, Problems, SuiteError, TraceError, raise_problems
from trivium.records.documents import parse_json, read_document
from trivium.suites.case import Case
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.traces.readers.chat import answer_of, trace_of_chat
from trivium.traces.readers.json_input import at, documents_of, first_item, flat
from trivium.traces.trace import Trace
from trivium.values import JsonObject, dict_, dicts, list_

CHANGES_STATE = ("book", "cancel", "exchange", "modify", "return", "send", "update")
"""First words of the names of tools that change state, in the airline and the retail domain."""

METRICS = (
    "action_match",
    "tool_selection",
    "tool_recall",
    "tool_success",
    "path_convergence",
    "path_agreement",
    "success",
)


def only_reads(tool: str) -> bool:
    """Whether a tool of tau-bench only reads."""
    return not changes_state(tool)


def task_id(entry: JsonObject) -> str:
    """Id of the case that a trajectory is an attempt of."""
    return str(entry["task_id"])


def checked_trajectories(path: Path) -> list[JsonObject]:
    """The trajectories of a file; the fields that a case is made of are checked.

    Raises:
        SuiteError: With every mistake found.
    """
    raw = read_document(path, parse=parse_json)
    if not isinstance(raw, list):
        raise SuiteError(str(path), "expected a list of trajectories")
    raise_problems([problem for i, entry in enumerate(raw) for problem in _wrong(entry, f"[{i}]")], str(path))
    return raw


def read_suite(path: Path) -> SourceCases:
    """The tasks of a file as cases, one per id, with the number of trials as repeats."""
    entries = checked_trajectories(path)
    tasks: dict[str, JsonObject] = {}
    trials: dict[str, int] = {}
    for entry in entries:
        tasks.setdefault(task_id(entry), entry["info"]["task"])
        trials[task_id(entry)] = trials.get(task_id(entry), 0) + 1
    cases, problems = cases_of((f"task {id_}", _case(id_, task)) for id_, task in tasks.items())
    raise_problems(problems, str(path))
    settings = {
        "metrics": list(METRICS),
        "success": {"reward": 1.0},
        "repeats": max(trials.values(), default=1),
        "tools": {
            "read_only": sorted({tool for entry in entries for tool in _tools(entry) if only_reads(tool)})
        },
    }
    return SourceCases(path.stem, cases, settings)


def _wrong(entry: Any, where: str) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        yield Problem(where, "expected a mapping: a trajectory")
        return
    id_ = entry.get("task_id")
    if not isinstance(id_, int | str) or isinstance(id_, bool):
        yield Problem(f"{where}.task_id", "expected a number or text")
    info = entry.get("info")
    task = info.get("task") if isinstance(info, dict) else None
    if not isinstance(task, dict) or not isinstance(task.get("instruction"), str):
        yield Problem(f"{where}.info.task", 'expected a mapping with the text "instruction"')
        return
    actions = task.get("actions", [])
    if not isinstance(actions, list) or not all(
        isinstance(action, dict) and isinstance(action.get("name"), str) for action in actions
    ):
        yield Problem(f"{where}.info.task.actions", "expected a list of calls, each with a name")
    if not isinstance(entry.get("traj", []), list):
        yield Problem(f"{where}.traj", "expected a list of messages")


def _case(id_: str, task: JsonObject) -> JsonObject:
    tools = [
        {"name": action["name"], "arguments": action.get("kwargs", {}), "reads": only_reads(action["name"])}
        for action in task.get("actions", [])
    ]
    metadata = {key: task[key] for key in ("user_id", "outputs") if task.get(key)}
    return {"id": id_, "input": task["instruction"], "expect": {"tools": tools}, "metadata": metadata}


def _tools(entry: JsonObject) -> Iterator[str]:
    """Every tool that a trajectory expects or calls."""
    for action in entry["info"]["task"].get("actions", []):
        yield action["name"]
    for message in entry.get("traj", []):
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                yield function["name"]


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a task.

    Attributes:
        task: Id of the task.
        trial: Index of the trial, from 0.
        reward: 1.0 if the database and the answers were right; None if not judged.
        instruction: The instruction of the simulated user.
        actions: The expected calls, each a name and its arguments.
        outputs: Texts that the agent must give the user.
        finished: Whether the user or a tool ended it; False at the step limit.
        answer: The last text that the agent wrote.
        trace: What happened.
    """

    task: str
    trial: int
    reward: float | None
    instruction: str
    actions: tuple[tuple[str, JsonObject], ...]
    outputs: tuple[str, ...]
    finished: bool
    answer: str
    trace: Trace


def changes_state(tool: str) -> bool:
    """Whether a tool of tau-bench writes to the database."""
    return tool.partition("_")[0] in CHANGES_STATE


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trajectory or a list of them."""
    return isinstance(at(first_item(document), "traj"), list)


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file's trajectories, in order."""
    return [trajectory.trace for trajectory in trajectories(documents, source)]


def read_trajectories(path: str | Path) -> list[Trajectory]:
    """The trajectories of a file, in order.

    Raises:
        TraceError: If the file cannot be read or an element is not a trajectory.
    """
    return trajectories(documents_of(Path(path)), str(path))


def trajectories(documents: Sequence[Any], source: str) -> list[Trajectory]:
    """The trajectories that a file's documents hold, one each or a list of them."""
    return [_trajectory(item, source, f"[{index}]") for index, item in enumerate(flat(documents))]


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
        outputs=tuple(map(str, list_(task.get("outputs")))),
        finished=info.get("reward_info") is not None,
        answer=answer_of(item["traj"]),
        trace=trace_of_chat(item["traj"], trace_id),
    )


def read_attempts(path: Path, suite: Suite) -> list[tuple[Case, Attempt]]:
    """Every trajectory of a file: output = the last text that the agent wrote, repeat = trial.

    The format has neither times nor usage; ``metadata.finished`` is False for a trial that reached the step
    limit.

    Raises:
        OutputsError: If a task is not a case of the suite, or a trial of a task occurs twice.
        TraceError: If the file cannot be read.
    """
    trajectories = read_trajectories(path)
    problems = Problems(str(path), OutputsError)
    first: dict[tuple[str, int], int] = {}
    for index, trajectory in enumerate(trajectories):
        key = (trajectory.task, trajectory.trial)
        if suite.position(trajectory.task) is None:
            what = no_such_case(suite, trajectory.task, suggests=not problems.full)
            problems.add(Problem(f"[{index}]", what))
        elif first.setdefault(key, index) != index:
            message = f"duplicate trial {key[1]} of task {key[0]} (first in [{first[key]}])"
            problems.add(Problem(f"[{index}]", message))
    problems.check()
    limit = suite.settings.limits.output_bytes
    return [(suite.case(each.task), _attempt(each, limit)) for each in trajectories]


def _attempt(trajectory: Trajectory, limit: int) -> Attempt:
    attempt = Attempt(
        case=trajectory.task,
        repeat=trajectory.trial,
        output=trajectory.answer,
        trace=trajectory.trace,
        reward=trajectory.reward,
        metadata={"finished": trajectory.finished},
    )
    return checked_attempt(attempt, limit=limit)
