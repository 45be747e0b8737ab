"""Token prices of models, from the suite's list or from genai-prices."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from math import inf
from typing import Any, Literal

import msgspec

from trivium.errors import Problem
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse
from trivium.suites.settings import JudgeSettings

GivenPrices = Mapping[str, Mapping[Literal["input", "output"], float]]

_MILLION = 1_000_000

CACHE_WRITE = 1.25
"""What Anthropic takes for a token that it puts into its cache, of the price of one that it reads."""


class Rate(msgspec.Struct, frozen=True):
    """USD a token; it may change for the whole call from a number of input tokens on.

    Attributes:
        starts: Input tokens from which each price holds, rising from 0.
        prices: USD a token.
    """

    starts: tuple[int, ...]
    prices: tuple[float, ...]

    def at(self, input_tokens: int) -> float:
        """The price of a call that reads this many."""
        return self.prices[bisect_right(self.starts, input_tokens) - 1]

    def most(self, input_tokens: int) -> float:
        """The highest price of a call that reads at most this many."""
        return max(self.prices[: bisect_right(self.starts, input_tokens)])


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs.

    Attributes:
        input: Of what it reads.
        output: Of what it writes, its reasoning included.
        cached_input: Of what the provider had in its own cache.
        cache_write: Of what it put into its cache.
        request_usd: Of each request, whatever it holds.
    """

    input: Rate
    output: Rate
    cached_input: Rate
    cache_write: Rate
    request_usd: float = 0.0

    def of(self, response: ModelResponse) -> float:
        """Cost of a response in USD."""
        read = response.input_tokens
        cached = min(response.cached_tokens, read)
        put = min(response.cache_write_tokens, read - cached)
        cost = (read - cached - put) * self.input.at(read)
        cost += cached * self.cached_input.at(read) + put * self.cache_write.at(read)
        return self.request_usd + cost + response.output_tokens * self.output.at(read)

    def most(self, *, input_tokens: int, output_tokens: int) -> float:
        """Most USD that a request with at most these tokens costs."""
        read = max(each.most(input_tokens) for each in (self.input, self.cached_input, self.cache_write))
        return self.request_usd + input_tokens * read + output_tokens * self.output.most(input_tokens)


class Prices:
    """The prices of a suite's models, looked up once.

    Args:
        names: Models as the suite names them.
        given: The suite's ``judge.prices``, USD per million tokens; they go before the list's.
    """

    def __init__(self, names: Iterable[str], given: GivenPrices) -> None:
        self._given = given
        self._names: dict[tuple[str, str], str] = {}
        for name in names:
            self._names.setdefault(place_of(name), name)
        self._known: dict[str, Price | None] = {}

    def name(self, request: ModelRequest) -> str:
        """The model of a call, as the suite names it."""
        return self._names.get((request.provider, request.model)) or f"{request.provider}:{request.model}"

    def price(self, name: str) -> Price | None:
        """Of a model by the suite's name, or None where nobody knows."""
        if name not in self._known:
            # The list takes a tenth of a second to load: not before somebody asks.
            self._known[name] = _given(name, self._given[name]) if name in self._given else _listed(name)
        return self._known[name]

    def problems(self) -> list[Problem]:
        """What to write for each model that has no price, for a suite with a budget in USD."""
        return [
            Problem(
                "judge.prices",
                f'no price of "{name}" is known, which budget_usd needs. Give it, in USD per million '
                f'tokens (0 for a model of your own):  prices: {{"{name}": {{input: 0.15, output: 0.60}}}}',
            )
            for name in self._names.values()
            if self.price(name) is None
        ]


def models_of(judge: JudgeSettings) -> list[str]:
    """Every model that a suite names, once."""
    named = [*judge.models, *(name for names in judge.models_by_complexity.values() for name in names)]
    return list(dict.fromkeys(named))


def price_problems(judge: JudgeSettings) -> list[Problem]:
    """What is wrong with a suite's prices, or missing from them for its budget."""
    problems = [
        Problem(f"judge.prices.{name}", f"{side} is missing: give both, in USD per million tokens")
        for name, given in judge.prices.items()
        for side in ("input", "output")
        if side not in given
    ]
    # Without the extra the judge is off, and that is said elsewhere.
    if not problems and judge.budget_usd is not None and find_spec("genai_prices") is not None:
        problems = Prices(models_of(judge), judge.prices).problems()
    return problems


def place_of(name: str) -> tuple[str, str]:
    """Provider and model of a name, as calls hold them."""
    provider, _, model = name.partition(":")
    return ("openai-chat" if provider == "openai" else provider), model


def _given(name: str, prices: Mapping[Literal["input", "output"], float]) -> Price:
    read, written = _flat(prices["input"] / _MILLION), _flat(prices["output"] / _MILLION)
    put = _flat(CACHE_WRITE * prices["input"] / _MILLION) if name.startswith("anthropic:") else read
    return Price(input=read, output=written, cached_input=read, cache_write=put)


def _listed(name: str) -> Price | None:
    """The price of today by genai-prices; where it goes by the hour, that of the dearest one."""
    from datetime import UTC, datetime, timedelta

    if (info := _info(name)) is None:
        return None
    now = datetime.now(tz=UTC)
    hours = [_price(info.get_prices(now + timedelta(hours=hour))) for hour in range(24)]
    return max((price for price in hours if price is not None), key=_dearness, default=None)


@cache
def context_chars(name: str) -> float:
    """Most characters of a document that a model can be shown beside all else; infinite where nobody knows.

    As many as its context has tokens: a fourth of it for text in English, and all of it for no script.
    """
    info = _info(name)
    tokens: int | None = None if info is None else info.context_window
    return inf if tokens is None else tokens


def _info(name: str) -> Any:
    """What genai-prices says of a model, None where it does not know it."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    provider, _, model = name.partition(":")
    try:
        _, info = get_snapshot().find_provider_model(model, None, _PROVIDERS.get(provider, provider), None)
    except LookupError:
        return None
    return info


def _dearness(price: Price) -> tuple[float, float]:
    return price.output.at(0), price.input.at(0)


def _price(listed: Any) -> Price | None:
    read, written = _rate(listed.input_mtok), _rate(listed.output_mtok)
    if read is None or written is None:
        return None
    per_request = _rate(listed.requests_kcount)
    return Price(
        input=read,
        output=written,
        cached_input=_rate(listed.cache_read_mtok) or read,
        cache_write=_rate(listed.cache_write_mtok) or read,
        request_usd=0.0 if per_request is None else per_request.at(0) * _MILLION / 1000,
    )


_PROVIDERS = {"openai-chat": "openai", "openai-responses": "openai"}
"""Names of PydanticAI under which genai-prices lists another."""


def _rate(listed: Any) -> Rate | None:
    if listed is None:
        return None
    tiers = getattr(listed, "tiers", None)
    if tiers is None:
        return _flat(float(listed) / _MILLION)
    steps = [(0, float(listed.base) / _MILLION), *((t.start, float(t.price) / _MILLION) for t in tiers)]
    return Rate(tuple(start for start, _ in steps), tuple(price for _, price in steps))


def _flat(price: float) -> Rate:
    return Rate((0,), (price,))
