"""Tests comparisons of stored runs against SciPy and counts made by hand."""

import msgspec
import numpy as np
import pytest
from scipy import stats

import trivium as tv
from tests.runs.comparing.told_runs import compared, drawn, run_of
from tests.runs.suites import told_suite, tv_composite
from trivium.display import as_text
from trivium.errors import ComparisonError
from trivium.suites.settings import POLICIES, DecideSettings, PassRule
from trivium.trust.intervals import mean_interval


class TestTheDifference:
    def test_has_the_interval_of_the_mean_of_its_pairs(self, store):
        base, head = drawn(30)
        figure = compared(store, base, head).metrics["told"]
        expected = mean_interval(head - base, np.arange(30), low=-1, high=1)
        assert figure.delta == pytest.approx((head - base).mean())
        assert figure.ci95 == pytest.approx((expected.low, expected.high), abs=1e-9)
        assert (figure.base, figure.head) == pytest.approx((base.mean(), head.mean()))
        assert (figure.n, figure.pairs, figure.groups, figure.left_out) == (30, 30, 30, 0)

    def test_is_made_of_the_composite_and_the_pass_rate_too(self, store):
        base, head = [0.9] * 10 + [0.1] * 10, [0.9] * 5 + [0.1] * 15
        metrics = compared(store, base, head).metrics
        assert list(metrics) == ["composite", "pass_rate", "told"]
        assert metrics["pass_rate"].delta == pytest.approx(-0.25)
        assert metrics["composite"].delta == pytest.approx(metrics["told"].delta)
        assert (metrics["pass_rate"].wins, metrics["pass_rate"].losses, metrics["pass_rate"].ties) == (
            0,
            5,
            15,
        )

    def test_of_one_repeat_against_three_is_that_of_the_first_repeats(self, store):
        rng = np.random.default_rng(4)
        base, head = rng.uniform(size=(12, 1)), rng.uniform(size=(12, 3))
        once = run_of(store, base.tolist(), repeats=1)
        thrice, first = (
            run_of(store, head.tolist(), repeats=3),
            run_of(store, head[:, :1].tolist(), repeats=1),
        )
        found, expected = (tv.compare(once, run).metrics["told"] for run in (thrice, first))
        assert (found.delta, found.p, found.pairs) == (expected.delta, expected.p, 12)

    def test_is_reduced_by_case_before_anything_is_counted(self, store):
        base, head = drawn(12)
        once = compared(store, base, head).metrics["told"]
        thrice = compared(
            store, [[x] * 3 for x in base], [[x] * 3 for x in head], settings={"repeats": 3}
        ).metrics["told"]
        assert thrice.ci95 == pytest.approx(once.ci95)
        assert (thrice.n, thrice.pairs) == (12, 36)

    @pytest.mark.parametrize(("reduce", "delta"), [("best", 0.1), ("worst", -0.1), ("mean", 0.0)])
    def test_follows_the_suites_reducer(self, store, reduce, delta):
        settings = {"repeats": 2, "reduce": reduce}
        figure = compared(store, [[0.4, 0.6]] * 3, [[0.3, 0.7]] * 3, settings=settings).metrics["told"]
        assert figure.delta == pytest.approx(delta)

    def test_is_clustered_by_the_suites_groups(self, store):
        base, head = drawn(30)
        groups = {f"q{i}": f"g{i // 5}" for i in range(30)}
        figure = compared(store, base, head, settings={"groups": groups}).metrics["told"]
        assert (figure.groups, figure.n) == (6, 30)
        assert "groups" in next(iter(compared(store, base, head, settings={"groups": groups}).warnings))

    def test_has_holm_adjusted_p_values(self, store):
        base, head = drawn(25, shift=0.05)
        metrics = compared(store, base, head, resamples=999).metrics
        p = {name: figure.p for name, figure in metrics.items()}
        del p["told"]  # the composite's values, and so the same test
        rising = sorted(p, key=p.get)
        expected, most = {}, 0.0
        for place, name in enumerate(rising):
            most = max(most, min(1.0, p[name] * (len(rising) - place)))
            expected[name] = most
        expected["told"] = expected["composite"]
        assert {name: figure.p_holm for name, figure in metrics.items()} == pytest.approx(expected)

    def test_is_the_same_for_the_same_seed(self, store):
        base, head = drawn(20)
        runs = run_of(store, base), run_of(store, head)
        assert tv.compare(*runs, seed=1, resamples=200) == tv.compare(*runs, seed=1, resamples=200)

    def test_turns_round_with_the_runs(self, store):
        base, head = drawn(20, shift=0.02)
        runs = run_of(store, base), run_of(store, head)
        there, back = tv.compare(*runs).metrics["told"], tv.compare(*runs[::-1]).metrics["told"]
        assert there.delta == pytest.approx(-back.delta)
        assert there.ci95 == pytest.approx((-back.ci95[1], -back.ci95[0]))
        assert (there.wins, there.losses) == (back.losses, back.wins)


class TestTheAnswer:
    def test_is_fail_where_the_run_is_surely_worse(self, store):
        comparison = compared(store, *drawn(40, shift=-0.15))
        assert comparison.answer == "fail"
        assert "is beyond chance (p 0" in comparison.reason

    def test_is_pass_where_it_is_surely_no_worse_than_the_margin(self, store):
        base, head = drawn(40, spread=0.001, shift=0.01)
        assert compared(
            store, base, head, settings={"passed": PassRule(metric="told", at_least=0.01)}
        ).proof == ("inconclusive")  # the pass rate, 1 in both, could still have fallen among unseen cases
        assert compared(store, base, head, margin=0.3).proof == "pass"

    @pytest.mark.parametrize(
        ("shift", "words"),
        [
            (0.1, "composite got better."),
            (-0.1, "composite got worse, but by less than 0.9."),
            (0.0, "composite lost less than 0.9, if anything."),
        ],
    )
    def test_says_how_what_passes_came_out(self, store, shift, words):
        base = np.linspace(0.2, 0.8, 30)
        head = base + shift + 0.01 * np.tile([1, -1], 15)
        settings = {"decide": DecideSettings(by="composite")}
        comparison = compared(store, base, head, margin=0.9, settings=settings)
        assert comparison.decided_by == ("composite",)
        assert (comparison.answer, comparison.reason) == ("pass", words)

    def test_is_inconclusive_in_between_and_says_what_would_settle_it(self, store):
        comparison = compared(store, *drawn(20, spread=0.2), policy="proof")
        figure = comparison.metrics["composite"]
        assert (comparison.answer, figure.answer) == ("inconclusive", "inconclusive")
        assert figure.needs_cases > 0
        assert figure.mde == pytest.approx(
            (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * stats.sem(np.subtract(*drawn(20, spread=0.2)))
        )

    def test_further_cases_come_in_groups_as_large_as_those_there_are(self, store):
        base, head = drawn(20, spread=0.2)
        alone = compared(store, base, head).metrics["told"].needs_cases
        doubled = [each for each in base for _ in range(2)], [each for each in head for _ in range(2)]
        groups = {f"q{i}": f"g{i // 2}" for i in range(40)}
        twice = compared(store, *doubled, settings={"groups": groups}).metrics["told"].needs_cases
        assert twice == pytest.approx(2 * alone, rel=0.05)

    def test_is_pass_where_no_output_changed(self, store):
        base, _ = drawn(5)
        comparison = compared(store, base, base)
        assert (comparison.answer, comparison.unchanged) == ("pass", True)
        assert {figure.answer for figure in comparison.metrics.values()} == {"pass"}
        told = comparison.metrics["told"]
        assert (told.delta, told.ci95, told.p) == (0.0, None, None), "what is equal needs no interval"
        (line,) = [line for line in as_text(comparison, width=100).splitlines() if " told " in line]
        assert "identical" in line
        assert "[" not in line

    def test_is_not_pass_where_outputs_changed_and_scores_did_not(self, store):
        comparison = compared(store, ["0.5"] * 5, ["0.50"] * 5)
        assert (comparison.proof, comparison.unchanged) == ("inconclusive", False)

    def test_of_one_group_is_inconclusive_unless_nothing_changed(self, store):
        groups = {"groups": {"q0": "g", "q1": "g"}}
        comparison = compared(store, [0.5, 0.6], [0.1, 0.1], settings=groups)
        assert comparison.answer == "inconclusive"
        assert comparison.metrics["told"].ci95 is comparison.metrics["told"].p is None
        assert any("one group" in warning for warning in comparison.warnings)
        assert compared(store, [0.5, 0.6], [0.5, 0.6], settings=groups).answer == "pass"

    def test_rests_on_all_figures_where_there_is_neither_composite_nor_verdict(self, store):
        settings = {
            "composite": tv_composite({"time": 1.0}),
            "passed": PassRule(metric="tool_success", at_least=0.5),  # there is no trace
        }
        comparison = compared(store, *drawn(30, shift=-0.2), settings=settings)
        assert comparison.decided_by == ("told",)
        assert comparison.answer == "fail"

    def test_lists_the_cases_that_moved_most(self, store):
        base, head = [0.5] * 30, [0.5] * 30
        head[7], head[3], head[11] = 0.1, 0.8, 0.45
        comparison = compared(store, base, head, settings={"decide": DecideSettings(by="told")})
        assert comparison.moved == ("q7", "q3", "q11")
        assert [move.delta for move in comparison.moves] == pytest.approx([-0.4, 0.3, -0.05])
        assert [move.case for move in comparison.metrics["told"].worst] == ["q7", "q11"]


class TestRequireNoRegression:
    def test_passes_in_silence(self, store):
        base, _ = drawn(5)
        compared(store, base, base).require_no_regression()

    def test_raises_with_the_interval_and_the_worst_cases(self, store):
        base, head = drawn(40, shift=-0.1)
        comparison = compared(store, base, head)
        worst = f"q{(head - base).argmin()}"
        with pytest.raises(tv.RegressionError) as caught:
            comparison.require_no_regression()
        text = str(caught.value)
        low, high = comparison.metrics["composite"].ci95
        assert f"[{low:+.3f}, {high:+.3f}]" in text
        assert worst in text
        assert isinstance(caught.value, tv.TriviumError)

    def test_inconclusive_is_no_proof(self, store):
        comparison = compared(store, *drawn(15, spread=0.2), policy="proof")
        with pytest.raises(tv.RegressionError, match=r"inconclusive.*more cases would settle it"):
            msgspec.structs.replace(comparison, reason="").require_no_regression()

    def test_says_that_one_group_gives_no_interval(self, store):
        comparison = compared(store, [0.5], [0.1])
        with pytest.raises(tv.RegressionError, match=r"pass_rate: inconclusive, .*\n"):
            comparison.require_no_regression()


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"margin": -0.1}, "margin: found -0.1, expected 0 to 1"),
            ({"level": 1.0}, "level: found 1, expected between 0 and 1"),
            ({"resamples": 0}, "resamples: found 0, expected at least 1"),
            ({"seed": -1}, "seed: found -1, expected at least 0"),
            ({"margin": float("nan")}, "margin: found nan"),
        ],
    )
    def test_out_of_range_are_refused(self, store, options, words):
        run = run_of(store, [0.5] * 2)
        with pytest.raises(ComparisonError, match=words):
            tv.compare(run, run, **options)

    @pytest.mark.parametrize(
        ("count", "words"), [(5, "too few to call"), (12, "fewer than 20 they are wide"), (25, None)]
    )
    def test_few_groups_are_warned_of(self, store, count, words):
        warnings = compared(store, *drawn(count)).warnings
        assert warnings == () if words is None else any(words in line for line in warnings)


NOTHING = dict.fromkeys(("wins", "losses", "ties", "n", "pairs", "left_out", "groups", "needs_cases"), 0)


NOTHING |= dict.fromkeys(("delta", "ci95", "p", "share_positive", "mde", "base", "head", "method"))


NOTHING |= {"worst": ()}


def test_a_loss_in_one_of_many_further_figures_must_be_more_than_chance():
    from trivium.runs.comparing.comparison import MetricDelta
    from trivium.runs.comparing.decision import Options, verdict

    def figure(answer, p_holm=None):
        return msgspec.convert(NOTHING | {"answer": answer, "p_holm": p_holm}, MetricDelta)

    options = Options(margin=0.02, level=0.95, resamples=1000, seed=42)

    def answer(**figures):
        return verdict(figures, ("composite",), options, same=False)

    for policy in POLICIES:
        options = msgspec.structs.replace(options, decide=DecideSettings(policy=policy))
        assert answer(composite=figure("pass"), cosine=figure("fail", 0.01)).answer == "fail"
    told = answer(composite=figure("pass"), cosine=figure("fail", 0.3))
    assert told.proof == "pass"
    assert "cosine got worse, but no more than chance brings among 2 figures" in told.reason
    assert answer(composite=figure("fail", 0.3), cosine=figure("pass")).proof == "fail"


def test_the_order_of_cases_does_not_matter(store):
    base, head = drawn(10)
    suite = told_suite(10)
    turned = tv.Suite(name=suite.name, cases=list(suite.cases)[::-1], settings=suite.settings)
    straight = tv.compare(run_of(store, base), run_of(store, head)).metrics["told"]
    crossed = tv.compare(run_of(store, base), run_of(store, head, suite=turned)).metrics["told"]
    assert crossed.delta == pytest.approx(straight.delta)
    assert crossed.ci95 == pytest.approx(straight.ci95)


def test_a_comparison_shows_itself_as_a_table(store):
    comparison = compared(store, *drawn(12))
    assert "12 cases in common" in str(comparison)
