"""Tokens cost what the suite says, or what genai-prices says."""

import msgspec
import pytest
from genai_prices import Usage, calc_price
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.judge.budget.calls import call, reply
from trivium.metrics.judge.budget.prices import Price, Prices, Rate, price_problems
from trivium.suites.settings import JudgeSettings
from trivium.traces.trace import SpanUsage

LISTED = {
    "openai:gpt-4o-mini": ("gpt-4o-mini", "openai"),
    "openai-responses:gpt-5-mini": ("gpt-5-mini", "openai"),
    "anthropic:claude-haiku-4-5": ("claude-haiku-4-5", "anthropic"),
    "google:gemini-2.5-pro": ("gemini-2.5-pro", "google"),  # dearer beyond 200,000 tokens
}
PRICES = Prices(LISTED, {})
TOKENS = st.integers(0, 1_000_000)


@given(name=st.sampled_from(sorted(LISTED)), read=TOKENS, written=TOKENS, share=st.floats(0, 1))
def test_a_reply_costs_what_genai_prices_says(name, read, written, share):
    cached = int(read * share)
    model, provider = LISTED[name]
    usage = Usage(input_tokens=read, cache_read_tokens=cached, output_tokens=written)
    expected = float(calc_price(usage, model, provider_id=provider).total_price)
    found = PRICES.price(name).cost(reply(read, written, cached=cached))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(name=st.sampled_from(sorted(LISTED)), tokens=st.lists(TOKENS, min_size=4, max_size=4))
def test_a_recorded_request_costs_what_genai_prices_says(name, tokens):
    plain, read, written, output = tokens
    price = PRICES.price(name)
    classes = {"cache_read_tokens": read, "cache_write_tokens": written if price.cache_write else 0}
    usage = {"input_tokens": plain + sum(classes.values()), "output_tokens": output, **classes}
    model, provider = LISTED[name]
    expected = float(calc_price(Usage(**usage), model, provider_id=provider).total_price)
    found, complete = price.recorded_cost(SpanUsage(**usage, reasoning_tokens=output // 2))
    assert (found, complete) == (pytest.approx(expected, rel=1e-9, abs=1e-12), True)


def rate(usd: float) -> Rate:
    return Rate((0,), (usd,))


def test_each_class_of_tokens_has_its_price_and_one_without_is_left_out():
    usage = SpanUsage(
        input_tokens=1_111, cache_read_tokens=1_000, cache_write_tokens=100, input_audio_tokens=10,
        output_tokens=111, reasoning_tokens=100, output_audio_tokens=10,
    )  # fmt: skip
    classes = {"cached_input": 1, "cache_write": 5, "input_audio": 7, "output_audio": 11, "reasoning": 13}
    full = Price(input=rate(2), output=rate(3), **{name: rate(usd) for name, usd in classes.items()})
    assert full.recorded_cost(usage) == (1_000 + 500 + 70 + 2 + 1_300 + 110 + 3, True)
    less = Price(input=rate(2), output=rate(3), cached_input=rate(1), cache_write=None)
    assert less.recorded_cost(usage) == (1_000 + 2 + 300 + 3, False)
    assert less.recorded_cost(SpanUsage(input_tokens=4, output_tokens=1, cache_write_tokens=0)) == (11, True)
    assert less.recorded_cost(SpanUsage(input_tokens=4)) == (None, True)
    impossible = SpanUsage(input_tokens=4, output_tokens=0, cache_read_tokens=9, cache_write_tokens=9)
    assert less.recorded_cost(impossible) == (4, True)


@given(name=st.sampled_from(sorted(LISTED)), bounds=st.tuples(TOKENS, TOKENS), data=st.data())
def test_no_reply_within_the_bounds_costs_more_than_the_most(name, bounds, data):
    read, written = (data.draw(st.integers(0, bound)) for bound in bounds)
    cached = data.draw(st.integers(0, read))
    price = PRICES.price(name)
    most = price.max_cost(input_tokens=bounds[0], output_tokens=bounds[1])
    assert price.cost(reply(read, written, cached=cached)) <= most * (1 + 1e-12)


def test_the_prices_of_the_suite_go_first():
    prices = Prices(["openai:gpt-4o-mini"], {"openai:gpt-4o-mini": {"input": 2, "output": 10}})
    cost = prices.price("openai:gpt-4o-mini").cost(reply(1_000_000, 500_000, cached=250_000))
    assert cost == pytest.approx(2 + 5)


def test_the_price_of_a_call_goes_by_the_name_the_suite_uses():
    prices = Prices(["openai:gpt-4o-mini", "ollama:llama3"], {})
    assert prices.name(call(model="gpt-4o-mini")) == "openai:gpt-4o-mini"
    assert prices.name(call(model="llama3", provider="ollama")) == "ollama:llama3"
    assert prices.name(call(model="other", provider="groq")) == "groq:other"
    assert prices.price("groq:other") is None


def test_a_model_without_a_price_is_named_with_what_to_write():
    names = ["openai:gpt-4o-mini", "ollama:llama3"]
    judge = JudgeSettings(models=tuple(names), budget_usd=1.0)
    (problem,) = price_problems(judge)
    assert problem.where == "judge.prices"
    assert '"ollama:llama3"' in problem.what
    written = problem.what[problem.what.index("prices: ") :]
    import yaml

    prices = yaml.safe_load(written)["prices"]
    assert price_problems(msgspec.structs.replace(judge, prices=prices)) == []


def test_a_model_with_two_names_needs_one_price():
    judge = JudgeSettings(
        models=("openai:own", "openai-chat:own"),
        budget_usd=1.0,
        prices={"openai:own": {"input": 1.0, "output": 2.0}},
    )
    assert price_problems(judge) == []


def test_an_hour_that_is_dearer_counts():
    from datetime import UTC, datetime, timedelta

    from genai_prices.data_snapshot import get_snapshot

    _, info = get_snapshot().find_provider_model("deepseek-chat", None, "deepseek", None)
    now = datetime.now(tz=UTC)
    dearest = max(info.get_prices(now + timedelta(hours=hour)).output_mtok for hour in range(24))
    found = Prices(["deepseek:deepseek-chat"], {}).price("deepseek:deepseek-chat")
    assert found.output.at(0) == pytest.approx(float(dearest) / 1e6)
