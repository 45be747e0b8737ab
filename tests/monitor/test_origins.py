"""The origin of a drop is the part that fell, not one that was always weak or is everywhere."""

import numpy as np

from tests.monitor.samples import BEGIN, sample
from trivium.monitor.alerting.origins import explained, onset, origin_of

FACETS = ("agent", "tool", "model")


def traffic(rates, *, number=400, fall=200, seed=2):
    """Samples whose pass rate depends on their tool, before and after a fall."""
    rng = np.random.default_rng(seed)
    tools = list(rates)
    found = []
    for n in range(number):
        tool = tools[int(rng.integers(len(tools)))]
        rate = rates[tool][n >= fall]
        found.append(sample(n, bool(rng.random() < rate), tool=tool, model="one", agent=f"of {tool}"))
    return found


def test_the_onset_of_a_fall_is_found():
    samples = traffic({"a": (0.98, 0.4), "b": (0.98, 0.98)})
    assert abs(onset(samples, "pass_rate") - 200) < 20


def test_without_a_fall_there_is_no_onset():
    assert onset(traffic({"a": (0.5, 0.5)}), "pass_rate") == 0
    assert onset([], "pass_rate") == 0


def test_what_fell_is_named_and_not_what_was_always_weak():
    rates = {"weak": (0.5, 0.5), "fallen": (0.99, 0.55), "fine": (0.99, 0.99)}
    samples = traffic(rates, number=1200, fall=600)
    found = origin_of(samples, "pass_rate", ("tool",), expected=0.85)
    assert found.value == "fallen"
    assert found.before > 0.95
    assert abs(found.since - (BEGIN + 600 * 60)) < 100 * 60


def test_what_is_everywhere_explains_nothing():
    samples = traffic({"a": (0.98, 0.4), "b": (0.98, 0.98)})
    assert origin_of(samples, "pass_rate", ("model",), expected=0.85) is None


def test_of_two_parts_that_explain_as_much_the_first_facet_is_named():
    samples = traffic({"a": (0.98, 0.4), "b": (0.98, 0.98)})
    assert origin_of(samples, "pass_rate", FACETS, expected=0.85).facet == "agent"
    assert origin_of(samples, "pass_rate", ("tool", "agent"), expected=0.85).facet == "tool"


def test_a_drop_of_everything_comes_from_everywhere():
    samples = traffic({"a": (0.98, 0.5), "b": (0.98, 0.5)})
    assert origin_of(samples, "pass_rate", FACETS, expected=0.85) is None


def test_a_part_that_was_bad_from_the_beginning_is_named_too():
    samples = traffic({"a": (0.3, 0.3), "b": (0.97, 0.97)})
    found = origin_of(samples, "pass_rate", ("tool",), expected=0.85)
    assert (found.value, found.since, found.before) == ("a", None, None)


def test_samples_count_by_inverse_probability():
    """Of "a" every failure was taken, of "c" one interaction in a hundred: "c" is most of the drop."""
    samples = [sample(n, passed=False, tool="a", probability=1.0) for n in range(40)]
    samples += [sample(40 + n, n % 2 == 0, tool="c", probability=0.01) for n in range(40)]
    samples += [sample(80 + n, passed=True, tool="b", probability=0.01) for n in range(100)]
    assert origin_of(samples, "pass_rate", ("tool",), expected=0.95).value == "c"


def test_a_part_is_explained_if_it_is_fine_without_the_origin():
    samples = [sample(n, n % 2 == 0, agent="x", tool="a" if n % 2 else "b") for n in range(100)]
    assert explained(samples, "pass_rate", ("agent", "x"), ("tool", "a"), 0.85)
    assert not explained(samples, "pass_rate", ("agent", "x"), ("tool", "b"), 0.85)
    assert explained(samples, "pass_rate", ("agent", "x"), None, 0.85)
