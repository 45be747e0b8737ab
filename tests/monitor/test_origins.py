"""The origin of a drop is the part that fell, not one that was always weak or is everywhere."""

from math import sqrt

import numpy as np
import pytest
from msgspec.structs import replace

from tests.monitor.samples import BEGIN, sample
from trivium.monitor.alerting.origins import explained, onset, origin_of
from trivium.trust.weighted_means import WeightedMean, least_sum

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
    order = np.random.default_rng(3).permutation(len(samples))
    mixed = [replace(samples[place], time=BEGIN + n) for n, place in enumerate(order)]
    assert origin_of(mixed, "pass_rate", ("tool",), expected=0.95).value == "c"


def test_a_part_is_explained_if_it_is_fine_without_the_origin():
    samples = [sample(n, n % 2 == 0, agent="x", tool="a" if n % 2 else "b") for n in range(100)]
    assert explained(samples, "pass_rate", ("agent", "x"), ("tool", "a"), 0.85)
    assert not explained(samples, "pass_rate", ("agent", "x"), ("tool", "b"), 0.85)
    assert explained(samples, "pass_rate", ("agent", "x"), None, 0.85)


def versions(rate_of, *, number=300, seed=5):
    """Samples of versions; ``rate_of`` gives version and pass rate at a place."""
    rng = np.random.default_rng(seed)
    found = []
    for n in range(number):
        version, rate = rate_of(n, rng)
        tool = "track" if rng.random() < 0.5 else "price"
        found.append(sample(n, bool(rng.random() < rate), version=version, tool=tool, model="large"))
    return found


def cause_of(samples, **options):
    return origin_of(samples, "pass_rate", ("tool", "model", "version"), expected=0.85, **options)


def test_a_version_that_replaced_another_is_named_though_nothing_runs_beside_it():
    found = cause_of(versions(lambda n, _: ("1.4", 0.96) if n < 200 else ("1.5", 0.4)))
    assert (found.facet, found.value, found.new, found.others) == ("version", "1.5", True, None)
    assert found.before == pytest.approx(0.96, abs=0.04)
    assert found.since == BEGIN + 200 * 60


def test_a_version_beside_others_is_named_and_they_are_unchanged():
    def rate_of(n, rng):
        return ("1.5", 0.4) if n >= 100 and rng.random() < 0.4 else ("1.4", 0.96)

    found = cause_of(versions(rate_of))
    assert (found.value, found.others_fell) == ("1.5", False)
    assert found.before == pytest.approx(0.96, abs=0.05)
    assert found.others == pytest.approx(found.others_before, abs=0.05)


def test_what_falls_half_way_in_the_life_of_a_version_is_not_its_cause():
    """All traffic fell at 200; the version had replaced the other one at 80."""
    assert cause_of(versions(lambda n, _: ("1.4" if n < 80 else "1.5", 0.96 if n < 200 else 0.4))) is None


def test_a_cause_that_moves_is_named_again():
    steps = (("1.4", 0.96), ("1.5", 0.4), ("1.6", 0.3))
    samples = versions(lambda n, _: steps[n // 150], number=450)
    first = cause_of(samples)
    rest = [each for each in samples if first.value not in each.facets[first.facet]]
    assert {first.value, cause_of(rest).value} == {"1.5", "1.6"}


def test_of_confounded_parts_the_one_that_fails_without_the_other_is_named():
    """Version 1.5 fails, and mostly calls a tool that is fine where other versions call it."""
    rng = np.random.default_rng(8)
    samples = []
    for n in range(500):
        version = "1.5" if rng.random() < 0.4 else "1.4"
        tool = "export" if rng.random() < (0.85 if version == "1.5" else 0.15) else "search"
        rate = 0.96 if version == "1.4" or n < 100 else 0.4
        samples.append(sample(n, bool(rng.random() < rate), version=version, tool=tool))
    found = cause_of(samples)
    assert (found.value, found.likewise) == ("1.5", ())


def test_parts_in_the_same_samples_cannot_be_told_apart():
    samples = traffic({"a": (0.98, 0.4), "b": (0.98, 0.98)})
    found = origin_of(samples, "pass_rate", FACETS, expected=0.85)
    assert (found.part, found.likewise) == (("agent", "of a"), (("tool", "a"),))


def test_a_part_is_named_by_chance_no_more_often_than_is_asked():
    """A hundred streams in which all parts fall alike: at most what alpha = 0.05 gives in 95 % of times."""
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng([9, seed])
        rate = np.where(np.arange(200) < 100, 0.96, 0.5)
        passed, tools = rng.random(200) < rate, rng.integers(6, size=200)
        stream = [
            sample(n, bool(passed[n]), tool=f"{tools[n]}", version=f"{n % 3}", agent="a") for n in range(200)
        ]
        wrong += cause_of(stream) is not None
    assert wrong <= 9


def wilson(passed, n):
    """Wilson's interval of 95 %."""
    z = 1.959964
    middle, half = passed + z**2 / 2, z * sqrt(passed * (n - passed) / n + z**2 / 4)
    ends = {"low": (middle - half) / (n + z**2), "high": (middle + half) / (n + z**2)}
    return WeightedMean(
        mean=passed / n, effective_n=n, level=0.95, method="", n=n, groups=n, std_error=0.0, **ends
    )


def test_the_bound_of_a_difference_is_the_published_one():
    """Newcombe 1998, method 10, example (a): 56/70 - 48/80 has the limits 0.0524 and 0.3339."""
    one, other = wilson(56, 70), wilson(48, 80)
    assert least_sum([one], [other]) == pytest.approx(0.0524, abs=5e-5)
    assert -least_sum([other], [one]) == pytest.approx(0.3339, abs=5e-5)
