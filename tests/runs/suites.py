"""Small suites, agents and metrics for tests of runs."""

from typing import ClassVar

import trivium as tv
from trivium.metrics.metric import Metric, MetricInput, Score, Skip
from trivium.metrics.registry import REGISTERED
from trivium.suites.settings import PassRule, Settings


@tv.metric("told")
class Told(Metric):
    """The number that the output is."""

    tier: ClassVar = "text"

    def score(self, subject: MetricInput) -> Score:
        if subject.attempt.text == "skip":
            raise Skip("told to skip")
        return self.ok(float(subject.attempt.text))


del REGISTERED["told"]  # named by its path, so that other tests do not see it

TOLD = "tests.runs.suites:Told"


def told_suite(count: int, *, groups: dict[str, str] | None = None, **settings) -> tv.Suite:
    """Cases q0 … whose score is the number that the agent says; passed from 0.5 on."""
    cases = [
        tv.Case(id=f"q{i}", input=f"q{i}", references=("r",), group=(groups or {}).get(f"q{i}"))
        for i in range(count)
    ]
    defaults = {
        "metrics": (TOLD,),
        "passed": PassRule(metric="told", at_least=0.5),
        "composite": tv_composite({"told": 1.0}),
    }
    return tv.Suite(name="told", cases=cases, settings=Settings(**(defaults | settings)))


def tv_composite(weights: dict[str, float], **fields):
    from trivium.suites.settings import CompositeSettings

    return CompositeSettings(weights=weights, **fields)


class Says:
    """An agent that says what a table tells it to, and counts how often it is asked."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, int]] = []

    def __call__(self, question: str, *, repeat: int) -> str:
        self.asked.append((question, repeat))
        answer = self.answers[question]
        if isinstance(answer, list):
            answer = answer[repeat]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)
