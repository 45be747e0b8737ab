"""One job in the vocabulary of each framework: the same question, answer, requests and calls."""

import pytest

from tests.traces.opentelemetry.frameworks import ANSWER, QUESTION, RECORDED
from trivium.traces.outcome import input_of, output_of
from trivium.traces.readers import read_trace


def read(framework):
    return read_trace(RECORDED[framework](), "otlp")


@pytest.mark.parametrize("framework", [name for name in RECORDED if name != "google_adk"])
def test_the_question_and_the_answer_are_found_where_the_framework_puts_them(framework):
    trace = read(framework)
    assert (input_of(trace), output_of(trace)) == (QUESTION, ANSWER)


def test_contents_that_are_not_recorded_are_none():
    trace = read("google_adk")
    assert (input_of(trace), output_of(trace)) == (None, None)
