"""Fields: times in all their spellings, keys in both cases, texts that hold JSON."""

import pytest

from trivium.traces.readers.json_input import count, decoded, moment, snake

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


def test_a_count_is_a_number_that_can_be_one():
    assert [count(value) for value in (3, 3.0, 0)] == [3, 3, 0]
    assert [count(value) for value in (-1, True, "3", None, float("nan"), 1e300)] == [None] * 6


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
