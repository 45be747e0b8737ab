"""Traces of a small support agent, as native JSON lines."""

import json
from pathlib import Path
from typing import Any

BEGAN = 1_790_000_000.0
"""Seconds since 1970; the traces of :func:`support` begin a minute after one another."""


def call(id: str, name: str, at: tuple[float, float], ok: bool = True, **rest: Any) -> dict[str, Any]:
    return {
        "id": id, "parent": "a", "kind": "tool", "name": name, "start": at[0], "end": at[1], "ok": ok,
        "input": {"q": 1}, **({} if ok else {"attributes": {"error": "no route to host"}}), **rest,
    }  # fmt: skip


def trace(
    id: str, *spans: dict[str, Any], seconds: float = 10, ok: bool | None = True, **rest: Any
) -> dict[str, Any]:
    """One trace: an agent with the given spans below it."""
    began = rest.pop("began", BEGAN)
    shifted = [{**span, "start": span["start"] + began, "end": span["end"] + began} for span in spans]
    root = {
        "id": "a", "kind": "agent", "name": rest.pop("agent", "helper"), "start": began,
        "end": None if ok is None else began + seconds, "ok": ok, "input": "Where is my order?",
        "output": "On its way.",
        **({"attributes": {"error": "TimeoutError: gave up"}} if ok is False else {}),
    }  # fmt: skip
    return {"trace_id": id, "spans": [root, *shifted], "metadata": rest}


def support() -> list[dict[str, Any]]:
    """Four traces: all well, a retried call, a loop of five calls that failed, one that never ended."""
    tokens = {"input_tokens": 1000, "output_tokens": 100}
    model = {"id": "m", "parent": "a", "kind": "llm", "name": "gpt-4o-mini", "start": 0, "end": 1}
    llm = model | {"usage": tokens}
    return [
        trace("well", llm, call("1", "search", (1, 2)), call("2", "read", (2, 4)), tags=["shop"]),
        trace(
            "retried", call("1", "search", (1, 2), ok=False), call("2", "search", (3, 4)),
            seconds=20, began=BEGAN + 60, tags=["shop", "beta"],
        ),
        trace(
            "looped", *[call(str(n), "search", (n, n + 1)) for n in range(5)],
            seconds=30, ok=False, began=BEGAN + 120,
        ),
        trace("open", ok=None, began=BEGAN + 180, agent="other"),
    ]  # fmt: skip


def write(path: Path, *traces: dict[str, Any]) -> Path:
    """Write traces, one a line."""
    path.write_text("".join(json.dumps(each) + "\n" for each in traces), encoding="utf-8")
    return path
