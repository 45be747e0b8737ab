"""Usage: the tokens of a model's run, wherever its version of LangChain or LangSmith kept them."""

from collections.abc import Iterator
from typing import Any

from trivium.traces.readers.fields import count, dict_, dollars
from trivium.traces.readers.records import Record
from trivium.traces.trace import SpanUsage

_INPUT = ("input_tokens", "prompt_tokens", "promptTokens", "input_token_count", "prompt_token_count")
_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "completionTokens",
    "generated_token_count",
    "candidates_token_count",
)


def usage_of(record: Record, messages: list[dict[str, Any]]) -> SpanUsage | None:
    """What the run used: as its messages say, else its outputs, its metadata, or the service."""
    told = [found for message in messages if (found := _first(_of_message(message))) is not None]
    usage = _sum(told) or _first(_elsewhere(record))
    if usage is None:
        return None
    input_tokens, output_tokens, cost = usage
    return SpanUsage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost or dollars(record.get("total_cost")),
    )


_Usage = tuple[int | None, int | None, float | None]


def _of_message(message: dict[str, Any]) -> Iterator[Any]:
    yield message.get("usage_metadata")
    response = dict_(message.get("response_metadata"))
    yield response.get("token_usage")
    yield response.get("usage")
    yield response.get("tokenUsage")


def _elsewhere(record: Record) -> Iterator[Any]:
    outputs = dict_(record.get("outputs"))
    extra = dict_(record.get("extra"))
    llm_output = dict_(outputs.get("llm_output"))
    yield outputs.get("usage_metadata")
    yield dict_(extra.get("metadata")).get("usage_metadata")
    yield llm_output.get("token_usage")
    yield llm_output.get("usage")
    yield llm_output.get("tokenUsage")
    yield outputs.get("usage")
    yield record


def _first(places: Iterator[Any]) -> _Usage | None:
    for place in places:
        fields = dict_(place)
        input_tokens, output_tokens = _count(fields, _INPUT), _count(fields, _OUTPUT)
        if input_tokens is not None or output_tokens is not None:
            return input_tokens, output_tokens, dollars(fields.get("total_cost"))
    return None


def _count(fields: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    return next((found for key in keys if (found := count(fields.get(key))) is not None), None)


def _sum(told: list[_Usage]) -> _Usage | None:
    if len(told) <= 1:
        return told[0] if told else None
    return (
        _added([usage[0] for usage in told]),
        _added([usage[1] for usage in told]),
        sum(usage[2] or 0.0 for usage in told) or None,
    )


def _added(counts: list[int | None]) -> int | None:
    known = [number for number in counts if number is not None]
    return sum(known) if known else None
