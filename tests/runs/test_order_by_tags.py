"""Groups are asked in random order, each tag in about its share from the beginning."""

from collections import Counter
from math import exp, log

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from trivium.errors import OutputsError
from trivium.runs.pipeline import NoProgress
from trivium.runs.summarize import summarise
from trivium.runs.until_decided.difference import Difference
from trivium.runs.until_decided.gates import Gates
from trivium.runs.until_decided.order import GroupOrder, place_of
from trivium.suites.settings import Gate, Settings

MIXED = {"a": 50, "b": 30, "c": 20}


def tagged(sizes):
    return {f"{tag}{i}": frozenset({tag}) for tag, size in sizes.items() for i in range(size)}


@pytest.mark.parametrize("run", range(20))
def test_every_beginning_holds_each_tag_in_about_its_share(run):
    order = GroupOrder(f"run {run}", tagged(MIXED))
    assert sorted(order.names) == sorted(tagged(MIXED))
    for t in range(1, 101):
        seen = Counter(name[0] for name in order.names[:t])
        assert all(abs(seen[tag] - t * size / 100) <= 2 for tag, size in MIXED.items())
    assert max(order.handicaps[20:]) < 0.2
    assert order.handicaps[-1] == pytest.approx(0, abs=1e-9)


def test_without_tags_and_with_rare_ones_the_order_is_random_alone():
    for tags in (dict.fromkeys(map(str, range(60)), frozenset()), tagged({f"t{i}": 5 for i in range(12)})):
        order = GroupOrder("run", tags)
        assert order.names == sorted(tags, key=lambda name: place_of("run", name))
        assert set(order.handicaps) == {0.0}


@given(st.lists(st.floats(0.05, 3), min_size=3, max_size=3), st.integers(0, 50))
def test_no_means_of_the_strata_let_expect_more_than_the_handicap(factors, run):
    order = GroupOrder(f"run {run}", tagged(MIXED))
    mean = sum(factor * size / 100 for factor, size in zip(factors, MIXED.values(), strict=True))
    expected = dict(zip(MIXED, (factor / mean for factor in factors), strict=True))
    capital = 0.0
    for name, handicap in zip(order.names, order.handicaps, strict=True):
        capital += log(expected[name[0]])
        assert exp(capital) <= exp(handicap) + 1e-9


MEANS = [
    {"a": 0.5, "b": 0.5, "c": 0.5},
    {"a": 1.0, "b": 0.0, "c": 0.0},
    {"a": 0.1, "b": 0.85, "c": 0.975},
    {"a": 0.375, "b": 0.375, "c": 1.0},
]


@pytest.mark.parametrize("means", MEANS, ids=str)
def test_wrong_decisions_are_rare_at_the_limit_whatever_the_means_of_the_strata(means):
    """The mean over all is the limit, so either answer counts as wrong."""
    assert sum(means[tag] * size for tag, size in MIXED.items()) == pytest.approx(50)
    rng, worlds, wrong = np.random.default_rng(2), 60, 0
    settings = Settings(gates={"a": Gate(at_least=0.5)}, until_decided=True)
    for world in range(worlds):
        order = GroupOrder(f"run {world}", tagged(MIXED))
        gates = Gates(settings, [1] * 100)
        for name, handicap in zip(order.names, order.handicaps, strict=True):
            value = float(rng.random() < means[name[0]])
            gates.bet([{"a": (value, value)}], handicap=handicap)
            if gates.decided:
                wrong += 1
                break
    assert wrong <= 0.05 * worlds + 2.6 * np.sqrt(worlds * 0.05 * 0.95)


@pytest.mark.parametrize(("mean", "wrong"), [(0.0, "fail"), (-0.1, "pass")])
def test_wrong_comparisons_are_rare_although_one_tag_gains_and_another_loses(mean, wrong):
    rng, worlds, count = np.random.default_rng(4), 50, 0
    of_tag = {"a": mean + 0.3, "b": mean - 0.5, "c": mean}
    for world in range(worlds):
        order = GroupOrder(f"run {world}", tagged(MIXED))
        test = Difference(margin=0.1, level=0.95, largest=1)
        for name, handicap in zip(order.names, order.handicaps, strict=True):
            value = 1.0 if rng.random() < (1 + of_tag[name[0]]) / 2 else -1.0
            test.bet([value], [value], handicap=handicap)
            if test.decided:
                break
        count += test.answer == wrong
    assert count <= 0.05 * worlds + 2.6 * np.sqrt(worlds * 0.05 * 0.95)


class Stops(NoProgress):
    """Ends the run once, after some attempts."""

    run, done = "", 0

    def begin(self, *, run, total, already):
        self.run = run

    def advance(self, *, done, failed):
        self.done += done
        if self.done >= 6:
            raise OutputsError("", "stopped")


def test_a_run_asks_by_tags_and_an_interrupted_one_goes_on_in_its_order(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    cases = [
        {"id": f"c{i}", "input": f"q{i}", "references": ["yes"], "tags": ["hard" if i % 4 == 0 else "easy"]}
        for i in range(200)
    ]
    suite = {"name": "tags", "metrics": ["success"], "success": {"exact": True}, "cases": cases}
    suite |= {"gates": {"success": {"at_least": 0.7}}, "until_decided": True}
    suite["limits"] = {"attempts_at_once": 1}
    stops = Stops()
    with pytest.raises(OutputsError, match="stopped"):
        tv.evaluate(suite, agent=lambda question: "yes", store=url, progress=stops)
    run = tv.evaluate(suite, agent=lambda question: "yes", store=url, resume=stops.run)
    asked = [int(attempt.case[1:]) for attempt in run.attempts()]
    order = GroupOrder(run.id, {each["id"]: frozenset(each["tags"]) for each in cases})
    assert {f"c{i}" for i in asked} == set(order.names[: len(asked)])
    assert abs(sum(i % 4 == 0 for i in asked) - len(asked) / 4) <= 2
    assert run.summary().gates[0].answer == "pass"
    with tv.Store(url) as store:
        again = summarise(store, store.run(run.id))
    assert msgspec.to_builtins(again) == msgspec.to_builtins(run.summary())
