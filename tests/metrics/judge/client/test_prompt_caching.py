"""Anthropic caches what a request marks: the instructions, and a case that several requests show."""

import json

import msgspec
import pytest

from tests.judge_server import JudgeServer
from tests.metrics.judge.asked import ATTEMPT, CASE, CLAUDE, MINI, judged, served
from tests.metrics.judge.budget.calls import reply
from trivium.metrics.judge.budget.prices import Prices
from trivium.metrics.judge.client.wire_formats import read_messages

DIMENSIONS = ("technical_accuracy", "constructiveness")
"""They look at the same texts."""

LONG_ENOUGH = 1.5
"""Seconds within which requests that leave together arrive, however busy the machine is."""


def asked(monkeypatch, metrics=("clarity",), *, model=CLAUDE, cases=1, **judge):
    pairs = [
        (
            msgspec.structs.replace(CASE, id=str(n)),
            msgspec.structs.replace(ATTEMPT, case=str(n), output=f"{n}"),
        )
        for n in range(cases)
    ]
    with served(JudgeServer(**judge.pop("server", {})), monkeypatch) as server:
        judged(metrics, models=[model], pairs=pairs, on_failure="fail", **judge)
    return server


def marked(body):
    """The texts that end at a mark."""
    (message,) = body["messages"]
    blocks = [*body["system"], *message["content"]]
    return [block["text"] for block in blocks if "cache_control" in block]


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
def test_the_instructions_are_marked_and_a_case_that_is_shown_once_is_not(monkeypatch, client):
    server = asked(monkeypatch, cases=3, client=client)
    texts = [marked(each.body) for each in server.requests]
    assert len({json.dumps(each) for each in texts}) == 1
    assert [len(each) for each in texts] == [1, 1, 1]


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
@pytest.mark.parametrize("judge", [{"samples": 2}, {"together": False}], ids=["samples", "dimensions"])
def test_samples_and_dimensions_of_a_case_share_what_is_marked(monkeypatch, client, judge):
    server = asked(monkeypatch, DIMENSIONS, cases=2, client=client, **judge)
    by_case = {}
    for each in server.requests:
        instructions, case = marked(each.body)
        by_case.setdefault(case, []).append(instructions)
    assert len(by_case) == 2
    assert [len(each) for each in by_case.values()] == [2, 2]
    assert len({text for each in by_case.values() for text in each}) == 1


def test_the_first_request_about_a_case_is_answered_before_the_others_leave(monkeypatch):
    seen = []

    def latency(question):
        seen.append(server_of[0].in_flight)
        return 0.0 if len(seen) == 1 else LONG_ENOUGH

    server_of = []
    with served(JudgeServer(latency=latency), monkeypatch) as server:
        server_of.append(server)
        judged(models=[CLAUDE], samples=4, on_failure="fail")
    assert server.peak_in_flight == 3, "the other three together"
    assert seen[1] == 0, "after the first had come back"


def test_providers_that_cache_by_themselves_get_no_marks_and_all_at_once(monkeypatch):
    server = asked(monkeypatch, model=MINI, samples=3, server={"latency": LONG_ENOUGH})
    assert server.peak_in_flight == 3
    assert not any("cache_control" in json.dumps(each.body) for each in server.requests)


def test_what_is_put_into_the_cache_costs_more():
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 1000, "cache_read_input_tokens": 100}
    body = {"content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"}
    read = read_messages(msgspec.json.encode(body | {"usage": usage | {"output_tokens": 5}}))
    assert (read.input_tokens, read.cached_tokens, read.cache_write_tokens) == (1110, 100, 1000)
    given = {CLAUDE: {"input": 1.0, "output": 5.0}}
    cost = Prices([CLAUDE], given).price(CLAUDE).cost(read)
    assert cost == pytest.approx((10 + 100 + 1.25 * 1000 + 5 * 5) / 1e6)
    listed = Prices([CLAUDE], {}).price(CLAUDE)
    dear = msgspec.structs.replace(reply(1000, 0), cache_write_tokens=1000)
    assert listed.cost(dear) == pytest.approx(1.25 * listed.cost(reply(1000, 0)))
    assert listed.max_cost(input_tokens=1000, output_tokens=0) >= listed.cost(dear)
