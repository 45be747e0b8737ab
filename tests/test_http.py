"""The wait that a server asks for, waits between tries, and the statuses after which one is worth it."""

import http.client
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trivium.http import Backoff, is_retryable_status, retry_after_seconds

NOW = datetime(1994, 11, 6, 8, 49, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "date",
    [  # RFC 9110, section 5.6.7: the three forms of one date, and a zone, which other software writes
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 10:49:37 +0200",
    ],
)
def test_every_form_of_a_date_is_read(date):
    assert retry_after_seconds({"retry-after": date}, now=NOW) == 37.0


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2060, 1, 1)), st.floats(0, 3e9))  # noqa: DTZ001
def test_a_date_is_the_time_from_now_until_then(then, now):
    then = then.replace(microsecond=0, tzinfo=UTC)
    header = format_datetime(then, usegmt=True)
    assert retry_after_seconds({"retry-after": header}, now=now) == max(0.0, then.timestamp() - now)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({}, None),
    ],
)
def test_seconds_are_read_with_fractions_and_milliseconds(headers, seconds):
    assert retry_after_seconds(headers) == seconds


@given(st.text(max_size=40))
@example("Mon, 01 Jan 0001 00:00:00 +2359")
@example("Mon, 01 Jan 2024 00:00:00 +99999999999999")
@example("Mon, 01 Jan 99999999999999999999 00:00:00 GMT")
@example("9" * 400)
def test_no_header_raises(text):
    wait = retry_after_seconds({"retry-after": text, "retry-after-ms": text})
    assert wait is None or wait >= 0


@pytest.mark.parametrize("header", ["soon", "-5", "1e5", "nan", "inf", "", "Mon, 99 Foo"])
def test_what_is_no_time_is_ignored(header):
    assert retry_after_seconds({"retry-after": header}) is None


@given(st.integers(1, 2000), st.integers())
def test_waits_grow_to_the_longest_within_their_jitter(tries, seed):
    backoff = Backoff(first=0.5, longest=30.0)
    full = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0][min(tries, 7) - 1]
    assert backoff.seconds(tries) == full
    assert full / 2 <= backoff.seconds(tries, rng=Random(seed)) <= full
    assert backoff.seconds(tries, asked_for=99.0, rng=Random(seed)) == 99.0


def test_a_busy_or_failing_server_is_worth_a_retry():
    retried = {int(status) for status in http.client.responses if is_retryable_status(status)}
    below_500 = {status for status in retried if status < 500}
    assert below_500 == {
        http.client.REQUEST_TIMEOUT,
        http.client.TOO_EARLY,
        http.client.TOO_MANY_REQUESTS,
    }
    assert retried - below_500 == {status for status in http.client.responses if status >= 500}
