"""Asks a model for structured output, validates it, and asks once more if it is invalid.

Definition: docs/definitions/judge.md#unavailable-judge.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from trivium.metrics.judge.client.models import Models
from trivium.metrics.judge.client.providers import GivenUp
from trivium.metrics.judge.client.request import (
    MAX_CHARS_PER_TOKEN,
    AskResult,
    ModelRequest,
    ModelResponse,
    OutputMode,
)
from trivium.metrics.judge.prompts.answer import Answers, MalformedAnswer, Mistakes, about

log = logging.getLogger(__name__)

NEVER_AS_ASKED = "answered {}, never as asked: "

CUT_OFF = " (cut off at {:,} tokens, judge.max_tokens)"

Parse = Callable[[str, Collection[str]], tuple[Answers, Mistakes]]
"""Parses a text into answers about some dimensions and mistakes in others, or raises MalformedAnswer."""

NEXT_OUTPUT: dict[OutputMode, OutputMode] = {"native": "tool", "tool": "prompted"}
"""How a schema is sent that was answered twice, never with JSON of its form."""

CUT = (
    "cannot have read the whole prompt: its server reports {:,} tokens, and a token holds {} characters at"
    " most (raise the server's context length, or lower judge.excerpt_chars)"
)

MAX_CHARS_SENT_BACK = 20_000
"""Most characters of a malformed answer that are sent back with the error."""


class StructuredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A validated answer, and what it took.

    Attributes:
        answer: The parsed answers, by dimension.
        errors: Errors of the dimensions that ``answer`` lacks, by dimension.
        response_of: The response that each dimension of ``answer`` was taken from.
        results: All responses to its question.
        seconds: Time from the first request to the answer, queueing included.
    """

    answer: Answers
    errors: dict[str, str]
    response_of: dict[str, ModelResponse]
    results: tuple[AskResult, ...]
    seconds: float


async def ask(
    models: Models, name: str, request: ModelRequest, dimensions: tuple[str, ...], parse: Parse
) -> StructuredAnswer:
    """Ask a model, and ask once more, with the error, for the dimensions whose answer is invalid.

    If the second answer too holds no JSON, and was not cut off, the schema is sent as a tool, and then in the
    prompt. Invalid answers are removed from the cache, so that a later run asks again.

    Args:
        models: Answers the requests.
        name: The model's name in the suite.
        request: The request, with every parameter that the server may still refuse.
        dimensions: Names of the dimensions that are judged.
        parse: Parses an answer.

    Raises:
        GivenUp: If there is no usable answer, or the budget does not allow one.
    """
    began = time.monotonic()
    results: list[AskResult] = []
    answer: Answers = {}
    response_of: dict[str, ModelResponse] = {}
    errors: dict[str, str] = {}
    before, after = NEVER_AS_ASKED.format("twice"), ""
    sent, left = request, dimensions
    while True:
        try:
            results.append(await models.ask(name, sent, about=dimensions))
        except GivenUp as failure:
            if not answer:
                raise
            # Keep the valid part of the first answer.
            before, after = "answered once, not as asked (", f"), and no more: {failure}"
            break
        times, response = len(results), results[-1].response
        _check_read(models, results)
        valid, wrong, no_answer = _parsed(response.text, left, parse)
        answer |= valid
        response_of |= dict.fromkeys(valid, response)
        mistakes = [no_answer] if no_answer else list(wrong.values())
        if not mistakes:
            errors = {}
            break
        cut = CUT_OFF.format(request.max_tokens) if response.finish == "length" else ""
        errors = {each: f"{why}{cut}" for each, why in wrong.items()} or errors
        why = "; ".join(map(str, mistakes)) + cut
        output = _next_output(results[-1], is_first=times == 1, no_json=no_answer is not None)
        if output is None or (answer and times > 1):
            if answer:
                break
            models.cache.drop([each.sent.key for each in results])
            raise GivenUp(f"{request.model} {_why_none(times, why)}", cause="unusable")
        log.info("%s: malformed answer, asked once more (%s): %s", request.model, output, why)
        left = tuple(each for each in left if each not in answer)
        sent = msgspec.structs.replace(request, output=output)
        if times == 1:
            wanted = "; ".join(each.wanted for each in mistakes)
            sent = _once_more(request, response, wanted, left if answer else ())
    if errors:
        models.cache.drop([each.sent.key for each in results[1:]])
    return StructuredAnswer(
        answer=answer,
        errors={each: f"{before}{why}{after}" for each, why in errors.items()},
        response_of=response_of,
        results=tuple(results),
        seconds=time.monotonic() - began,
    )


def _check_read(models: Models, results: Sequence[AskResult]) -> None:
    """Raise GivenUp if the server cannot have read the whole prompt."""
    sent, response = results[-1].sent, results[-1].response
    # Counts without output tokens are not taken for true.
    if response.output_tokens and sent.surely_cut(response.input_tokens):
        models.cache.drop([each.sent.key for each in results])
        why = CUT.format(response.input_tokens, MAX_CHARS_PER_TOKEN)
        raise GivenUp(f"{sent.model} {why}", cause="cut")


def _why_none(times: int, error: str) -> str:
    """Explain why none of several answers is usable; only a refusal ends after the first."""
    if times == 1:
        return "refused to answer"
    return NEVER_AS_ASKED.format("twice" if times == 2 else f"{times} times") + error


def _next_output(result: AskResult, *, is_first: bool, no_json: bool) -> OutputMode | None:
    """How the schema is sent once more after a malformed answer; None if the model is not asked again."""
    if result.response.finish == "content_filter":
        return None
    if is_first:
        return result.sent.output
    whole = result.response.finish != "length"
    return NEXT_OUTPUT.get(result.sent.output) if no_json and whole else None


def _once_more(
    request: ModelRequest, response: ModelResponse, wanted: str, names: Collection[str]
) -> ModelRequest:
    """The request that sends a malformed answer back, for some dimensions, or for all if none are named."""
    part = f"{', '.join(names)} again, and nothing else" if names else "the whole answer again"
    correction = f"That answer cannot be used: {wanted}. Give {part}, as JSON."
    if response.finish == "length":
        correction += " It was cut off at its end: be brief."
    turns = (*request.turns, response.text[:MAX_CHARS_SENT_BACK], correction)
    schema = about(tuple(names), request.schema) if names else request.schema
    return msgspec.structs.replace(request, turns=turns, schema=schema)


def _parsed(
    text: str, names: Collection[str], parse: Parse
) -> tuple[Answers, Mistakes, MalformedAnswer | None]:
    """Parse a text; return the valid answers, the mistakes in others, and why there is none at all."""
    try:
        return *parse(text, names), None
    except MalformedAnswer as malformed:
        return {}, {}, malformed
