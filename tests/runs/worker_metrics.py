"""Metrics that fail in their own ways, for tests of several processes. Named by their path only."""

import os
import time
from pathlib import Path

from trivium.metrics.metric import Metric, MetricInput, Score
from trivium.metrics.registry import REGISTERED, metric

FATAL = {"10"}
"""Cases that end the process that scores them."""


@metric("deadly")
class Deadly(Metric):
    """Ends the process for some cases."""

    def score(self, metric_input: MetricInput) -> Score:
        if metric_input.case.id in FATAL:
            os._exit(9)
        return self.ok(1.0)


@metric("noisy")
class Noisy(Metric):
    """Fails for one case, which is logged."""

    def score(self, metric_input: MetricInput) -> Score:
        if metric_input.case.id == "3":
            raise RuntimeError("no luck")
        return self.ok(1.0)


@metric("slow")
class Slow(Metric):
    """Takes longer than any test."""

    def score(self, metric_input: MetricInput) -> Score:
        time.sleep(600)
        return self.ok(1.0)


@metric("patient")
class Patient(Metric):
    """Says that its process has begun, and then waits until the working folder has a file ``go``."""

    def score(self, metric_input: MetricInput) -> Score:
        Path(f"began-{os.getpid()}").touch()
        while not Path("go").exists():
            time.sleep(0.01)
        return self.ok(1.0)


@metric("place")
class Place(Metric):
    """States the process that computed it."""

    def score(self, metric_input: MetricInput) -> Score:
        return self.ok(None, raw=os.getpid())


@metric("here")
class Here(Place):
    """A test makes it one of a notebook."""


@metric("after_clarity", needs=("clarity",))
class AfterClarity(Metric):
    """Takes over a judgement, and states the process that did so."""

    def score(self, metric_input: MetricInput) -> Score:
        return self.ok(metric_input.scores["clarity"].value, raw=os.getpid())


# Suites of other tests that name no metrics are scored by all that there are.
for each in (AfterClarity, Deadly, Here, Noisy, Patient, Place, Slow):
    del REGISTERED[each.name]
