"""Token prices of models, from the suite's list or from genai-prices."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from math import inf
from typing import Any, Literal

import msgspec

from trivium.errors import Problem
from trivium.metrics.judge.client.providers import provider_and_model
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse
from trivium.suites.settings import JudgeSettings
from trivium.traces.trace import SpanUsage

GivenPrices = Mapping[str, Mapping[Literal["input", "output"], float]]
"""Prices in the suite, USD per million tokens, by model."""

CACHE_WRITE = 1.25
"""Anthropic's price of a token written to its cache, relative to an input token."""

_MILLION = 1_000_000

_PROVIDERS = {"openai-chat": "openai", "openai-responses": "openai"}
"""genai-prices' names of providers, where they differ from PydanticAI's."""


class Rate(msgspec.Struct, frozen=True):
    """Price per token, which may depend on the number of input tokens of the request.

    Attributes:
        starts: Input tokens from which each price applies, rising from 0.
        prices: USD per token.
    """

    starts: tuple[int, ...]
    prices: tuple[float, ...]

    def at(self, input_tokens: int) -> float:
        """Price in a request with this many input tokens, USD per token."""
        return self.prices[bisect_right(self.starts, input_tokens) - 1]

    def highest(self, input_tokens: int) -> float:
        """Highest price in a request with at most this many input tokens, USD per token."""
        return max(self.prices[: bisect_right(self.starts, input_tokens)])


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a model.

    Attributes:
        input: Input tokens.
        output: Output tokens, reasoning included.
        cached_input: Input tokens read from the provider's prompt cache; None if no price is listed.
        cache_write: Input tokens written to that cache; likewise.
        input_audio: Input tokens of audio; likewise.
        output_audio: Output tokens of audio; likewise.
        reasoning: Output tokens of reasoning, where they have a price of their own.
        request_usd: Fixed price of a request, USD.
    """

    input: Rate
    output: Rate
    cached_input: Rate | None
    cache_write: Rate | None
    input_audio: Rate | None = None
    output_audio: Rate | None = None
    reasoning: Rate | None = None
    request_usd: float = 0.0

    def cost(self, response: ModelResponse) -> float:
        """Cost of a response in USD."""
        total = response.input_tokens
        cached = min(response.cached_tokens, total)
        written = min(response.cache_write_tokens, total - cached)
        cost = (total - cached - written) * self.input.at(total)
        cost += cached * (self.cached_input or self.input).at(total)
        cost += written * (self.cache_write or self.input).at(total)
        return self.request_usd + cost + response.output_tokens * self.output.at(total)

    def recorded_cost(self, usage: SpanUsage) -> tuple[float | None, bool]:
        """Cost in USD of a recorded request, each class of its tokens at its price.

        Definition: docs/definitions/scores.md#agent-totals.

        Returns:
            The cost without the classes that no price is listed for, and whether there is none of these; no
            cost if the input or the output tokens are not recorded.
        """
        inputs, outputs = usage.input_tokens, usage.output_tokens
        if inputs is None or outputs is None:
            return None, True
        sides = (
            (
                inputs,
                self.input,
                (usage.cache_read_tokens, self.cached_input),
                (usage.cache_write_tokens, self.cache_write),
                (usage.input_audio_tokens, self.input_audio),
            ),
            (
                outputs,
                self.output,
                (usage.output_audio_tokens, self.output_audio),
                (usage.reasoning_tokens, self.reasoning or self.output),
            ),
        )
        cost, complete = self.request_usd, True
        for rest, plain, *parts in sides:
            for stated, rate in parts:
                tokens = min(stated or 0, rest)
                rest -= tokens  # noqa: PLW2901
                if rate is not None:
                    cost += tokens * rate.at(inputs)
                elif tokens:
                    complete = False
            cost += rest * plain.at(inputs)
        return cost, complete

    def max_cost(self, *, input_tokens: int, output_tokens: int) -> float:
        """Maximum cost in USD of a request with at most these tokens."""
        rates = (self.input, self.cached_input, self.cache_write)
        input_price = max(rate.highest(input_tokens) for rate in rates if rate is not None)
        output_price = self.output.highest(input_tokens)
        return self.request_usd + input_tokens * input_price + output_tokens * output_price


class Prices:
    """The prices of a suite's models, looked up once.

    Args:
        names: Names of the models in the suite.
        given: The suite's ``judge.prices``; they take precedence over genai-prices.

    Attributes:
        names: Name in the suite by provider and model; of several names of one model, the first.
    """

    def __init__(self, names: Iterable[str], given: GivenPrices) -> None:
        self._suite_price = given
        self.names: dict[tuple[str, str], str] = {}
        for name in names:
            self.names.setdefault(provider_and_model(name), name)
        self._known: dict[str, Price | None] = {}

    def name(self, request: ModelRequest) -> str:
        """Name of a request's model in the suite."""
        return self.names.get((request.provider, request.model)) or f"{request.provider}:{request.model}"

    def price(self, name: str) -> Price | None:
        """Price of a model by its name in the suite; None if it is unknown."""
        if name not in self._known:
            # genai-prices takes a tenth of a second to load, so this happens on demand.
            self._known[name] = (
                _suite_price(name, self._suite_price[name])
                if name in self._suite_price
                else _listed_price(name)
            )
        return self._known[name]

    def recorded_cost(self, name: str | None, usage: SpanUsage) -> tuple[float | None, bool]:
        """The stated cost of a recorded request, else that of its tokens (:meth:`Price.recorded_cost`)."""
        price = None if name is None or usage.cost_usd is not None else self.price(name)
        return (usage.cost_usd, True) if price is None else price.recorded_cost(usage)


def models_of(judge: JudgeSettings) -> list[str]:
    """Return the distinct models that a suite names."""
    named = [*judge.models, *(name for names in judge.models_by_complexity.values() for name in names)]
    return list(dict.fromkeys(named))


def price_problems(judge: JudgeSettings) -> list[Problem]:
    """Return problems of a suite's prices: incomplete ones, and those that its budget needs."""
    problems = [
        Problem(f"judge.prices.{name}", f"{side} is missing: give both, in USD per million tokens")
        for name, given in judge.prices.items()
        for side in ("input", "output")
        if side not in given
    ]
    # Without the extra the judge is off, which is reported elsewhere.
    if not problems and judge.budget_usd is not None and find_spec("genai_prices") is not None:
        prices = Prices(models_of(judge), judge.prices)
        problems = [
            Problem(
                "judge.prices",
                f'no price of "{name}" is known, which budget_usd needs. Give it, in USD per million '
                f'tokens (0 for a model of your own):  prices: {{"{name}": {{input: 0.15, output: 0.60}}}}',
            )
            for name in prices.names.values()
            if prices.price(name) is None
        ]
    return problems


def _suite_price(name: str, prices: Mapping[Literal["input", "output"], float]) -> Price:
    """Price from the suite, which does not list prices of cached tokens."""
    input_, output = _flat_rate(prices["input"] / _MILLION), _flat_rate(prices["output"] / _MILLION)
    write = _flat_rate(CACHE_WRITE * prices["input"] / _MILLION) if name.startswith("anthropic:") else input_
    return Price(input=input_, output=output, cached_input=input_, cache_write=write)


def _listed_price(name: str) -> Price | None:
    """Today's price from genai-prices; the highest one if it depends on the hour."""
    from datetime import UTC, datetime, timedelta

    if (info := _model_info(name)) is None:
        return None
    now = datetime.now(tz=UTC)
    hours = [_converted_price(info.get_prices(now + timedelta(hours=hour))) for hour in range(24)]
    return max((price for price in hours if price is not None), key=_cost_order, default=None)


@cache
def context_chars(name: str) -> float:
    """Length limit in characters of a document in a model's prompt; infinite if its context is unknown.

    One character per token of the context window: English text then takes about a quarter of the window, and
    no script fills it.
    """
    info = _model_info(name)
    tokens: int | None = None if info is None else info.context_window
    return inf if tokens is None else tokens


def _model_info(name: str) -> Any:
    """The entry of a model in genai-prices; None if it is not listed.

    A name without a provider, as in recorded traces, is looked for among all providers.
    """
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    provider, colon, model = name.partition(":")
    known = _PROVIDERS.get(provider, provider) if colon else None
    try:
        _, info = get_snapshot().find_provider_model(model if colon else name, None, known, None)
    except LookupError:
        return None
    return info


def _cost_order(price: Price) -> tuple[float, float]:
    return price.output.at(0), price.input.at(0)


def _converted_price(listed: Any) -> Price | None:
    input_, output = _converted_rate(listed.input_mtok), _converted_rate(listed.output_mtok)
    if input_ is None or output is None:
        return None
    per_request = _converted_rate(listed.requests_kcount)
    return Price(
        input=input_,
        output=output,
        cached_input=_converted_rate(listed.cache_read_mtok),
        cache_write=_converted_rate(listed.cache_write_mtok),
        input_audio=_converted_rate(getattr(listed, "input_audio_mtok", None)),
        output_audio=_converted_rate(getattr(listed, "output_audio_mtok", None)),
        reasoning=_converted_rate(getattr(listed, "output_reasoning_mtok", None)),
        request_usd=0.0 if per_request is None else per_request.at(0) * _MILLION / 1000,
    )


def _converted_rate(listed: Any) -> Rate | None:
    if listed is None:
        return None
    tiers = getattr(listed, "tiers", None)
    if tiers is None:
        return _flat_rate(float(listed) / _MILLION)
    steps = [(0, float(listed.base) / _MILLION), *((t.start, float(t.price) / _MILLION) for t in tiers)]
    return Rate(tuple(start for start, _ in steps), tuple(price for _, price in steps))


def _flat_rate(price: float) -> Rate:
    return Rate((0,), (price,))
