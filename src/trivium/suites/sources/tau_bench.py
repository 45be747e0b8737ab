"""tau-bench: tasks of a simulated customer, in a file of trajectories (Yao et al. 2024).

The trajectories themselves are read where attempts are; here the file tells what was asked.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trivium.errors import Problem, SuiteError
from trivium.suites.checking import cases_of, raise_any
from trivium.suites.files.reading import Malformed, parse_json, read_text
from trivium.suites.sources.registry import Found

CHANGES_STATE = ("book", "cancel", "exchange", "modify", "return", "send", "update")
"""First words of the tools that change state, in the airline and the retail domain."""

METRICS = (
    "action_match",
    "tool_selection",
    "tool_recall",
    "tool_success",
    "path_convergence",
    "path_agreement",
    "success",
)


def reads(tool: str) -> bool:
    """Whether a tool of tau-bench changes nothing."""
    return tool.partition("_")[0] not in CHANGES_STATE


def task_id(entry: dict[str, Any]) -> str:
    """Id of the case that a trajectory is an attempt of."""
    return str(entry["task_id"])


def trajectories(path: Path) -> list[dict[str, Any]]:
    """The trajectories of a file, checked for what makes a case.

    Raises:
        SuiteError: With every mistake found.
    """
    try:
        raw = parse_json(read_text(path))
    except Malformed as malformed:
        raise SuiteError(str(path), malformed.problem) from malformed
    if not isinstance(raw, list):
        raise SuiteError(str(path), "expected a list of trajectories")
    raise_any([problem for i, entry in enumerate(raw) for problem in _wrong(entry, f"[{i}]")], str(path))
    return raw


def read(path: Path) -> Found:
    """The tasks of a file as cases, one an id, with the number of trials as repeats."""
    entries = trajectories(path)
    tasks: dict[str, dict[str, Any]] = {}
    trials: dict[str, int] = {}
    for entry in entries:
        tasks.setdefault(task_id(entry), entry["info"]["task"])
        trials[task_id(entry)] = trials.get(task_id(entry), 0) + 1
    cases, problems = cases_of((f"task {id_}", _case(id_, task)) for id_, task in tasks.items())
    raise_any(problems, str(path))
    settings = {
        "metrics": list(METRICS),
        "success": {"reward": 1.0},
        "repeats": max(trials.values(), default=1),
        "tools": {"read_only": sorted({tool for entry in entries for tool in _tools(entry) if reads(tool)})},
    }
    return Found(path.stem, cases, settings)


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


def _case(id_: str, task: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {"name": action["name"], "arguments": action.get("kwargs", {}), "reads": reads(action["name"])}
        for action in task.get("actions", [])
    ]
    said = {key: task[key] for key in ("user_id", "outputs") if task.get(key)}
    return {"id": id_, "input": task["instruction"], "expect": {"tools": tools}, "metadata": said}


def _tools(entry: dict[str, Any]) -> Iterator[str]:
    """Every tool that a trajectory expects or calls."""
    for action in entry["info"]["task"].get("actions", []):
        yield action["name"]
    for message in entry.get("traj", []):
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                yield function["name"]
