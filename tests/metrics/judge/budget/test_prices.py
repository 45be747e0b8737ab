"""Tokens cost what the suite says, or what genai-prices says."""

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.judge.budget.calls import call, reply
from trivium.metrics.judge.budget.prices import Prices

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
    (problem,) = Prices(names, {}).problems()
    assert problem.where == "judge.prices"
    assert '"ollama:llama3"' in problem.what
    written = problem.what[problem.what.index("prices: ") :]
    import yaml

    prices = yaml.safe_load(written)["prices"]
    assert Prices(names, prices).problems() == []


def test_an_hour_that_is_dearer_counts():
    from datetime import UTC, datetime, timedelta

    from genai_prices.data_snapshot import get_snapshot

    _, info = get_snapshot().find_provider_model("deepseek-chat", None, "deepseek", None)
    now = datetime.now(tz=UTC)
    dearest = max(info.get_prices(now + timedelta(hours=hour)).output_mtok for hour in range(24))
    found = Prices(["deepseek:deepseek-chat"], {}).price("deepseek:deepseek-chat")
    assert found.output.at(0) == pytest.approx(float(dearest) / 1e6)
