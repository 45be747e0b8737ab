"""Metrics that somebody else wrote: whatever they do, it is a score or an error of that attempt."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import trivium as tv
from trivium.errors import SuiteError
from trivium.metrics.metric import Metric, TextMetric
from trivium.metrics.registry import REGISTERED, build_metrics, metric
from trivium.metrics.scoring import score_attempts
from trivium.suites.settings import Settings


@metric("told_outside")
class Told(TextMetric):
    """Gives back whatever the test says."""

    says: object = None

    def compare(self, output, reference):
        return self.says() if callable(self.says) else self.says


def compared(says):
    case = tv.Case(id="a", input="q", references=("x",))
    (scores,) = score_attempts([Told(says=says)], [(case, tv.Attempt(case="a", output="o"))])
    return scores["told_outside"]


def leave():
    sys.exit(3)


class Odd(BaseException):
    """Is caught by hardly anybody."""


def be_odd():
    raise Odd("gone")


@pytest.mark.parametrize(
    ("says", "value"),
    [(True, 1.0), (0, 0.0), (np.float32(0.25), 0.25), (np.bool_(True), 1.0), (1 + 1e-12, 1.0), (-1e-12, 0.0)],
)
def test_numbers_of_any_kind_are_values(says, value):
    score = compared(says)
    assert (score.status, score.value) == ("ok", value)
    assert type(score.value) is float
    json.dumps(score.raw)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (5.0, "the value is 5.0, expected a number in [0, 1]"),
        (math.nan, "the value is nan"),
        (math.inf, "the value is inf"),
        ("0.5", "the value is '0.5'"),
        (None, "the value is None"),
        (1j, "the value is 1j"),
        (leave, "SystemExit: 3"),
        (be_odd, "Odd: gone"),
    ],
)
def test_nonsense_is_an_error_of_that_attempt(says, reason):
    score = compared(says)
    assert (score.status, score.value) == ("error", None)
    assert score.reason is not None
    assert score.reason.startswith(reason)


@metric("whole_outside")
class Whole(Metric):
    """Gives back whatever the test says, for all attempts at once."""

    says: object = None

    def score_many(self, subjects):
        subjects.clear()
        return self.says


# Suites of other tests that name no metrics are scored by all that there are.
for each in (Told, Whole):
    del REGISTERED[each.name]


@pytest.fixture(autouse=True)
def _no_more_metrics_than_before():
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ([], "TypeError: score_many gave 0 scores, expected a list of 1"),
        (None, "TypeError: score_many gave something of type NoneType"),
        ([0.5], "gave something of type float, expected a Score"),
        ([Whole().ok(0.5, raw=object())], "the raw is an object, which is no JSON value"),
        ([Whole().ok(0.5, detail={"a": {1}})], "detail.a is a set"),
        ([Whole().ok(0.5, raw="x" * 2_000_000)], "the raw is larger than 1,000,000 bytes"),
        ([tv.Score(name="x", tier="text", value=1, status="great")], 'the status is "great", expected one'),
    ],
)
def test_what_cannot_be_stored_is_an_error_of_that_attempt(says, reason):
    pairs = [(tv.Case(id="a", input="q"), tv.Attempt(case="a", output="o"))]
    (scores,) = score_attempts([Whole(says=says)], pairs)
    score = scores["whole_outside"]
    assert score.status == "error"
    assert score.reason is not None
    assert score.reason.startswith(reason)


def test_a_figure_that_is_reported_and_not_scored_needs_no_value():
    pairs = [(tv.Case(id="a", input="q"), tv.Attempt(case="a", output="o"))]
    (scores,) = score_attempts([Whole(says=[Whole().ok(None, raw=12)])], pairs)
    assert (scores["whole_outside"].status, scores["whole_outside"].raw) == ("ok", 12)


def test_one_bad_attempt_costs_the_others_nothing():
    values = iter([0.5, 7.0, 0.25])
    case = tv.Case(id="a", input="q", references=("x",))
    pairs = [(case, tv.Attempt(case="a", repeat=i, output="o")) for i in range(3)]
    scores = score_attempts([Told(says=lambda: next(values))], pairs)
    assert [each["told_outside"].value for each in scores] == [0.5, None, 0.25]


def test_a_metric_names_fields_that_cases_have():
    @metric("frugal_outside", case_fields=["expect.tools"])
    class Frugal(Metric):
        """Needs the expected calls."""

    del REGISTERED["frugal_outside"]  # not by monkeypatch, which puts it back for the tests that follow
    assert Frugal().case_fields == ("expect.tools",)
    for wrong in ("references", ["expect.tool"]):
        with pytest.raises(ValueError, match=r'of the metric "frugal": found .*, expected a list of id, '):
            metric("frugal", case_fields=wrong)


class TestNames:
    def test_of_trivium_are_not_taken(self):
        with pytest.raises(ValueError, match='a metric of Trivium is called "jaccard"; give Mine another'):

            @metric("jaccard")
            class Mine(TextMetric):
                """Would replace a metric in silence."""

    def test_are_needed(self, tmp_path, monkeypatch):
        with pytest.raises(ValueError, match="a metric needs a name"):
            metric(" ")
        (tmp_path / "nameless.py").write_text(
            "from trivium import TextMetric\nclass Bare(TextMetric):\n    pass\n"
        )
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SuiteError, match='"nameless:Bare" has no name: it lacks the decorator'):
            build_metrics(["nameless:Bare"], Settings())

    def test_of_two_metrics_differ(self, tmp_path, monkeypatch):
        for name in ("one_twin", "other_twin"):
            (tmp_path / f"{name}.py").write_text(
                "from trivium import TextMetric, metric\n@metric('twin')\nclass Twin(TextMetric):\n    pass\n"
            )
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SuiteError, match='"other_twin:Twin": another metric is called "twin" too'):
            build_metrics(["one_twin:Twin", "other_twin:Twin"], Settings())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("divides", "1 / 0"),
        ("broken", "def broken(:"),
        ("leaves", "import sys; sys.exit(4)"),
        ("lacks", "import nowhere_at_all"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_plainly(tmp_path, monkeypatch, name, code):
    (tmp_path / f"metric_that_{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SuiteError, match=f'"metric_that_{name}:Metric" cannot be loaded'):
        build_metrics([f"metric_that_{name}:Metric"], Settings())


def test_the_installed_command_finds_metrics_in_the_working_folder(tmp_path):
    (tmp_path / "ours.py").write_text(
        "from trivium import TextMetric, metric\n"
        "@metric('half')\n"
        "class Half(TextMetric):\n"
        "    def compare(self, output, reference): return 0.5\n"
    )
    case = {"id": "a", "input": "q", "references": ["r"]}
    (tmp_path / "s.json").write_text(json.dumps({"metrics": ["ours:Half"], "cases": [case]}))
    (tmp_path / "o.jsonl").write_text('{"case": "a", "output": "o"}')
    # -P leaves the working folder out of Python's path, as it is when a script of an environment is started.
    start = "from trivium.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", start, "score", "s.json", "--outputs", "o.jsonl", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["metrics"]["half"]["mean"] == 0.5


@pytest.fixture
def plug_in(tmp_path):
    """A package that is installed, declares a metric, and lacks what it needs."""
    declared = tmp_path / "plug" / "graders-1.0.dist-info"
    declared.mkdir(parents=True)
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: graders\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text("[trivium.metrics]\nbroken = graders.metric:Broken\n")
    case = {"id": "a", "input": "q", "references": ["r"]}
    (tmp_path / "s.json").write_text(json.dumps({"cases": [case]}))
    (tmp_path / "o.jsonl").write_text('{"case": "a", "output": "o"}')

    def call(*arguments):
        command = [sys.executable, "-m", "trivium", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "plug")}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)

    return call


def test_a_broken_package_is_named_with_a_remedy_and_passed_over(plug_in):
    message = (
        "warning: metric \"broken\" cannot be loaded: No module named 'graders' (declared by the package "
        "graders: repair that package, or pip uninstall graders); it is passed over"
    )
    done = plug_in("score", "s.json", "--outputs", "o.jsonl", "--json")
    assert "jaccard" in json.loads(done.stdout)["metrics"]
    assert done.stderr.count(message) == 1
    listed = plug_in("show", "metrics")
    assert (listed.returncode, "broken" in listed.stdout, message in listed.stderr) == (0, False, True)


def test_a_metric_of_a_broken_package_is_refused_where_it_is_asked_for(plug_in):
    done = plug_in("score", "s.json", "--outputs", "o.jsonl", "--metrics", "broken")
    assert done.returncode == 2
    assert (
        "metrics[0]: \"broken\" cannot be loaded: No module named 'graders' (declared by the" in done.stderr
    )


@pytest.mark.parametrize("messages", [None, {"coordination": ["plan"]}])
def test_the_setting_of_messages_is_not_the_conversation_of_the_attempt(messages):
    @metric("no_conversation")
    class NoConversation(Metric):
        """1 if the attempt was no conversation."""

        def score(self, metric_input):
            return self.ok(float(metric_input.attempt.messages == ()))

    scored = tv.score("no_conversation", output="o", messages=messages)
    del REGISTERED["no_conversation"]
    assert scored.value == 1.0
