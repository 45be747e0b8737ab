"""Comparisons of stored runs against SciPy, counts made by hand, and the rules of what may be compared."""

import msgspec
import numpy as np
import pytest
from scipy import stats

import trivium as tv
from tests.runs.suites import TOLD, Says, told_suite, tv_composite
from trivium.errors import ComparisonError
from trivium.store.store import Store
from trivium.suites.settings import JudgeSettings, PassRule


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def run_of(store, answers, *, suite=None, **settings):
    groups = settings.pop("groups", None)
    suite = suite or told_suite(len(answers), groups=groups, **settings)
    return tv.evaluate(suite, agent=Says({f"q{i}": each for i, each in enumerate(answers)}), store=store)


def compared(store, base, head, *, settings=None, **options):
    settings = settings or {}
    return tv.compare(run_of(store, base, **settings), run_of(store, head, **settings), **options)


def drawn(count, seed=0, shift=0.0, spread=0.1):
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.3, 0.7, count)
    return base, base + shift + rng.normal(0, spread, count).clip(-0.25, 0.25)


class TestTheDifference:
    def test_has_the_interval_of_the_paired_t_test(self, store):
        base, head = drawn(30)
        figure = compared(store, base, head).metrics["told"]
        expected = stats.ttest_rel(head, base).confidence_interval(0.95)
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
        rising = sorted(p, key=p.get)
        expected, most = {}, 0.0
        for place, name in enumerate(rising):
            most = max(most, min(1.0, p[name] * (len(rising) - place)))
            expected[name] = most
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
        assert "got worse" in comparison.reason

    def test_is_pass_where_it_is_surely_no_worse_than_the_margin(self, store):
        base, head = drawn(40, spread=0.001, shift=0.01)
        assert compared(
            store, base, head, settings={"passed": PassRule(metric="told", at_least=0.01)}
        ).answer == ("inconclusive")  # the pass rate, 1 in both, could still have fallen among unseen cases
        assert compared(store, base, head, margin=0.3).answer == "pass"

    @pytest.mark.parametrize(
        ("shift", "words"),
        [
            (0.1, "composite got better; pass_rate lost less than 0.9, if anything."),
            (-0.1, "composite got worse, but by less than 0.9; pass_rate lost less than 0.9, if anything."),
            (0.0, "composite and pass_rate lost less than 0.9, if anything."),
        ],
    )
    def test_says_how_what_passes_came_out(self, store, shift, words):
        base = np.linspace(0.2, 0.8, 30)
        head = base + shift + 0.01 * np.tile([1, -1], 15)
        settings = {"passed": PassRule(metric="told", at_least=0.0)}
        comparison = compared(store, base, head, margin=0.9, settings=settings)
        assert (comparison.answer, comparison.reason) == ("pass", words)

    def test_is_inconclusive_in_between_and_says_what_would_settle_it(self, store):
        comparison = compared(store, *drawn(20, spread=0.2))
        figure = comparison.metrics["composite"]
        assert (comparison.answer, figure.answer) == ("inconclusive", "inconclusive")
        assert figure.needs_cases > 0
        assert figure.mde == pytest.approx(
            (stats.norm.ppf(0.975) + stats.norm.ppf(0.8))
            * (figure.ci95[1] - figure.ci95[0])
            / 2
            / stats.t.ppf(0.975, 19)
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
        low, high = comparison.metrics["told"].ci95
        assert low < -0.02 < 0 < high  # five cases say little about others, and the interval shows it

    def test_is_not_pass_where_outputs_changed_and_scores_did_not(self, store):
        comparison = compared(store, ["0.5"] * 5, ["0.50"] * 5)
        assert (comparison.answer, comparison.unchanged) == ("inconclusive", False)

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
            "passed": PassRule(metric="jaccard", at_least=0.5),
        }
        comparison = compared(store, *drawn(30, shift=-0.2), settings=settings)
        assert comparison.decided_by == ("told",)
        assert comparison.answer == "fail"

    def test_lists_the_cases_that_moved_most(self, store):
        base, head = [0.5] * 30, [0.5] * 30
        head[7], head[3], head[11] = 0.1, 0.8, 0.45
        comparison = compared(store, base, head)
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

    def test_inconclusive_is_no_proof_unless_it_may_be(self, store):
        comparison = compared(store, *drawn(15, spread=0.2))
        with pytest.raises(tv.RegressionError, match=r"inconclusive.*more cases would settle it"):
            msgspec.structs.replace(comparison, reason="").require_no_regression()
        comparison.require_no_regression(inconclusive="pass")

    def test_says_that_one_group_gives_no_interval(self, store):
        comparison = compared(store, [0.5], [0.1])
        with pytest.raises(tv.RegressionError, match=r"composite: inconclusive, -0\.400\n"):
            comparison.require_no_regression()


class TestWhatDoesNotPair:
    def test_cases_of_one_side_are_named_and_take_no_part(self, store):
        base = run_of(store, [0.5, 0.6, 0.7])
        head = run_of(store, [0.5, 0.6, 0.7, 0.8], suite=told_suite(4).filter(id={"q1", "q2", "q3"}))
        comparison = tv.compare(base, head)
        assert (comparison.only_base, comparison.only_head) == (("q0",), ("q3",))
        assert comparison.unpaired == {"base": 1, "head": 1}
        assert comparison.metrics["told"].n == 2
        assert any("1 of 3 attempts of base have no counterpart" in line for line in comparison.warnings)

    def test_repeats_of_one_side_are_counted(self, store):
        base = run_of(store, [[0.5, 0.6]] * 3, repeats=2)
        head = run_of(store, [0.5] * 3)
        comparison = tv.compare(base, head)
        assert comparison.unpaired == {"base": 3, "head": 0}
        assert comparison.metrics["told"].pairs == 3
        assert (comparison.only_base, comparison.only_head) == ((), ())

    def test_a_value_of_one_side_alone_is_left_out_and_counted(self, store):
        comparison = compared(store, [0.5, "skip", 0.7, 0.2], [0.5, 0.6, "skip", 0.2])
        figure = comparison.metrics["told"]
        assert (figure.pairs, figure.left_out) == (2, 2)
        assert any("told: 2 pairs have a value on one side only" in line for line in comparison.warnings)

    def test_a_failed_attempt_counts_as_0_against_any(self, store):
        figure = compared(store, [0.6, 0.6], [0.6, ValueError("no")]).metrics
        assert figure["composite"].delta == pytest.approx(-0.3)
        assert figure["pass_rate"].delta == pytest.approx(-0.5)
        assert figure["told"].left_out == 1

    def test_a_failed_attempt_is_left_out_where_the_suite_says_so(self, store):
        settings = {"failed_attempts": "skip"}
        figure = compared(store, [0.6, 0.6], [0.6, ValueError("no")], settings=settings).metrics["composite"]
        assert (figure.delta, figure.pairs) == (0.0, 1)

    def test_a_metric_of_one_side_alone_is_named(self, store):
        base = run_of(store, [0.5, 0.6])
        head = run_of(store, [0.5, 0.6], metrics=(TOLD, "jaccard"))
        comparison = tv.compare(base, head)
        assert "jaccard" not in comparison.metrics
        assert "only head has a score for jaccard" in comparison.warnings

    def test_runs_without_anything_in_common_are_refused(self, store):
        one = run_of(store, [0.5, 0.6], suite=told_suite(2).filter(id="q0"))
        other = run_of(store, [0.5, 0.6], suite=told_suite(2).filter(id="q1"))
        with pytest.raises(ComparisonError, match="no case and repeat in common"):
            tv.compare(one, other)
        settings = {"composite": tv_composite({"time": 1.0}), "metrics": (TOLD,)}
        with pytest.raises(ComparisonError, match="no figure in common"):
            compared(store, ["skip", 0.5], [0.5, "skip"], settings=settings)

    def test_an_unfinished_run_is_warned_of(self, store):
        base, head = run_of(store, [0.5] * 3), run_of(store, [0.6] * 3)
        store.take(head.record)
        comparison = tv.compare(base, tv.Run.load(head.id, store=store))
        assert "head is not finished (running)" in comparison.warnings

    def test_agreement_of_the_repeats_is_compared_by_case(self, store, monkeypatch):
        base, head = run_of(store, [[0.5, 0.6]] * 3, repeats=2), run_of(store, [[0.5, 0.6]] * 3, repeats=2)
        from trivium.metrics.score import Score

        for run, values in ((base, (1.0, 0.5, 0.5)), (head, (1.0, 1.0, 0.5))):
            scores = [
                (at, {"path_agreement": Score(name="path_agreement", tier="trace", value=value)})
                for at, value in enumerate(values)
            ]
            store.save_case_scores(run.record, scores)
        comparison = tv.compare(base, head)
        figure = comparison.metrics["path_agreement"]
        assert (figure.delta, figure.pairs) == (pytest.approx(0.5 / 3), 3)
        assert comparison.unpaired == {"base": 0, "head": 0}


class TestUnlikeRuns:
    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ({"reduce": "best"}, 'reduce: "mean" in base, "best" in head'),
            ({"passed": PassRule(metric="told", at_least=0.9)}, "pass: "),
            ({"composite": tv_composite({"told": 1.0}, missing="zero")}, "composite.missing"),
            ({"references": "mean"}, "references"),
        ],
    )
    def test_by_a_setting_that_changes_what_a_number_means_are_refused(self, store, setting, words):
        base, head = run_of(store, [0.5] * 3), run_of(store, [0.6] * 3, **setting)
        with pytest.raises(ComparisonError) as caught:
            tv.compare(base, head)
        assert words in str(caught.value)
        assert "force=True (--force)" in str(caught.value)
        forced = tv.compare(base, head, force=True)
        assert any(line.startswith("compared although unlike:") and words in line for line in forced.warnings)

    @pytest.mark.parametrize("setting", [{"level": 0.9}, {"seed": 1}, {"resamples": 50}, {"margin": 0.1}])
    def test_settings_that_change_no_score_are_no_reason(self, store, setting):
        head = run_of(store, [0.6] * 3, **setting)
        comparison = tv.compare(run_of(store, [0.5] * 3), head)
        ((name, value),) = setting.items()
        assert getattr(comparison, name) == value  # head's, unless said otherwise

    def test_by_a_judge_are_refused_and_by_its_cost_are_not(self, store):
        def judged(**fields):
            return run_of(store, [0.5] * 3, judge=JudgeSettings(models=("openai:a",), **fields))

        with pytest.raises(ComparisonError, match=r"judge\.samples: 1 in base, 3 in head"):
            tv.compare(judged(), judged(samples=3))
        assert tv.compare(judged(), judged(cache=False, concurrency=3)).answer == "pass"

    @pytest.mark.parametrize("part", ["metrics", "judge"])
    def test_by_the_version_of_a_metric_or_a_prompt_are_refused(self, store, part):
        base, head = run_of(store, [0.5] * 3), run_of(store, [0.5] * 3)
        for run, version in ((base, "1"), (head, "2")):
            run.record = msgspec.structs.replace(
                run.record, provenance={part: {"told": version, "own": version}}
            )
        base.record.provenance[part].pop("own")
        with pytest.raises(ComparisonError, match=rf'{part}\.told: "1" in base, "2" in head'):
            tv.compare(base, head)
        assert not tv.compare(base, head, force=True).unchanged

    def test_by_what_their_cases_ask_are_refused_and_by_labels_are_not(self, store):
        def run(**fields):
            cases = [tv.Case(id=f"q{i}", input=f"q{i}", references=("r",)) for i in range(7)]
            cases[1:] = [msgspec.structs.replace(case, **fields) for case in cases[1:]]
            return run_of(
                store, [0.5] * 7, suite=tv.Suite(name="s", cases=cases, settings=told_suite(1).settings)
            )

        base = run()
        assert tv.compare(base, run(tags=("new",), metadata={"a": 1})).answer == "pass"
        with pytest.raises(
            ComparisonError, match=r"6 of the cases are not what they were: q1, q2, q3, q4, q5, …"
        ):
            tv.compare(base, run(references=("other",)))

    def test_by_how_a_score_was_made_are_refused(self, store):
        base, head = scored(store, "0.6·cosine + 0.4·jaccard", "ok"), scored(store, "0.6·cosine", "fallback")
        with pytest.raises(
            ComparisonError, match=r"told: 0\.6·cosine \+ 0\.4·jaccard in base, fallback, 0\.6·cosine in head"
        ):
            tv.compare(base, head)
        forced = tv.compare(base, head, force=True)
        assert (forced.metrics["told"].pairs, forced.metrics["told"].left_out) == (4, 0)

    def test_single_scores_made_in_another_way_are_left_out(self, store):
        base = scored(store, "a", "ok")
        head = scored(store, "a", "ok", others={2: ("b", "fallback")})
        comparison = tv.compare(base, head)
        assert (comparison.metrics["told"].pairs, comparison.metrics["told"].left_out) == (3, 1)
        assert any("told: 1 pairs were made in unlike ways" in line for line in comparison.warnings)

    def test_composites_of_other_parts_are_left_out(self, store):
        settings = {"composite": tv_composite({"told": 1.0, "time": 1.0}), "metrics": (TOLD, "time")}
        base = run_of(store, [0.5, 0.6, 0.7], **settings)
        head = run_of(store, [0.5, "skip", 0.7], **settings)
        comparison = tv.compare(base, head)
        assert any("composite: 1 pairs rest on other parts in head" in line for line in comparison.warnings)

    def test_people_are_not_compared_with_an_agent(self, store):
        base, head = run_of(store, [0.5] * 3), run_of(store, [0.5] * 3)
        head.record = msgspec.structs.replace(head.record, kind="human")
        with pytest.raises(ComparisonError, match="people's own outputs"):
            tv.compare(base, head)


def scored(store, method, status, *, others=None):
    """A run whose scores were made by a method."""
    from trivium.store.records import StoredEvaluation

    made = run_of(store, [0.5, 0.6, 0.7, 0.8])
    record = store.new_run(
        id=f"{made.id}-x",
        suite_name="told",
        suite=made.record.suite,
        kind="recorded",
        settings=made.record.settings,
        provenance={},
        attempts_from=made.record.number,
    )
    evaluations = []
    for stored in store.evaluations(made.record):
        how, what = (others or {}).get(stored.position, (method, status))
        score = msgspec.structs.replace(stored.evaluation.scores["told"], method=how, status=what)
        changed = msgspec.structs.replace(stored.evaluation, scores={"told": score})
        evaluations.append(StoredEvaluation(position=stored.position, evaluation=changed))
    store.save(record, evaluations=evaluations)
    return tv.Run(store, record)


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

    def test_too_few_resamples_for_so_many_figures_are_warned_of(self, store):
        comparison = compared(store, *drawn(25), resamples=50)
        assert any(
            "50 resamples are too few" in line and "take 120 or more" in line for line in comparison.warnings
        )

    @pytest.mark.parametrize(
        ("count", "words"), [(5, "too few to call"), (12, "somewhat too narrow"), (25, None)]
    )
    def test_few_groups_are_warned_of(self, store, count, words):
        warnings = compared(store, *drawn(count)).warnings
        assert warnings == () if words is None else any(words in line for line in warnings)


NOTHING = dict.fromkeys(("wins", "losses", "ties", "n", "pairs", "left_out", "groups", "needs_cases"), 0)
NOTHING |= dict.fromkeys(("delta", "ci95", "p", "share_positive", "mde", "base", "head", "method"))
NOTHING |= {"worst": ()}


def test_a_loss_in_one_of_many_further_figures_must_be_more_than_chance():
    from trivium.runs.comparing.comparison import MetricDelta
    from trivium.runs.comparing.deciding import overall_answer
    from trivium.runs.comparing.options import Options

    def figure(answer, p_holm=None):
        return msgspec.convert(NOTHING | {"answer": answer, "p_holm": p_holm}, MetricDelta)

    options = Options(margin=0.02, level=0.95, resamples=1000, seed=42)

    def answer(**figures):
        return overall_answer(figures, ("composite",), options, same=False)

    assert answer(composite=figure("pass"), cosine=figure("fail", 0.01))[0] == "fail"
    told = answer(composite=figure("pass"), cosine=figure("fail", 0.3))
    assert told[0] == "pass"
    assert "cosine got worse, but no more than chance brings among 2 figures" in told[1]
    assert answer(composite=figure("fail", 0.3), cosine=figure("pass"))[0] == "fail"


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
