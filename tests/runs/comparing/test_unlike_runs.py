"""Tests which runs are comparable, and which attempts stay unpaired."""

import msgspec
import pytest

import trivium as tv
from tests.runs.comparing.told_runs import compared, run_of, scored
from tests.runs.suites import TOLD, told_suite, tv_composite
from trivium.errors import ComparisonError
from trivium.store.records import JudgedWith, Provenance
from trivium.suites.settings import JudgeSettings, PassRule


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
        assert (figure["told"].missing, figure["told"].answer) == (1, "inconclusive")

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
        store.acquire(head.record)
        comparison = tv.compare(base, tv.Run.load(head.id, store=store))
        assert "head is not finished (running)" in comparison.warnings

    def test_agreement_of_the_repeats_is_compared_by_case(self, store, monkeypatch):
        base, head = run_of(store, [[0.5, 0.6]] * 3, repeats=2), run_of(store, [[0.5, 0.6]] * 3, repeats=2)
        from trivium.metrics.metric import Score

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

    @pytest.mark.parametrize("part", ["metrics", "judge.prompts"])
    def test_by_the_version_of_a_metric_or_a_prompt_are_refused(self, store, part):
        base, head = run_of(store, [0.5] * 3), run_of(store, [0.5] * 3)
        for run, version in ((base, "1"), (head, "2")):
            versions = {"told": version} | ({"own": version} if run is head else {})
            judge = JudgedWith(prompts=versions)
            made = Provenance(metrics=versions) if part == "metrics" else Provenance(judge=judge)
            run.record = msgspec.structs.replace(run.record, provenance=made)
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
        with pytest.raises(ComparisonError, match=r"6 of the cases have changed: q1, q2, q3, q4, q5, …"):
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


class TestRecorders:
    """One job, recorded by two frameworks: one tells a request and an answer, the other a hand-off."""

    @staticmethod
    def run(tmp_path, *recorders):
        def agent(question, repeat):
            recorder = recorders[int(question) % len(recorders)]
            kind = "handoff" if recorder == "langgraph" else "task_request"
            message = {"sender": "a", "receiver": "b", "type": kind}
            trace = {"spans": [], "messages": [message], "metadata": {"recorders": [recorder]}}
            return {"output": "x", "trace": trace}

        suite = tv.Suite(cases=[tv.Case(id=f"q{n}", input=str(n)) for n in range(4)], name="team")
        metrics = ["coordination_quality", "communication_overhead"]
        return tv.evaluate(suite, agent=agent, metrics=metrics, store=f"sqlite:///{tmp_path}/runs.db")

    def test_hand_off_metrics_are_not_compared_across_recorders_unless_forced(self, tmp_path):
        base, head = self.run(tmp_path, "pydantic-ai"), self.run(tmp_path, "langgraph")
        with pytest.raises(ComparisonError) as refused:
            tv.compare(base, head)
        assert (
            "coordination_quality: global_efficiency, recorded by pydantic-ai in base, global_efficiency, "
            "recorded by langgraph in head (4 pairs)"
        ) in str(refused.value)
        forced = tv.compare(base, head, force=True)
        assert any("unlike: communication_overhead: recorded by" in line for line in forced.warnings)
        assert forced.metrics["coordination_quality"].delta == pytest.approx(-1.0)
        assert tv.compare(base, self.run(tmp_path, "pydantic-ai")).answer == "pass"

    def test_a_run_that_mixes_them_is_warned_of(self, tmp_path):
        warnings = self.run(tmp_path, "pydantic-ai", "langgraph").summary().warnings
        assert (
            "coordination_quality mixes traces recorded by langgraph; by pydantic-ai, which record hand-offs "
            "differently: compare it within one of them"
        ) in warnings

    def test_a_run_of_one_framework_says_what_its_figures_may_be_compared_with(self, tmp_path):
        summary = self.run(tmp_path, "langgraph").summary()
        assert not any("hand-offs" in line for line in summary.warnings)
        assert (
            "coordination_quality and communication_overhead count hand-offs as langgraph records them, and "
            "other frameworks record them differently: compare within one"
        ) in summary.notes
        assert not any("hand-offs" in line for line in self.run(tmp_path, "trivium").summary().notes)
