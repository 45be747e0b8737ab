"""The loopback provider limits its rate, fails in shares and serves many at once, as it was told."""

import itertools
import socket
from collections import Counter

import httpx
from hypothesis import given
from hypothesis import strategies as st

from tests.judge_server import (
    ANSWER,
    HANG,
    Conditions,
    JudgeServer,
    Question,
    failure,
    faults,
)
from tests.judge_server.conditions import Gate


def test_requests_beyond_the_allowed_rate_are_refused_with_a_retry_time():
    hourly = Conditions(rate=1 / 3600, burst=2, retry_after="whole")
    with JudgeServer(conditions=hourly) as server:
        met = [httpx.post(f"{server.openai_url}/chat/completions", json={}) for _ in range(4)]
    assert [response.status_code for response in met] == [200, 200, 429, 429]
    assert [3500 < int(response.headers["retry-after"]) <= 3600 for response in met[2:]] == [True, True]
    assert server.counts == {"requests": 4, "answer": 2, "answered": 2, "over_rate": 2}


@given(
    st.lists(st.floats(0, 0.2), min_size=1, max_size=200),
    st.integers(1, 30),
    st.integers(1, 10),
    st.sampled_from(["bucket", "window"]),
)
def test_no_second_lets_more_through_than_the_rate_and_the_burst(pauses, rate, burst, limit):
    gate, conditions = Gate(), Conditions(rate=rate, burst=burst, limit=limit)
    times = list(itertools.accumulate(pauses))
    passed = [now for now in times if gate.wait(conditions, now) == 0.0]
    allowed = rate + (burst if limit == "bucket" else 0)
    assert all(sum(start <= now < start + 1 for now in passed) <= allowed + 1e-6 for start in passed)


def test_a_request_passes_after_the_stated_wait():
    for limit in ("bucket", "window"):
        gate, conditions = Gate(), Conditions(rate=2, limit=limit)
        times = [gate.wait(conditions, 10.0) for _ in range(4)]
        assert times[0] == 0.0
        assert times[-1] > 0
        assert gate.wait(conditions, 10.0 + times[-1] * 0.99) > 0
        assert gate.wait(conditions, 10.0 + times[-1] + 1e-9) == 0.0


def test_the_conditions_change_after_the_given_number_of_answers():
    bad = Conditions(plan=lambda question: failure(503))
    with JudgeServer(changes={3: bad}) as server:
        url = f"{server.openai_url}/chat/completions"
        met = [httpx.post(url, json={}).status_code for _ in range(5)]
        server.conditions = Conditions()
        met.append(httpx.post(url, json={}).status_code)
    assert met == [200, 200, 200, 503, 503, 200]


def test_faults_come_in_their_shares_and_the_same_for_the_same_seed():
    def drawn(seed, **options):
        plan = faults(rate_limited=0.1, server_error=0.05, malformed=0.02, hang=0.01, seed=seed, **options)
        return [plan(asked(number, f"prompt {number % 10}")) for number in range(4000)]

    def asked(number, prompt):
        body = {"messages": [{"role": "user", "content": prompt}]}
        return Question(number=number, path="", headers={}, body=body, time=0.0, api="chat")

    first = drawn(1)
    assert first == drawn(1)
    assert first != drawn(2)
    share = Counter((reaction.kind, reaction.status) for reaction in first)
    # Five standard errors of a share of 4,000.
    for wanted, found in [
        (0.1, share["failure", 429]),
        (0.05, share["failure", 500]),
        (0.02, share["malformed", 200]),
        (0.01, share["hang", 200]),
    ]:
        assert abs(found / 4000 - wanted) < 5 * (wanted * (1 - wanted) / 4000) ** 0.5
    by_prompt = drawn(5, by="prompt")
    assert by_prompt == by_prompt[:10] * 400


def test_many_are_served_at_once_and_those_who_leave_are_counted():
    def hang_where_told(question):
        return HANG if "x-hang" in question.headers else ANSWER

    request = b"POST /v1/chat/completions HTTP/1.1\r\nx-hang: 1\r\ncontent-length: 2\r\n\r\n{}"
    with JudgeServer(latency=0.05, plan=hang_where_told) as server:
        address = ("127.0.0.1", server.port)
        with socket.create_connection(address) as first, socket.create_connection(address) as second:
            first.sendall(request)
            second.sendall(request)
            assert httpx.post(f"{server.openai_url}/chat/completions", json={}).status_code == 200
        assert server.peak_in_flight == 3
    assert server.in_flight == 0
    assert server.counts["abandoned"] == 2
