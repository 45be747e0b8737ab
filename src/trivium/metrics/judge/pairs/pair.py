"""Pair: two attempts at the same case, in the order in which a judge is shown them."""

from trivium.agents.attempt import Attempt
from trivium.metrics.metric import Subject


class Pair(Subject, frozen=True, kw_only=True):
    """A subject of two attempts: ``attempt`` is shown first, ``second`` after it."""

    second: Attempt
