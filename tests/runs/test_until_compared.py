"""Runs that ask only until their comparison with a stored run is decided."""

import random

import msgspec
import numpy as np
import pytest

import trivium as tv
from trivium.cli.main import run_command
from trivium.errors import InputError, OutputsError
from trivium.runs.pipeline import NoProgress
from trivium.runs.until_decided.difference import Difference
from trivium.runs.until_decided.order import place_of
from trivium.store.records import StoppedFor

METHOD = "betting, valid at every look"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}"


def suite_of(count=300, *, per_group=1, prefix="c", **keys):
    cases = [
        {"id": f"{prefix}{i}", "input": f"q{i}", "references": ["yes"], "group": f"g{i // per_group}"}
        for i in range(count)
    ]
    given = {"name": "asked", "metrics": ["success"], "success": {"exact": True}, "margin": 0.05}
    return given | {"composite": {"weights": {"success": 1}}, "cases": cases} | keys


def right(share):
    """An agent that is right about a share of the questions, always the same ones."""
    return lambda question: "yes" if random.Random(question).random() < share else "no"


def until(suite, base, agent, url, **more):
    return tv.evaluate(suite, agent=agent, store=url, until_decided=True, against=base.id, **more)


@pytest.mark.parametrize(("before", "after", "answer"), [(0.5, 0.95, "pass"), (0.9, 0.4, "fail")])
def test_it_stops_when_the_comparison_is_decided(url, before, after, answer):
    base = tv.evaluate(suite_of(), agent=right(before), store=url)
    head = until(suite_of(), base, right(after), url)
    summary = head.summary()
    assert summary.cases == summary.attempts == summary.total_tests == head.record.due < 150
    assert summary.missing == 0
    asked = f"{summary.cases} of 300 cases were asked, in random order, at most until the comparison with"
    assert summary.warnings[0].startswith(f"{asked} {base.id} on pass_rate was decided: trivium compare")
    compared = tv.compare(base, head)
    figure = compared.metrics["pass_rate"]
    assert (compared.answer, compared.decided_by) == (answer, ("pass_rate",))
    assert (figure.answer, figure.method, figure.p, figure.mde) == (answer, METHOD, None, None)
    low, high = figure.ci95
    assert low > -0.05 if answer == "pass" else high < 0
    assert low <= figure.delta <= high
    assert compared.metrics["composite"].method != METHOD
    assert compared.missing == {}
    said = next(each for each in compared.warnings if "in random order" in each)
    assert "until this comparison was decided" in said
    assert "all others suppose that the number of cases was set beforehand" in said
    assert not any("gates" in each for each in compared.warnings)


def test_a_difference_at_a_limit_is_rarely_decided_and_all_cases_are_asked(url):
    suite = suite_of(60, decide={"policy": "proof"})
    base = tv.evaluate(suite, agent=right(0.5), store=url)
    head = until(suite, base, right(0.52), url)
    assert head.summary().cases == 60
    compared = tv.compare(base, head)
    assert compared.proof == "inconclusive"
    assert any("in random order, and it is not decided" in each for each in compared.warnings)


def test_groups_and_repeats_are_asked_whole_and_only_shared_cases(url):
    keys = {"per_group": 4, "repeats": 2, "group": "group"}
    base = tv.evaluate(suite_of(120, **keys), agent=right(0.2), store=url)
    head = until(suite_of(200, **keys), base, right(0.95), url)
    asked = {}
    for attempt in head.attempts():
        asked.setdefault(int(attempt.case[1:]) // 4, []).append(attempt.repeat)
    assert max(asked) < 30
    assert 3 < len(asked) < 30
    assert all(sorted(repeats) == [0, 0, 0, 0, 1, 1, 1, 1] for repeats in asked.values())
    compared = tv.compare(base, head)
    assert compared.answer == "pass"
    assert f"{4 * len(asked)} of 120 cases were asked" in " ".join(compared.warnings)


def test_another_base_and_another_run_get_intervals_of_fixed_size(url):
    base, other = (tv.evaluate(suite_of(), agent=right(0.5), store=url) for _ in "ab")
    head = until(suite_of(), base, right(0.95), url)
    compared = tv.compare(other, head)
    assert all(each.method != METHOD for each in compared.metrics.values())
    assert any(
        f"at most until its comparison with {base.id} was decided; the" in each for each in compared.warnings
    )


def test_another_metric_may_decide(url):
    keys = {"metrics": ["success", "jaccard"], "composite": {"weights": {"success": 1, "jaccard": 1}}}
    base = tv.evaluate(suite_of(**keys), agent=right(0.5), store=url)
    head = until(suite_of(**keys), base, right(0.95), url, against_metric="jaccard")
    compared = tv.compare(base, head)
    assert compared.decided_by == ("jaccard",)
    assert compared.metrics["jaccard"].method == METHOD


@pytest.mark.parametrize(
    ("keys", "metric"),
    [
        ({"decide": {"by": "jaccard"}}, "jaccard"),
        ({"metrics": ["jaccard"], "success": None, "composite": {"weights": {"jaccard": 1}}}, "composite"),
        ({}, "pass_rate"),
    ],
)
def test_what_decides_a_comparison_decides_when_it_stops(url, keys, metric):
    suite = suite_of(**{"metrics": ["success", "jaccard"]} | keys)
    base = tv.evaluate(suite, agent=right(0.5), store=url)
    assert tv.compare(base, tv.evaluate(suite, agent=right(0.6), store=url)).decided_by == (metric,)
    head = until(suite, base, right(0.95), url)
    assert head.provenance.until_decided == StoppedFor(against=base.id, metric=metric)
    assert tv.compare(base, head).decided_by == (metric,)


def test_where_several_metrics_decide_one_has_to_be_named(url):
    keys = {"metrics": ["jaccard", "cosine"], "success": None, "composite": {"weights": {"similarity": 1}}}
    base = tv.evaluate(suite_of(20, **keys), agent=right(0.5), store=url)
    said = refused(url, base, suite_of(20, **keys))
    assert "cosine and jaccard decide a comparison together: name one with against_metric" in said
    assert until(suite_of(20, **keys), base, right(0.5), url, against_metric="cosine").record.state == "done"


class Stops(NoProgress):
    """Ends the run once, after some attempts."""

    run = ""
    done = 0

    def begin(self, *, run, total, already):
        self.run = run

    def advance(self, *, done, failed):
        self.done += done
        if self.done >= 8:
            raise OutputsError("", "stopped")


def test_an_interrupted_run_goes_on_to_the_same_decision(url):
    suite, stops = suite_of(limits={"attempts_at_once": 1}, decide={"policy": "proof"}), Stops()
    base = tv.evaluate(suite, agent=right(0.6), store=url)
    with pytest.raises(OutputsError, match="stopped"):
        until(suite, base, right(0.9), url, progress=stops)
    with pytest.raises(InputError, match=f"was begun against {base.id}, by pass_rate"):
        until(suite, base, right(0.9), url, resume=stops.run, against_metric="composite")
    halfway = tv.compare(base, tv.Run.load(stops.run, store=url))
    assert halfway.proof == "inconclusive"
    head = until(suite, base, right(0.9), url, resume=stops.run)
    asked = [attempt.case for attempt in head.attempts()]
    order = sorted(range(300), key=lambda i: place_of(head.id, f"g{i}"))
    assert sorted(asked) == sorted(f"c{i}" for i in order[: len(asked)])
    by_hand = Difference(margin=0.05, level=0.95, largest=1)
    needed = 0
    for i in order:
        if by_hand.decided:
            break
        values = [float(right(share)(f"q{i}") == "yes") for share in (0.6, 0.9)]
        by_hand.bet([values[1] - values[0]], [values[1] - values[0]])
        needed += 1
    assert needed <= len(asked) <= needed + 1
    assert tv.compare(base, head).answer == by_hand.answer == "pass"


def test_missing_scores_count_at_their_ends():
    one = Difference(margin=0.05, level=0.95, largest=1)
    for _ in range(300):
        one.bet([-1.0], [1.0])
    assert one.answer == "inconclusive"
    assert one.interval == (-1.0, 1.0)
    one.bet([np.nan], [np.nan])
    assert Difference(margin=0.05, level=0.95, largest=1).interval is None


def differences(rng, kind, mean, groups):
    """Differences by group with a mean, as agents have them."""
    if kind == "independent":
        change = rng.random(groups)
        return [[float(u < 0.2 + mean) - float(u > 0.8)] for u in change]
    if kind == "clustered":
        return [
            np.where(rng.random(size) < rng.beta(2 * (0.5 + mean / 2), 2 * (0.5 - mean / 2)), 1.0, -1.0)
            for size in rng.integers(1, 7, groups)
        ]
    if kind == "skewed":  # many small losses and few large gains, or the other way round
        gain = 0.1
        return [
            [gain_or_loss] for gain_or_loss in np.where(rng.random(groups) < gain, 0.9, (mean - 0.09) / 0.9)
        ]
    return [[float(rng.random() < 0.05 + mean) - float(rng.random() < 0.05)] for _ in range(groups)]


@pytest.mark.parametrize("kind", ["independent", "clustered", "skewed", "mostly zero"])
@pytest.mark.parametrize(("mean", "wrong"), [(0.0, "fail"), (-0.05, "pass")])
def test_wrong_decisions_are_rare_at_the_limits(kind, mean, wrong):
    rng, worlds, count = np.random.default_rng([7, len(kind)]), 40, 0
    for _ in range(worlds):
        one = Difference(margin=0.05, level=0.95, largest=6 if kind == "clustered" else 1)
        for group in differences(rng, kind, mean, 100):
            one.bet(group, group)
            if one.decided:
                break
        count += one.answer == wrong
    assert count <= 0.05 * worlds + 2.6 * np.sqrt(worlds * 0.05 * 0.95)


def test_balanced_stops_when_a_loss_is_likely_enough(url):
    base = tv.evaluate(suite_of(), agent=right(0.9), store=url)
    head = until(suite_of(), base, right(0.5), url)
    found = tv.compare(base, head)
    assert found.answer == "fail"
    assert any("until this comparison was decided" in each for each in found.warnings)
    assert head.summary().cases < 100


def test_balanced_asks_fewer_cases_than_a_proof_takes():
    rng, asked = np.random.default_rng(3), dict.fromkeys(("balanced", "proof"), 0)
    for _ in range(6):
        values = [float(rng.random() < 0.55) - float(rng.random() < 0.5) for _ in range(300)]
        for policy in ("balanced", "proof"):
            one = Difference(margin=0.02, level=0.95, largest=1, policy=policy)
            for value in values:
                one.bet([value], [value])
                asked[policy] += 1
                if one.decided:
                    break
    assert asked["balanced"] < 0.7 * asked["proof"]


@pytest.mark.parametrize(("difference", "wrong"), [(-0.15, "pass"), (0.05, "fail")])
def test_with_all_looks_in_it_balanced_is_rarely_wrong_about_what_is_no_close_call(difference, wrong):
    rng, worlds, errors = np.random.default_rng(11), 30, 0
    for _ in range(worlds):
        one, seen = Difference(margin=0.02, level=0.95, largest=1, policy="balanced"), []
        while not one.decided and len(seen) < 200:
            seen.append(float(rng.random() < 0.6 + difference) - float(rng.random() < 0.6))
            one.bet(seen[-1:], seen[-1:])
        errors += ("fail" if np.mean(seen) < -0.02 else "pass") == wrong
    assert errors <= 0.1 * worlds + 2.6 * np.sqrt(worlds * 0.1 * 0.9)


def test_balanced_does_not_stop_while_missing_values_could_change_what_is_likely():
    one = Difference(margin=0.02, level=0.95, largest=1, policy="balanced")
    for _ in range(100):
        one.bet([-1.0], [0.5])
    assert not one.decided


def refused(url, base, suite, **more):
    with pytest.raises(InputError) as error:
        until(suite, base, right(0.5), url, **more)
    return str(error.value)


def test_a_base_that_cannot_decide_is_refused_before_anything_is_asked(url):
    base = tv.evaluate(suite_of(20), agent=right(0.5), store=url)
    other = tv.evaluate(suite_of(20, prefix="d", name="others"), agent=right(0.5), store=url)
    bare = tv.evaluate(suite_of(20, metrics=["jaccard"], success=None), agent=right(0.5), store=url)
    early = until(suite_of(20), base, right(0.9), url)
    with tv.Store(url) as store:
        before = len(store.runs())
    assert 'a run of suite "others" and has no case of "asked"; name a run' in refused(
        url, other, suite_of(20)
    )
    assert 'it has no metric "success"' in refused(url, bare, suite_of(20), against_metric="success")
    assert 'Did you mean "success"?' in refused(url, base, suite_of(20), against_metric="sucess")
    assert "cannot decide when it ends" in refused(url, base, suite_of(20), against_metric="path_agreement")
    assert "stopped early itself" in refused(url, early, suite_of(20))
    assert "composite.weights" in refused(url, base, suite_of(20, composite={"weights": {"success": 2}}))
    with pytest.raises(InputError, match="it needs until_decided"):
        tv.evaluate(suite_of(20), agent=right(0.5), store=url, against=base.id)
    with pytest.raises(InputError, match=r"Give gates, or a stored run to compare with"):
        tv.evaluate(suite_of(20), agent=right(0.5), store=url, until_decided=True)
    with tv.Store(url) as store:
        assert len(store.runs()) == before


def test_an_unfinished_base_is_refused(url):
    stops = Stops()
    with pytest.raises(OutputsError, match="stopped"):
        tv.evaluate(suite_of(), agent=right(0.5), store=url, progress=stops)
    said = refused(url, tv.Run.load(stops.run, store=url), suite_of())
    assert f"not finished (interrupted): finish it with --resume {stops.run}" in said


def test_the_command_stops_compares_and_gives_the_exit_code(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "agents.py").write_text(
        "def yes(question):\n    return 'yes'\n\n\ndef no(question):\n    return 'no'\n"
    )
    (tmp_path / "suite.json").write_bytes(msgspec.json.encode(suite_of()))

    def command(name, *more):
        code = run_command(["run", "suite.json", "--agent", f"agents.py:{name}", *more])
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).split())

    assert command("no")[0] == 0
    base = tv.Run.load().id
    code, said = command("yes", "--until-decided", "--against", base)
    assert code == 0
    assert "until this comparison was decided" in said
    assert METHOD in said
    command("yes")
    whole = tv.Run.load().id
    code, said = command("no", "--until-decided", "--against", whole)
    assert code == 1
    assert "Worse: pass_rate" in said
    pages = ["--html", "c.html", "--markdown", "c.md", "--quiet"]
    assert run_command(["compare", whole, tv.Run.load().id, *pages]) == 1
    for page in ("c.html", "c.md"):
        assert METHOD in (tmp_path / page).read_text("utf-8")
    code, said = command("yes", "--against", base)
    assert code == 2
    assert "--against says when --until-decided stops; give both" in said


def test_whether_a_comparison_is_sure_enough_is_computed_when_it_bets_and_not_when_it_is_asked(monkeypatch):
    """The event loop asks at any time, also while another thread bets."""
    difference = Difference(margin=0.02, level=0.95, largest=1, policy="balanced")
    for _ in range(40):
        difference.bet([0.0], [0.0])
    known = difference.decided
    monkeypatch.setattr("trivium.runs.until_decided.difference.np.concatenate", None)

    assert difference.decided == known
