"""OTLP/JSON written for the tests: spans with plain attributes, and requests of them."""

import json
from typing import Any

ORIGIN = 1_700_000_000_000_000_000
"""Nanoseconds; the times of spans are seconds after it."""

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span_id(name: str) -> str:
    """A span id that tells its name."""
    return name.encode().hex().rjust(16, "0")[-16:]


def value(plain: Any) -> dict[str, Any]:
    """A tagged value."""
    if isinstance(plain, bool):
        return {"boolValue": plain}
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    if isinstance(plain, float):
        return {"doubleValue": plain}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [value(item) for item in plain]}}
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": attributes(plain)}}
    return {"stringValue": plain}


def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(item)} for key, item in plain.items()]


def span(
    id: str,
    attrs: dict[str, Any] | None = None,
    *,
    parent: str | None = None,
    at: tuple[float, float | None] = (0, 1),
    name: str | None = None,
    failed: str | bool = False,
    events: list[tuple[str, dict[str, Any]]] | None = None,
    trace: str = TRACE,
) -> dict[str, Any]:
    """One span as an exporter writes it."""
    start, end = at
    made: dict[str, Any] = {
        "traceId": trace,
        "spanId": span_id(id),
        "name": name or id,
        "kind": 1,
        "startTimeUnixNano": str(ORIGIN + round(start * 10**9)),
        "attributes": attributes(attrs or {}),
        "status": {},
    }
    if parent is not None:
        made["parentSpanId"] = span_id(parent)
    if end is not None:
        made["endTimeUnixNano"] = str(ORIGIN + round(end * 10**9))
    if failed:
        made["status"] = {"code": 2} | ({"message": failed} if isinstance(failed, str) else {})
    if events:
        made["events"] = [
            {"timeUnixNano": str(ORIGIN), "name": what, "attributes": attributes(plain)}
            for what, plain in events
        ]
    return made


def agent(id: str, name: str | None = None, **rest: Any) -> dict[str, Any]:
    return span(id, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name or id}, **rest)


def tool(
    id: str, name: str | None = None, attrs: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    stated = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name or id,
        "gen_ai.tool.call.arguments": "{}",
    }
    return span(id, stated | (attrs or {}), **rest)


def chat(id: str, tokens: tuple[int, int] = (10, 2), **rest: Any) -> dict[str, Any]:
    stated = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
    }
    return span(id, stated, **rest)


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    """An export request."""
    resource = {"attributes": attributes({"service.name": "tests"})}
    scope = {"scope": {"name": "tests"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def content(*spans: dict[str, Any]) -> bytes:
    return json.dumps(request(*spans)).encode()
