"""What a session of Claude Code says of itself as a whole: version, length, tokens, cost, how it ended."""

from collections.abc import Sequence
from typing import Any

from trivium.traces.readers.claude_code.agents import Run
from trivium.traces.readers.claude_code.events import tokens, was_interrupted
from trivium.traces.readers.fields import dict_, number, text
from trivium.traces.trace import SpanUsage


def totals_of(events: Sequence[dict[str, Any]], lead: Run, *, unanswered: int) -> dict[str, Any]:
    """The metadata of a trace; the lead's run learns how it ended.

    A session may hold several ``result`` events: lengths and the lead's tokens add up; costs and the tokens
    by model are cumulative, so the last counts.

    Args:
        events: All events of the session.
        lead: The lead's run: ``ok``, ``output`` are set.
        unanswered: How many calls of the lead have no answer.
    """
    ends = [event for event in events if event.get("type") == "result"]
    first = next((event for event in events if text(event, "subtype") == "init"), {})
    milliseconds = _sum([number(event.get("duration_ms")) for event in ends])
    told = {
        "model": text(first, "model"),
        "version": text(first, "claude_code_version") or _of_any(events, "version"),
        "compactions": sum(text(event, "subtype") == "compact_boundary" for event in events) or None,
        "results": len(ends) or None,
        "seconds": None if milliseconds is None else milliseconds / 1000,
        "usage": _usage(ends),
        "lead_usage": _lead_usage(ends),
    }
    if ends:
        lead.ok = not any(_failed(event) for event in ends[-1:])
        lead.output = next((event["result"] for event in reversed(ends) if "result" in event), None)
    else:
        lead.ok = _came_to_an_end(events, unanswered)
        if lead.ok is None:
            lead.end = None
    return {key: value for key, value in told.items() if value is not None}


def _came_to_an_end(events: Sequence[dict[str, Any]], unanswered: int) -> bool | None:
    """True for a transcript whose last turn of the lead was its last; a stream would have said so."""
    talk = [
        event
        for event in events
        if event.get("type") in {"user", "assistant"} and not event.get("parent_tool_use_id")
    ]
    own = [event for event in talk if event.get("isSidechain") is not True] or talk
    if not own or own[-1].get("type") != "assistant" or was_interrupted(own[-1]) or unanswered:
        return None
    return (
        True if text(dict_(own[-1].get("message")), "stop_reason") in {"end_turn", "stop_sequence"} else None
    )


def _failed(event: dict[str, Any]) -> bool:
    return event.get("is_error") is True or (text(event, "subtype") or "").startswith("error")


def _of_any(events: Sequence[dict[str, Any]], key: str) -> str | None:
    return next((found for event in events if (found := text(event, key)) is not None), None)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and value >= 0]
    return sum(known) if known else None


def _lead_usage(ends: Sequence[dict[str, Any]]) -> SpanUsage | None:
    found = [tokens(event.get("usage")) for event in ends]
    inputs, outputs = _sum([each for each, _ in found]), _sum([each for _, each in found])
    if inputs is None and outputs is None:
        return None
    return SpanUsage(
        input_tokens=None if inputs is None else int(inputs),
        output_tokens=None if outputs is None else int(outputs),
    )


def _usage(ends: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Tokens and cost of the whole session, sub-agents and teammates included."""
    usage: dict[str, Any] = {}
    models = next((found for event in reversed(ends) if (found := dict_(event.get("modelUsage")))), {})
    for name, keys in (
        ("input_tokens", ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")),
        ("output_tokens", ("outputTokens",)),
    ):
        total = _sum([number(dict_(model).get(key)) for model in models.values() for key in keys])
        if total is not None:
            usage[name] = int(total)
    costs = [number(event.get("total_cost_usd")) for event in ends]
    known = [cost for cost in costs if cost is not None and cost >= 0]
    if known:
        usage["cost_usd"] = known[-1]
    return usage or None
