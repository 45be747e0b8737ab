"""Latency, tokens and cost of the agent itself, beside NumPy's quantiles and genai-prices."""

import json
from datetime import UTC, datetime

import msgspec
import numpy as np
import pytest
from genai_prices import Usage as ListedUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from trivium.agents.attempt import Attempt, Usage
from trivium.number_buffer import BLOCK, NumberBuffer
from trivium.reports.wording import agent_line
from trivium.runs.costs import AgentTally, quantile
from trivium.store.store import Store
from trivium.traces.trace import Span, SpanUsage, Trace


def attempt(*, seconds=None, usage=None, error=None, requests=()):
    spans = tuple(
        Span(id=str(index), kind="llm", name=model, usage=used)
        for index, (model, used) in enumerate(requests)
    )
    trace = Trace(trace_id="t", spans=spans) if requests else None
    return Attempt(case="q", seconds=seconds, usage=usage, error=error, trace=trace)


def totals(*attempts):
    tally = AgentTally()
    for each in attempts:
        tally.add(each)
    return tally.totals()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(1, 100))
def test_quantiles_are_those_of_numpy_by_nearest_rank(values, percent):
    numbers = NumberBuffer("d")
    numbers.extend(values)
    assert quantile(numbers, percent) == np.quantile(values, percent / 100, method="inverted_cdf")


@pytest.mark.parametrize("percent", [1, 50, 95, 100])
def test_quantiles_of_more_numbers_than_are_kept_in_memory_are_those_of_numpy(percent):
    values = np.random.default_rng(1).exponential(size=3 * BLOCK + 1).round(4)
    numbers = NumberBuffer("d")
    numbers.extend(values)
    assert quantile(numbers, percent) == np.quantile(values, percent / 100, method="inverted_cdf")


def test_no_latency_has_no_quantile():
    found = totals(attempt(), attempt(seconds=float("nan")), attempt(seconds=-1.0))
    assert (found.timed, found.latency_p50, found.latency_p95, found.latency_method) == (0, None, None, None)


def test_latencies_tokens_costs_and_failures_are_summed():
    found = totals(
        attempt(seconds=1.0, usage=Usage(input_tokens=10, output_tokens=1, cost_usd=0.5)),
        attempt(seconds=3.0, usage=Usage(input_tokens=20, output_tokens=2, cost_usd=0.25)),
        attempt(seconds=2.0, error="it broke"),
    )
    assert (found.attempts, found.failures, found.timed) == (3, 1, 3)
    assert (found.latency_p50, found.latency_p95, found.latency_method) == (2.0, 3.0, "nearest rank")
    assert (found.input_tokens, found.output_tokens, found.with_tokens) == (30, 3, 2)
    assert (found.cost_usd, found.with_cost, found.priced) == (0.75, 2, 0)


def test_tokens_that_nobody_reports_are_unknown_and_not_zero():
    found = totals(attempt(seconds=1.0))
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (None, None, None)


def test_without_usage_the_model_requests_of_the_trace_count_at_their_listed_price():
    used = SpanUsage(input_tokens=12_000, output_tokens=3_000)
    found = totals(attempt(requests=[("gpt-4o-mini", used), ("gpt-4o-mini", used)]))
    listed = calc_price(
        ListedUsage(input_tokens=12_000, output_tokens=3_000),
        model_ref="gpt-4o-mini",
        genai_request_timestamp=datetime.now(tz=UTC),
    )
    assert (found.input_tokens, found.output_tokens) == (24_000, 6_000)
    assert found.cost_usd == pytest.approx(2 * float(listed.total_price))
    assert (found.with_cost, found.priced) == (1, 1)


def test_cached_tokens_cost_what_genai_prices_says_and_audio_without_a_price_makes_it_at_least():
    tokens = {"input_tokens": 12_000, "output_tokens": 3_000, "cache_read_tokens": 10_000}
    listed = float(calc_price(ListedUsage(**tokens), model_ref="gpt-4o-mini").total_price)
    found = totals(attempt(requests=[("gpt-4o-mini", SpanUsage(**tokens))]))
    assert (found.cost_usd, found.partly) == (pytest.approx(listed), 0)
    audio = SpanUsage(**tokens | {"input_tokens": 12_500}, input_audio_tokens=500)
    found = totals(attempt(requests=[("gpt-4o-mini", audio)]))
    assert (found.cost_usd, found.partly) == (pytest.approx(listed), 1)
    assert "at least $" in agent_line(found)


def test_one_request_of_unknown_price_leaves_the_cost_of_its_attempt_unknown():
    used = SpanUsage(input_tokens=10, output_tokens=3)
    found = totals(attempt(requests=[("gpt-4o-mini", used), ("a model of our own", used)]))
    assert (found.input_tokens, found.cost_usd) == (20, None)


def test_a_reported_cost_is_preferred_to_a_listed_price():
    used = SpanUsage(input_tokens=10, output_tokens=3, cost_usd=7.0)
    found = totals(attempt(requests=[("gpt-4o-mini", used)]))
    assert (found.cost_usd, found.priced) == (7.0, 0)


@pytest.mark.parametrize("order", [1, -1], ids=["in suite order", "backwards"])
def test_a_run_has_the_same_totals_whether_read_from_the_store_or_not(tmp_path, order):
    rows = [
        {"case": f"q{number}", "output": "a", "seconds": number + 0.5, "usage": {"input_tokens": number}}
        for number in range(40)
    ]
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[::order]))
    cases = [{"id": f"q{number}", "input": "?", "references": ["a"]} for number in range(40)]
    with Store(str(tmp_path / "store.db")) as store:
        run = tv.evaluate(cases, outputs=str(path), metrics=["jaccard"], store=store)
        assert run.record.summary["agent"]["latency_p95"] == 37.5
        assert run.record.summary["agent"]["input_tokens"] == sum(range(40))
        assert msgspec.to_builtins(run.summary().agent) == run.record.summary["agent"]
