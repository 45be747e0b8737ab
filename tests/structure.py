"""Measures how the code is laid out: sizes, import circles, and the files that a task passes through.

    python -m tests.structure
    python -m tests.structure --sizes    without the tasks

A task is run with a profiler on all threads. It counts the modules of Trivium whose functions are called, not
those that are only imported, and the pairs of modules of which one calls the other.
"""

import ast
import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "trivium"
PACKAGE = str(SOURCE) + os.sep

SMALL_LINES = 60
"""Lines under which a module is called small."""


def modules() -> dict[str, Path]:
    """Modules by their dotted names; packages by theirs."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("trivium", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """What a file holds; parsed once."""
    source = path.read_text(encoding="utf-8")
    with contextlib.suppress(SystemError):  # Python 3.11: another thread was parsing, too
        return ast.parse(source)
    return ast.parse(source)


def has_content(path: Path) -> bool:
    """Whether a file holds more than a docstring and lists of names."""
    body = parsed(path).body
    return any(not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom) for node in body) or len(body) > 2


def code_lines(path: Path) -> int:
    """Lines of a file that are neither blank nor only a comment or a docstring."""
    docstrings = {line for node in ast.walk(parsed(path)) for line in _lines_of_docstring(node)}
    lines = enumerate(map(str.strip, path.read_text(encoding="utf-8").splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and number not in docstrings for number, line in lines)


def _lines_of_docstring(node: ast.AST) -> range:
    """Lines of a statement that is a docstring: of a module, class or function, or under a constant."""
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return range(node.lineno, node.end_lineno + 1)
    return range(0)


def code_lines_of_all() -> int:
    """Lines of code of Trivium."""
    return sum(map(code_lines, modules().values()))


class Function(NamedTuple):
    """A function or method."""

    name: str
    """Dotted, beginning with ``trivium``; one inside another is named after both."""

    lines: int
    """From ``def`` to the end, without the docstring."""

    parameters: int
    """Without ``self`` and ``cls``, ``*args`` and ``**options``."""


@cache
def functions() -> tuple[Function, ...]:
    """Every function and method of Trivium."""
    found: list[Function] = []
    for name, path in modules().items():
        found += _functions(name, parsed(path))
    return tuple(found)


def _functions(above: str, node: ast.AST) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        name = f"{above}.{child.name}" if is_function or isinstance(child, ast.ClassDef) else above
        if is_function:
            lines = child.end_lineno - child.lineno + 1 - len(_lines_of_docstring(child.body[0]))
            positional = [argument.arg for argument in child.args.posonlyargs + child.args.args]
            parameters = (
                len(positional) - (positional[:1] in (["self"], ["cls"])) + len(child.args.kwonlyargs)
            )
            yield Function(name, lines, parameters)
        yield from _functions(name, child)


def imports(name: str, path: Path, known: set[str], *, lazy: bool = True) -> set[str]:
    """Modules of Trivium that a module imports: anywhere (lazily and for types too), or when it is loaded."""
    found = set()
    tree = parsed(path)
    for node in ast.walk(tree) if lazy else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("trivium"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
    return found & known - {name}


def circles() -> list[set[str]]:
    """Sets of modules that import one another in a circle (strongly connected, more than one module)."""
    import networkx as nx

    files = modules()
    graph = nx.DiGraph()
    for name, path in files.items():
        graph.add_edges_from((name, other) for other in imports(name, path, set(files)))
    return [found for found in nx.strongly_connected_components(graph) if len(found) > 1]


class Followed:
    """Modules whose functions are called, and calls from one to another, while it is entered."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: set[tuple[str, str]] = set()

    def __enter__(self) -> "Followed":
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if frame.f_code.co_name == "<module>" or _while_importing(frame):
            return
        here = frame.f_code.co_filename
        self.files.add(here)
        above = frame.f_back
        while above is not None and not above.f_code.co_filename.startswith(PACKAGE):
            above = above.f_back
        if above is not None and above.f_code.co_filename != here:
            self.calls.add((above.f_code.co_filename, here))


def _while_importing(frame: FrameType) -> bool:
    """Whether a module of ours is being imported just now: its classes and constants are made by calls."""
    above = frame.f_back
    for _ in range(6):
        if above is None:
            return False
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(PACKAGE):
            return True
        above = above.f_back
    return False


def tasks(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What a newcomer follows through the code, each ready to be run; the working folder is ``folder``."""
    import trivium as tv
    from tests.judge_server import JudgeServer
    from trivium.cli.main import run_command

    yield 'tv.score("cosine", …)', lambda: tv.score("cosine", output="a cat", references=["a dog"])
    case = {"id": "1", "input": "Say a b.", "references": ["a b"]}
    outputs = [{"case": "1", "output": "a b"}]
    yield "one recorded output", lambda: tv.evaluate([case], outputs=outputs, metrics=["jaccard"])
    with JudgeServer() as server:
        os.environ |= {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "sk-loopback"}
        judge = {"models": ["openai:gpt-4o-mini"]}
        yield (
            "one judge request",
            lambda: tv.evaluate([case], outputs=outputs, metrics=["clarity"], judge=judge),
        )
    yield "a span to its score", _span_to_score
    success = {"metric": "jaccard", "at_least": 0.5}
    cases = [case | {"id": str(number)} for number in range(12)]
    suite = {"name": "s", "metrics": ["jaccard", "success"], "success": success, "cases": cases}
    (folder / "suite.json").write_text(json.dumps(suite))
    (folder / "agent.py").write_text("def answer(question):\n    return 'a b'\n")
    ask = ["run", "suite.json", "--agent", "agent.py:answer", "--quiet"]
    yield "trivium run", lambda: run_command(ask)
    run_command(ask)
    yield "compare", lambda: run_command(["compare"])


def _span_to_score() -> None:
    """Receive a span as ``trivium serve`` does, complete its trace, score it, and look for an alert."""
    from litestar.testing import TestClient

    from tests.otlp_requests import BEGAN, SECOND, agent_trace, body
    from trivium.monitor.monitored import monitored
    from trivium.store.store import Store
    from trivium.web.app import create_app
    from trivium.web.services import Services

    now = [BEGAN / SECOND]
    with Store("sqlite:///live.db") as store:
        watched = monitored({"name": "support", "monitor": {"sample_rate": 1.0}})
        services = Services(store, [watched], clock=lambda: now[0])
        with TestClient(create_app(services, None), base_url="http://127.0.0.1") as client:
            headers = {"Content-Type": "application/x-protobuf"}
            sent = body(agent_trace(bytes(range(16))))
            assert client.post("/v1/traces", content=sent, headers=headers).status_code == 200
            now[0] += 3600
            services.completer.complete(now[0])
            assert [scorer.score_all(now[0]) for scorer in services.scorers] == [1]
            services.watcher.look(now[0])
        services.stop()


def print_sizes() -> None:
    """Print what is counted without running anything."""
    files = modules()
    lengths = [
        len(path.read_text(encoding="utf-8").splitlines()) for path in files.values() if has_content(path)
    ]
    small = sum(length < SMALL_LINES for length in lengths) / len(lengths)
    print(f"{code_lines_of_all():,} lines of code (without blanks, comments and docstrings)")
    print(
        f"{len(files)} files, {len(lengths)} with content: median {statistics.median(lengths):.0f} lines, ",
        end="",
    )
    print(f"{small:.0%} under {SMALL_LINES}, longest {max(lengths)}; {len(circles())} import circles")


def print_tasks() -> None:
    """Print how many files each task passes through."""
    print(f"{'task':24}{'files':>7}{'calls between files':>21}")
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        for task, run in tasks(Path(name)):
            with Followed() as followed, contextlib.redirect_stdout(io.StringIO()):
                run()
            print(f"{task:24}{len(followed.files):>7}{len(followed.calls):>21}")


if __name__ == "__main__":
    print_sizes()
    if "--sizes" not in sys.argv:
        import trivium

        print(f"{len(trivium.__all__)} public names\n")
        print_tasks()
