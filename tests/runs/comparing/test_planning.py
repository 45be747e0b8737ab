"""Plans of comparisons: from two runs, from one, and what cannot be planned."""

import json

import numpy as np
import pytest

import trivium as tv
from tests.runs.comparing.told_runs import run_of
from tests.runs.suites import told_suite
from trivium.agents.attempt import Usage
from trivium.cli.main import run_command
from trivium.display import as_text
from trivium.errors import ComparisonError
from trivium.trust.clustered import ClusteredMean


def answers(seed, lift=0.0, cases=60, repeats=3):
    rng = np.random.default_rng(seed)
    of_case = np.random.default_rng(0).uniform(0.3, 0.6, cases)
    return [(rng.normal(mean + lift, 0.1, repeats).clip(0, 1)).tolist() for mean in of_case]


def runs(store, **settings):
    settings = {"repeats": 3} | settings
    return tuple(run_of(store, answers(seed, lift), **settings) for seed, lift in ((1, 0.0), (2, 0.02)))


def test_two_runs_plan_with_the_variance_of_their_difference(store):
    base, head = runs(store)
    plan = tv.plan((base, head), detect=0.02, metric="told")
    assert (plan.paired, plan.cases, plan.groups, plan.warnings) == (True, 60, 60, ())
    # Cases differ, but both versions by the same: only repeats make noise in the difference.
    assert plan.components.shares()["repeats"] > 0.8
    assert plan.components.between_repeats == pytest.approx(0.02, rel=0.3)
    assert [design.repeats for design in plan.designs] == [1, 2, 3, 5, 10]
    needed = [design.cases for design in plan.designs]
    assert needed == sorted(needed, reverse=True)
    assert all(low < design.cases < high for design in plan.designs for low, high in [design.cases_range])
    assert plan.designs[2].attempts == 3 * plan.designs[2].cases
    # As large as was planned, the comparison does find it.
    three = plan.designs[2].cases
    rng = np.random.default_rng(5)
    hits = [
        ClusteredMean.of(
            rng.normal(0.02, (0.02 / 3) ** 0.5, three), np.arange(three), kind="difference"
        ).sign_flip_tail()
        <= 0.025
        for _ in range(200)
    ]  # fmt: skip
    assert 0.7 < np.mean(hits) < 0.95


def test_one_run_gives_an_upper_bound_and_says_so(store):
    base, head = runs(store)
    alone, both = (tv.plan(pilot, detect=0.02, metric="told") for pilot in (head, (base, head)))
    assert not alone.paired
    assert "a second run of the suite" in alone.warnings[0]
    assert alone.designs[0].cases > both.designs[0].cases


def test_the_plan_says_which_margin_the_cases_show_and_how_many_the_suites_takes(store):
    plan = tv.plan(runs(store, margin=0.03), detect=0.02, metric="told")
    assert (plan.margin, plan.repeats) == (0.03, 3)
    assert plan.shows > 0.03
    assert plan.shows_margin > 60
    said = (
        f"60 cases with 3 repeats each can prove that a change loses no more than {plan.shows:.2g}; for 0.03"
    )
    assert said in " ".join(as_text(plan).split())
    assert tv.plan(runs(store, margin=0.1), detect=0.02, metric="told").shows_margin < 60


def test_one_run_shows_a_wider_margin(store):
    base, head = runs(store)
    alone, both = (tv.plan(pilot, detect=0.02, metric="told") for pilot in (head, (base, head)))
    assert alone.shows > both.shows
    nothing = tv.plan(run_of(store, answers(1), margin=0, repeats=3), detect=0.02, metric="told")
    assert nothing.shows_margin is None
    assert "for 0 it takes more than can be asked" in " ".join(as_text(nothing).split())


def test_groups_are_counted_and_their_cases_too(store):
    groups = {f"q{i}": f"g{i // 6}" for i in range(60)}
    plan = tv.plan(runs(store, groups=groups), detect=0.02, metric="told")
    assert (plan.groups, plan.cases) == (10, 60)
    for design in plan.designs:
        assert design.cases == 6 * design.groups
    assert "10 groups" in plan.warnings[0]
    assert "groups" in as_text(plan)


def test_power_and_level_ask_for_more(store):
    pilot = runs(store)
    plain = tv.plan(pilot, detect=0.02, metric="told").designs[0].cases
    assert tv.plan(pilot, detect=0.02, metric="told", power=0.95).designs[0].cases > plain
    assert tv.plan(pilot, detect=0.02, metric="told", level=0.99).designs[0].cases > plain
    assert tv.plan(pilot, detect=0.04, metric="told").designs[0].cases < plain


def test_without_repeats_or_with_another_reducer_only_the_present_repeats_are_planned(store):
    once = tuple(run_of(store, answers(seed, repeats=1)) for seed in (1, 2))
    plan = tv.plan(once, detect=0.05, metric="told")
    assert [design.repeats for design in plan.designs] == [1]
    assert "one attempt a case" in plan.warnings[0]
    best = tv.plan(runs(store, reduce="best"), detect=0.05, metric="told")
    assert [design.repeats for design in best.designs] == [3]
    assert "reduced by best" in best.warnings[0]


def test_costs_are_those_of_the_pilot(store):
    agent = iter(range(10_000))

    def costly(_):
        return tv.Attempt(
            case="", output=str(0.4 + next(agent) % 7 / 20), usage=Usage(cost_usd=0.25)
        )  # fmt: skip

    pilot = tuple(tv.evaluate(told_suite(40), agent=costly, store=store) for _ in range(2))
    plan = tv.plan(pilot, detect=0.05, metric="told")
    assert plan.usd_per_attempt == pytest.approx(0.25)
    assert plan.designs[0].usd == pytest.approx(0.25 * plan.designs[0].attempts)
    assert "a run costs" in as_text(plan)
    compared = tv.compare(*pilot)
    assert compared.cost_usd == {"base": 10.0, "head": 10.0}
    assert "base cost $10.00 · head cost $10.00" in as_text(compared)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"detect": 0.0}, "detect: found 0"),
        ({"detect": 2.0}, "detect: found 2"),
        ({"power": 0.3}, "power: found 0.3"),
        ({"level": 1.0}, "level: found 1"),
        ({"metric": "tolt"}, 'Did you mean "told"'),
    ],
)
def test_what_cannot_be_planned_is_refused(store, wrong, message):
    run = run_of(store, [0.5, 0.6, 0.7])
    with pytest.raises(ComparisonError, match=message):
        tv.plan(run, **({"detect": 0.1} | wrong))


def test_runs_that_cannot_be_compared_are_no_pilot(store):
    base = run_of(store, [0.5, 0.6])
    head = run_of(store, [0.5, 0.6], failed_attempts="skip", reduce="best")
    with pytest.raises(ComparisonError, match="reduce"):
        tv.plan((base, head), detect=0.1)
    groups = {f"q{i}": "one" for i in range(2)}
    with pytest.raises(ComparisonError, match="one group"):
        tv.plan(run_of(store, [0.5, 0.6], groups=groups), detect=0.1)


def test_the_command_takes_the_newest_comparable_runs(store, capsys):
    run_of(store, answers(1), repeats=3)
    run_of(store, answers(2), repeats=3)
    where = ["--store", str(store.url)]
    assert run_command(["plan", "--detect", "0.02", "--metric", "told", *where]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "cases with 1 repeat each are needed; there are 60." in shown
    assert "present cases are enough with" in shown
    assert run_command(["plan", "--detect", "0.02", "--metric", "told", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["paired"]
    newest = tv.Run.load(store=store).id
    assert run_command(["plan", newest, "--detect", "0.02", *where]) == 0
    assert "one run is known" in " ".join(capsys.readouterr().out.split())
    assert run_command(["plan", "--detect", "0", *where]) == 2
    assert "expected above 0" in capsys.readouterr().err


def test_the_command_takes_the_runs_of_a_suite_by_its_file_or_name(store, capsys, tmp_path):
    run_of(store, answers(1), repeats=3)
    head = run_of(store, answers(2), repeats=3)
    tv.evaluate([{"id": "a", "input": "q"}], agent=lambda question: "x", store=str(store.url))
    name = head.record.suite_name
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"name": name, "cases": [{"id": "a", "input": "q"}]}))
    options = ["--detect", "0.02", "--metric", "told", "--json", "--store", str(store.url)]
    for named in (name, str(path)):
        assert run_command(["plan", named, *options]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["suite"], found["pilot"][-1], found["paired"]) == (name, head.id, True)
    path.write_text(json.dumps({"name": "another", "cases": [{"id": "a", "input": "q"}]}))
    assert run_command(["plan", str(path), *options]) == 2
    assert 'no run of suite "another" is stored' in capsys.readouterr().err


def test_runs_that_do_not_differ_say_nothing_of_the_cases_needed(store):
    values = [0.5, 0.6, 0.7]
    plan = tv.plan((run_of(store, values), run_of(store, values)), detect=0.1)
    assert plan.designs[0].cases is None
    assert "do not differ, so that they say nothing" in as_text(plan)
