"""The names that users import, pinned: taking one away is a decision, not an accident."""

import subprocess
import sys
from importlib.metadata import version

import trivium as tv

PUBLIC = {
    "Attempt",
    "Case",
    "Comparison",
    "Criterion",
    "Dimension",
    "Example",
    "Expect",
    "ExpectedTool",
    "Level",
    "Message",
    "Metric",
    "PairComparison",
    "RegressionError",
    "Rubric",
    "Run",
    "Score",
    "Span",
    "Suite",
    "TextMetric",
    "Trace",
    "TraceMetric",
    "TriviumError",
    "Usage",
    "__version__",
    "compare",
    "evaluate",
    "evaluate_async",
    "judge_pairs",
    "metric",
    "score",
    "trace",
    "trust",
}


def test_the_public_names_are_these() -> None:
    assert set(tv.__all__) == PUBLIC


def test_every_public_name_is_there_and_documented() -> None:
    for name in PUBLIC - {"__version__"}:
        assert getattr(tv, name).__doc__, name


def test_dir_offers_what_can_be_imported() -> None:
    assert set(dir(tv)) >= PUBLIC


def test_the_version_is_that_of_the_installed_package() -> None:
    assert tv.__version__ == version("trivium")


def test_an_unknown_name_is_an_attribute_error() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", "import trivium; trivium.evalute"], capture_output=True, text=True, check=False
    )
    assert "AttributeError: module 'trivium' has no attribute 'evalute'" in answer.stderr
