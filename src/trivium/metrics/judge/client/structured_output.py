"""Asks a model for structured output, validates it, and asks once more if it is invalid.

Definition: docs/definitions/judge.md#unavailable-judge.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from trivium.metrics.judge.budget.budget import BudgetExhausted
from trivium.metrics.judge.client.executor import JudgeExecutor
from trivium.metrics.judge.client.models import Model
from trivium.metrics.judge.client.request import GivenUp, ModelRequest, ModelResponse
from trivium.metrics.judge.prompts.answer import Answers, MalformedAnswer, PartlyMalformed, Schema, about

log = logging.getLogger(__name__)

TOP_LOGPROBS = 5

TWO_INVALID = "answered twice, never as asked: "

MAX_CHARS_SENT_BACK = 20_000
"""Most characters of a malformed answer that are sent back with the error."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a model, before its parameters are chosen.

    Attributes:
        static: The judge's instructions, the same for all cases.
        case: The material to judge, between delimiters.
        ask: The task.
        schema: JSON schema of the answer.
        temperature: 0 or more.
        seed: For providers that take one.
        max_tokens: Most tokens of the answer.
        sample: Index of the sample, from 0.
        about: Names of the dimensions that are judged.
    """

    static: str
    case: str
    ask: str
    schema: Schema
    temperature: float
    seed: int | None
    max_tokens: int
    sample: int
    about: tuple[str, ...]


class StructuredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A validated answer with its usage.

    Attributes:
        answer: The parsed answers, by dimension.
        errors: Errors of the dimensions that ``answer`` lacks, by dimension.
        response_of: The response that each dimension of ``answer`` was taken from.
        input_tokens: Sum over all answered requests.
        output_tokens: Likewise.
        cost_usd: Likewise, or None where no price is known.
        seconds: Time from the first request to the answer, queueing included.
        requests: Requests sent; 0 if the answer was cached.
        left_out: Parameters that the server refuses.
    """

    answer: Answers
    errors: dict[str, str]
    response_of: dict[str, ModelResponse]
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float
    requests: int
    left_out: tuple[str, ...]


async def ask(
    executor: JudgeExecutor,
    model: Model,
    question: Question,
    parse: Callable[[str, Collection[str]], Answers],
) -> StructuredAnswer:
    """Ask a model, and ask once more for the dimensions whose answer is invalid.

    If the second answer is invalid too, it is removed from the cache, so that a later run asks again.

    Args:
        executor: Runs the requests.
        model: The model.
        question: The question.
        parse: Parses a text into answers about some dimensions, or raises MalformedAnswer. The error is sent
            to the model with a second request, for the dimensions without an answer only.

    Raises:
        GivenUp: If there is no usable answer.
        BudgetExhausted: If the budget does not allow it.
    """
    began, requests = time.monotonic(), 0
    sent: list[str] = []
    left_out: tuple[str, ...] = ()
    responses: list[ModelResponse] = []
    answer: Answers = {}
    response_of: dict[str, ModelResponse] = {}
    missing: dict[str, str] = {}
    remaining = question.about
    turns: tuple[str, ...] = (question.ask,)
    before, after = TWO_INVALID, ""
    for is_second in (False, True):
        try:
            request = _request(model, question, turns, remaining)
            result = await executor.ask(model.name, request, about=question.about)
            sent.append(result.key)
            left_out = result.left_out
        except (GivenUp, BudgetExhausted) as failure:
            if not answer:
                raise
            # Keep the valid part of the first answer.
            before, after = "answered once, not as asked (", f"), and no more: {failure}"
            break
        response, requests = result.response, requests + result.requests
        responses.append(response)
        error, valid = _parsed(response, remaining, parse)
        answer |= valid
        response_of |= dict.fromkeys(valid, response)
        if error is None:
            missing = {}
            break
        cut = f" (cut off at {question.max_tokens:,} tokens, judge.max_tokens)"
        cut = cut if response.finish == "length" else ""
        if isinstance(error, PartlyMalformed):
            missing = {name: why + cut for name, why in error.errors.items()}
        if is_second or response.finish == "content_filter":
            if answer:
                break
            executor.drop(sent)
            why = f"{TWO_INVALID}{error}{cut}" if is_second else "refused to answer"
            raise GivenUp(f"{model.model} {why}", transient=False)
        log.info("%s: malformed answer, asked once more: %s%s", model.model, error, cut)
        remaining = tuple(name for name in remaining if name not in answer)
        part = f"{', '.join(remaining)} again, and nothing else" if answer else "the whole answer again"
        correction = f"That answer cannot be used: {error.wanted}. Give {part}, as JSON."
        if cut:
            correction += " It was cut off at its end: be brief."
        turns = (question.ask, response.text[:MAX_CHARS_SENT_BACK], correction)
    if missing:
        executor.drop(sent[1:])
    costs = [each.cost_usd for each in responses if each.cost_usd is not None]
    return StructuredAnswer(
        answer=answer,
        errors={name: f"{before}{why}{after}" for name, why in missing.items()},
        response_of=response_of,
        input_tokens=sum(each.input_tokens for each in responses),
        output_tokens=sum(each.output_tokens for each in responses),
        cost_usd=sum(costs) if len(costs) == len(responses) else None,
        seconds=time.monotonic() - began,
        requests=requests,
        left_out=left_out,
    )


def _parsed(
    response: ModelResponse, names: Collection[str], parse: Callable[[str, Collection[str]], Answers]
) -> tuple[MalformedAnswer | None, Answers]:
    """Parse a response; return the error or None, and the valid answers."""
    try:
        return None, parse(response.text, names)
    except PartlyMalformed as partly:
        return partly, partly.valid
    except MalformedAnswer as wholly:
        return wholly, {}


def _request(model: Model, question: Question, turns: tuple[str, ...], names: Sequence[str]) -> ModelRequest:
    return ModelRequest(
        provider=model.provider,
        address=model.address,
        model=model.model,
        instructions=question.static,
        case=question.case,
        turns=turns,
        schema=question.schema if len(names) == len(question.about) else about(names, question.schema),
        output="native",
        temperature=question.temperature,
        seed=question.seed,
        max_tokens=question.max_tokens,
        top_logprobs=TOP_LOGPROBS,
        sample=question.sample,
    )
