import msgspec

from tests.reports import samples
from trivium.metrics.metric import Score


def failed(**changes):
    return msgspec.structs.replace(samples.view(0), passed=False, **changes)


def test_the_reason_of_a_failed_attempt_is_its_error():
    assert samples.view(6).reason == "TimeoutError: gave up after 600 s"


def test_what_whoever_made_the_view_knows_comes_first():
    assert failed(why="too short").reason == "too short"


def test_else_a_score_in_error_is_the_reason():
    scores = {"x": Score(name="x", tier="text", status="error", reason="division by zero")}
    assert failed(scores=scores).reason == "x: division by zero"


def test_else_what_the_success_score_says():
    scores = {"success": Score(name="success", tier="text", value=0.0, reason="regex not found")}
    assert failed(scores=scores).reason == "regex not found"
    assert failed(scores={}).reason is None


def test_what_passed_needs_no_reason():
    assert msgspec.structs.replace(samples.view(0), passed=True).reason is None
