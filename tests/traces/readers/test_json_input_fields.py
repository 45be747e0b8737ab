"""Fields: times in all their spellings, keys in both cases, texts that hold JSON."""

import pytest

from trivium.traces.readers.json_input import decoded, dollars, moment, read_usage, seconds, snake
from trivium.traces.trace import SpanUsage

SECONDS = 1_772_489_061.25  # 2026-03-02T22:04:21.250Z, by the calendar of GNU date


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-02 22:04:21.250000+00:00",
        "2026-03-02T22:04:21.25Z",
        "2026-03-02T22:04:21.250",
        "2026-03-02T23:04:21.250+01:00",
        SECONDS,
        1_772_489_061_250,
        "1772489061250000000",
        1_772_489_061_250_000,
    ],
)
def test_a_time_is_read_in_every_spelling(value):
    assert moment(value) == pytest.approx(SECONDS, abs=1e-6)


@pytest.mark.parametrize(
    "value",
    [None, 0, "0", "²", 0.0, "", "soon", "0001-01-01T00:00:00Z", True, [], {}, -1, 10**400, "9" * 5000],
)
def test_what_is_no_time_is_none(value):
    assert moment(value) is None


def test_the_dates_of_http_headers_are_read():
    assert moment("Mon, 02 Mar 2026 22:04:21 GMT") == SECONDS - 0.25
    assert moment("Mon, nonsense") is None


def test_seconds_are_numbers_or_dates():
    assert seconds("1970-01-01T00:01:00+00:00") == 60.0
    assert seconds("1970-01-01T00:01:00") == 60.0
    assert seconds(3) == 3.0
    assert [seconds(value) for value in ("soon", True, None, [], 10**400)] == [None] * 5


def test_a_cost_of_nothing_means_that_no_price_is_known():
    assert [dollars(value) for value in (0.5, "0.5", 2)] == [0.5, 0.5, 2.0]
    assert [dollars(value) for value in (0, "0", -1, "free", "nan", True, None, 1e12)] == [None] * 8


@pytest.mark.parametrize(
    ("fields", "cost", "usage"),
    [
        (
            {"input_tokens": 1, "output_tokens": 2, "prompt_tokens": 9},
            0.5,
            SpanUsage(input_tokens=1, output_tokens=2, cost_usd=0.5),
        ),
        ({"input_tokens": None, "promptTokens": "9"}, None, SpanUsage(input_tokens=9)),
        ({"input": -1, "completion": True}, 0.5, SpanUsage(cost_usd=0.5)),
        ({"total": 3}, None, None),
    ],
)
def test_tokens_are_those_of_the_first_key_that_holds_a_count(fields, cost, usage):
    assert read_usage(fields, cost=cost) == usage


def test_json_in_a_text_is_decoded_up_to_twice():
    assert decoded('"{\\"a\\": [1]}"') == {"a": [1]}
    assert decoded("[1") == "[1"
    assert decoded("plain") == "plain"
    assert decoded('"' + "\\" * 3) == '"' + "\\" * 3
    assert decoded(3) == 3


def test_keys_are_read_in_both_cases():
    assert snake({"spanId": 1, "trace_id": 2, "traceId": 3}) == {"span_id": 1, "trace_id": 2}
    plain = {"span_id": 1}
    assert snake(plain) is plain
