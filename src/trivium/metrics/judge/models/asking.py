"""Asking a model: time limits, retries with back-off, and one re-ask (spec: metrics, T2.6)."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from trivium.agents.masking import mask
from trivium.metrics.judge.prompts.answer import MalformedAnswer, Schema

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

TOP_LOGPROBS = 5
MOST_TOKENS = 8000
"""Of an answer; what a rubric needs is a tenth of it."""

REASON_CHARS = 300


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a failing provider is tried.

    Attributes:
        tries: Requests in all, for one answer of one model.
        first_pause: Seconds before the second, doubled for each that follows, with full jitter.
        longest_pause: Seconds; a provider that asks for more than this is given up.
    """

    tries: int = 5
    first_pause: float = 0.5
    longest_pause: float = 60


PATIENCE = Patience()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What one request asks.

    Attributes:
        instructions: Of the judge.
        text: What is judged, fenced.
        schema: JSON schema of the answer.
        temperature: 0 or more.
        seed: For providers that take one.
        timeout: Seconds of one request.
    """

    instructions: str
    text: str
    schema: Schema
    temperature: float
    seed: int | None
    timeout: float


class Answered(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What a model answered, and what it took.

    Attributes:
        answer: As it was understood.
        text: As it came.
        logprobs: Of its tokens, as the provider gives them, or None.
        input_tokens: Of all requests that were answered.
        output_tokens: Likewise.
        cost_usd: Likewise, or None where no price is known.
        seconds: From the first request to the answer.
        requests: That were sent.
    """

    answer: T
    text: str
    logprobs: list[dict[str, Any]] | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float
    requests: int


class GivenUp(Exception):
    """A model gave no usable answer; the text says why, in one line."""


async def ask(
    model: "Model", question: Question, understand: Callable[[str], T], *, patience: Patience = PATIENCE
) -> Answered[T]:
    """Ask a model until it answers, within bounds.

    Args:
        model: Who is asked.
        question: What.
        understand: Makes the answer of a text, or raises MalformedAnswer; the model is then told what is
            wrong and asked once more, and no more.
        patience: How long a failing provider is tried.

    Raises:
        GivenUp: If there is no usable answer.
    """
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(question.text)], instructions=question.instructions)
    ]
    spent = _Spent()
    for again in (False, True):
        response = await _respond(model, messages, question, patience, spent)
        text = _text(response)
        try:
            answer = understand(text)
        except MalformedAnswer as wrong:
            if response.finish_reason == "content_filter":
                raise GivenUp(f"{model.model_name} refused to answer") from None
            if again:
                raise GivenUp(f"{model.model_name} answered twice, never as asked: {wrong}") from None
            log.info("%s: malformed answer, asked once more: %s", model.model_name, wrong)
            told = f"That answer cannot be used: {wrong}. Give the whole answer again, as JSON."
            messages = [*messages, _as_text(response, text), ModelRequest(parts=[UserPromptPart(told)])]
            continue
        details = response.provider_details or {}
        return Answered(answer=answer, text=text, logprobs=details.get("logprobs"), **spent.told())
    raise AssertionError("unreachable: the second answer is taken or given up")


class _Spent:
    """What the requests of one answer took."""

    def __init__(self) -> None:
        self.requests = 0
        self._input = self._output = 0
        self._cost: float | None = 0.0
        self._began = time.monotonic()

    def add(self, response: "ModelResponse") -> None:
        self._input += response.usage.input_tokens
        self._output += response.usage.output_tokens
        try:
            price = float(response.cost().total_price)
        except (LookupError, AssertionError, ValueError):
            self._cost = None
        else:
            self._cost = None if self._cost is None else self._cost + price

    def told(self) -> dict[str, Any]:
        return {
            "input_tokens": self._input,
            "output_tokens": self._output,
            "cost_usd": self._cost,
            "seconds": time.monotonic() - self._began,
            "requests": self.requests,
        }


async def _respond(
    model: "Model", messages: "list[ModelMessage]", question: Question, patience: Patience, spent: _Spent
) -> "ModelResponse":
    """The next response, after as many tries as patience allows."""
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import AgentRunError, ModelAPIError, UserError

    settings, parameters = _settings(question), _parameters(model, question)
    for tried in range(1, patience.tries + 1):
        spent.requests += 1
        try:
            async with asyncio.timeout(question.timeout):
                response = await model_request(
                    model, messages, model_settings=settings, model_request_parameters=parameters
                )
        except (ModelAPIError, TimeoutError) as error:
            pause = _pause(error, tried, patience)
            why = _why(error, model.model_name, question.timeout)
            if pause is None or tried == patience.tries:
                tries = f" ({tried} tries)" if tried > 1 else ""
                raise GivenUp(why + tries) from None
            log.info("%s; asked again in %.1f s", why, pause)
            await asyncio.sleep(pause)
        except (AgentRunError, UserError, ValueError, OSError) as error:
            raise GivenUp(_why(error, model.model_name, question.timeout)) from None
        else:
            spent.add(response)
            return response
    raise AssertionError("unreachable: the last try returns or gives up")


def _settings(question: Question) -> "ModelSettings":
    from pydantic_ai.models.openai import OpenAIChatModelSettings

    settings = OpenAIChatModelSettings(
        temperature=question.temperature,
        max_tokens=MOST_TOKENS,
        timeout=question.timeout,
        max_retries=0,  # retries are ours: a second policy below would multiply them
        openai_logprobs=True,
        openai_top_logprobs=TOP_LOGPROBS,
    )
    if question.seed is not None:
        settings["seed"] = question.seed
    return settings


def _parameters(model: "Model", question: Question) -> "ModelRequestParameters":
    """Native JSON output where the model has it (its tokens carry log-probabilities), else a tool call."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if model.profile.get("supports_json_schema_output", False):
        output = OutputObjectDefinition(json_schema=question.schema, name="judgement", strict=True)
        return ModelRequestParameters(output_mode="native", output_object=output)
    tool = ToolDefinition(
        name="judgement",
        parameters_json_schema=question.schema,
        description="Give your judgement.",
        kind="output",
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)


def _text(response: "ModelResponse") -> str:
    """The JSON of an answer, wherever it stands in the response."""
    calls = response.tool_calls
    return calls[0].args_as_json_str() if calls else response.text or ""


def _as_text(response: "ModelResponse", text: str) -> "ModelResponse":
    """A malformed answer as plain text: a broken tool call cannot be sent back."""
    from pydantic_ai.messages import ModelResponse, TextPart

    return ModelResponse(parts=[TextPart(text or "(no answer)")], model_name=response.model_name)


def _pause(error: Exception, tried: int, patience: Patience) -> float | None:
    """Seconds until the next try, None when another would not help."""
    from pydantic_ai import exceptions

    passing = (
        exceptions.ModelRateLimitError,
        exceptions.ModelUnavailableError,
        exceptions.ModelServerError,
        exceptions.ModelConnectionError,
        exceptions.ModelRequestTimeout,
        TimeoutError,
    )
    if not isinstance(error, passing):
        return None
    asked = getattr(error, "retry_after", None)
    if asked is not None:
        return asked if asked <= patience.longest_pause else None
    ceiling = min(patience.longest_pause, patience.first_pause * 2 ** (tried - 1))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - so that many do not come back at once


def _why(error: Exception, model: str, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"{model} did not answer within {timeout:g} s"
    # Masked before it is cut: of half a key nobody could tell what it is.
    return mask(" ".join(f"{model}: {type(error).__name__}: {error}".split()))[:REASON_CHARS]
