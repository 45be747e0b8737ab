"""Agents-eval: runs of a multi-agent paper reviewer, a folder each (github.com/qte77/Agents-eval).

A run folder is one that holds a ``trace.json``, or the ``stream.jsonl`` of a run with Claude Code; a run that
kept only its scores has nothing to score. The traces themselves are read where attempts are; here the folder
tells what was asked.
"""

from pathlib import Path
from typing import Any

from trivium.errors import Problem, SuiteError
from trivium.suites.checking import cases_of, raise_any
from trivium.suites.files.reading import Malformed, read_mapping
from trivium.suites.sources.registry import Found

TRACE_FILE = "trace.json"
STREAM_FILE = "stream.jsonl"
"""The events of a run with Claude Code, which are all of its trace."""
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
"""What a trace can be measured by when nothing is known of a good one."""

DEEPEST = 3
"""Levels below the folder named, at which runs are looked for."""


def run_folders(folder: str | Path) -> dict[str, Path]:
    """Run folders by the id of their case: the path below ``folder``, such as ``mas/2026…``.

    A run folder that is itself named is its own only run, under its name.

    Raises:
        SuiteError: If there is none.
    """
    root = Path(folder)
    if not root.is_dir():
        raise SuiteError(str(root), "is no folder" if root.exists() else "there is no such folder")
    names = (TRACE_FILE, STREAM_FILE)
    if any(_is_trace(root / name) for name in names):
        return {root.resolve().name: root}
    patterns = ["/".join(["*"] * depth) + f"/{name}" for depth in range(1, DEEPEST + 1) for name in names]
    found = sorted({path.parent for pattern in patterns for path in root.glob(pattern) if _is_trace(path)})
    if not found:
        what = f"holds no run: expected folders with a {TRACE_FILE}, or a {STREAM_FILE} of Claude Code"
        raise SuiteError(str(root), what)
    return {path.relative_to(root).as_posix(): path for path in found}


def _is_trace(path: Path) -> bool:
    """Whether a file may hold a trace; Claude Code leaves an empty one where it could not start."""
    return path.is_file() and (path.name == TRACE_FILE or path.stat().st_size > 0)


def read(folder: Path) -> Found:
    """The runs of a folder as cases; what was asked is a review of the paper that ``metadata.json`` names."""
    raw = []
    problems: list[Problem] = []
    for id_, path in run_folders(folder).items():
        try:
            raw.append((str(path), _case(id_, _metadata(path))))
        except Malformed as malformed:
            problems.append(malformed.problem)
    raise_any(problems, str(folder))
    cases, problems = cases_of(raw)
    raise_any(problems, str(folder))
    return Found(folder.resolve().name, cases, {"metrics": list(METRICS)})


def _metadata(folder: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    return read_mapping(path) if path.exists() else {}


def _case(id_: str, metadata: dict[str, Any]) -> dict[str, Any]:
    paper = metadata.get("paper_id")
    known = isinstance(paper, str) and paper != "unknown"
    kept = {key: value for key, value in metadata.items() if value is not None}
    return {
        "id": id_,
        "input": f"Review the paper {paper}." if known else "Review a paper.",
        "metadata": kept,
    }
