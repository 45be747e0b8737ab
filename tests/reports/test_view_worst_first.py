import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import samples
from trivium.metrics.evaluation import Composite
from trivium.reports.view import worst_first


def made(*, error=None, passed=None, value=None):
    view = samples.view(0)
    return msgspec.structs.replace(
        view,
        attempt=msgspec.structs.replace(view.attempt, error=error),
        passed=passed,
        composite=Composite(value=value),
    )


def test_failed_attempts_come_before_those_that_did_not_pass_before_those_that_did():
    worst = made(error="boom", value=0.9)
    failed = made(passed=False, value=0.8)
    undecided = made(passed=None, value=0.1)
    passed = made(passed=True, value=0.0)
    assert sorted([passed, undecided, failed, worst], key=worst_first) == [worst, failed, undecided, passed]


@given(st.floats(0, 1), st.floats(0, 1))
def test_of_two_with_the_same_verdict_the_lower_composite_comes_first(one, other):
    views = [made(passed=False, value=one), made(passed=False, value=other)]
    assert min(views, key=worst_first).composite.value == min(one, other)


def test_no_composite_comes_last_of_its_verdict():
    views = [made(passed=False, value=None), made(passed=False, value=1.0)]
    assert sorted(views, key=worst_first) == views[::-1]
