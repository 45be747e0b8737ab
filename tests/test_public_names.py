"""The names that users import, pinned: taking one away is a decision, not an accident."""

import asyncio
import inspect
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

import trivium as tv

PUBLIC = {
    "Attempt",
    "Case",
    "Comparison",
    "ComparisonPlan",
    "Criterion",
    "Dimension",
    "Example",
    "Expect",
    "ExpectedTool",
    "InputError",
    "JudgeSettings",
    "Level",
    "Message",
    "Metric",
    "MetricInput",
    "MissingExtra",
    "Monitor",
    "PairComparison",
    "RegressionError",
    "Rubric",
    "Run",
    "Score",
    "Settings",
    "Skip",
    "Span",
    "Store",
    "Suite",
    "Summary",
    "TextMetric",
    "Trace",
    "TraceMetric",
    "TraceReport",
    "TriviumError",
    "Usage",
    "World",
    "__version__",
    "compare",
    "confirm",
    "confirm_async",
    "evaluate",
    "evaluate_async",
    "judge_pairs",
    "plan",
    "metric",
    "mock_tools",
    "read_traces",
    "score",
    "score_traces",
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


PLAIN = {
    "compare": tv.compare,
    "confirm": tv.confirm,
    "confirm_async": tv.confirm_async,
    "evaluate": tv.evaluate,
    "evaluate_async": tv.evaluate_async,
    "judge_pairs": tv.judge_pairs,
    "score": tv.score,
    "score_traces": tv.score_traces,
    "Suite.load": tv.Suite.load,
}
"""Functions whose keywords are all spelt out."""


@pytest.mark.parametrize("name", PLAIN)
def test_every_keyword_is_spelt_out_typed_and_explained(name: str) -> None:
    explained = inspect.getdoc(PLAIN[name.removesuffix("_async")]) or ""
    for parameter in inspect.signature(PLAIN[name]).parameters.values():
        assert parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
        assert parameter.annotation is not parameter.empty, parameter.name
        assert f"\n    {parameter.name}: " in explained, parameter.name


@pytest.mark.parametrize("name", PLAIN)
def test_a_wrong_keyword_is_a_type_error_that_names_the_function(name: str) -> None:
    called = _called(name, agnet="x")
    assert called.startswith(f"{name}() got an unexpected keyword argument 'agnet'")


@pytest.mark.parametrize("name", ["evaluate", "evaluate_async", "Suite.load", "compare", "confirm", "score"])
def test_a_wrong_keyword_of_a_record_names_the_nearest(name: str) -> None:
    assert _called(name, sed=1).endswith('. Did you mean "seed"?')
    assert _called(name, zzz=1).endswith("'zzz'.")


def _called(name: str, **given: Any) -> str:
    """The TypeError of a call with these keywords and nothing for the required arguments."""
    parameters = inspect.signature(PLAIN[name]).parameters.values()
    required = [None for parameter in parameters if parameter.default is parameter.empty]

    async def call() -> None:
        answer = PLAIN[name](*required, **given)
        if inspect.isawaitable(answer):
            await answer

    with pytest.raises(TypeError) as raised:
        asyncio.run(call())
    return str(raised.value)


@pytest.mark.parametrize("name", ["evaluate", "confirm"])
def test_both_ways_take_the_same(name: str) -> None:
    """So that one of them explains it."""
    waits, does_not = PLAIN[name], PLAIN[f"{name}_async"]
    assert f"are those of :func:`{name}`" in (inspect.getdoc(does_not) or "")
    assert inspect.signature(waits).parameters == inspect.signature(does_not).parameters


def test_traces_of_a_file_are_read_by_their_public_name() -> None:
    from trivium.traces.readers.collection import read_trace_file

    assert tv.read_traces is read_trace_file
