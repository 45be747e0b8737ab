"""The converter under test: every question a test of its own, and the whole held against a bar.

``pytest examples/converter``; add ``-n 4`` for four workers, ``--trivium-compare previous`` to compare it to
an older run.
"""

import pytest
from agent import convert

pytestmark = pytest.mark.trivium("suite.yaml", agent=convert)


def test_it_converts(trivium_attempt):
    """One question."""
    assert trivium_attempt.passed


def test_it_is_right_nearly_always(trivium_run):
    """All questions: the bar must lie below the whole interval, not only below the mean."""
    assert trivium_run["pass_rate"] >= 0.8
    trivium_run.require_gates()
