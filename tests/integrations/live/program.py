"""What each program does: its agent is evaluated on three cases at once, then used once without.

The attempts' traces and the means of the metrics are printed as JSON, and what became of odd values; files
of traces go to TRIVIUM_TRACES.
"""

import asyncio
import sys
from typing import Any

import msgspec

import trivium as tv

INPUT_TOKENS, OUTPUT_TOKENS = 10, 2
TOOLS = ("search", "search", "flaky", "ask_writer", "look_up")
METRICS = ("tool_recall", "tool_selection", "tool_success", "communication_overhead", "coordination_quality")


def search(query: str) -> str:
    """Search for pages."""
    return f"a page about {query}"


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a word"


def done(agent) -> dict[str, Any]:
    """Let the agent do its work; return what is printed of it."""
    expect = tv.Expect(tools=tuple(tv.ExpectedTool(name=name) for name in TOOLS))
    cases = [tv.Case(id=name, input=f"question {name}", expect=expect) for name in "abc"]
    run = tv.evaluate(
        tv.Suite(cases=cases, name="live"), agent=agent, metrics=METRICS, store="sqlite:///runs.db"
    )
    asyncio.run(agent("outside"))
    return {
        "traces": [attempt.trace for attempt in run.attempts()],
        "outputs": [attempt.output for attempt in run.attempts()],
        "means": {name: figure.mean for name, figure in run.summary().metrics.items()},
    }


def show(report: dict[str, Any]) -> None:
    """Print a report."""
    sys.stdout.buffer.write(msgspec.json.encode(report))
