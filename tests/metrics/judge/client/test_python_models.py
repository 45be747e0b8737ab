"""A judge may be any model that Python code makes, named by where it is."""

from pathlib import Path

import pytest

import trivium as tv
from trivium.errors import SuiteError
from trivium.metrics.judge.client.pydantic_ai_models import ModelUnavailable, open_model, why_unavailable
from trivium.suites.settings import ServerSettings

CODE = """
import json
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

def saying(level, name):
    async def respond(messages, info):
        asked.append(name)
        names = info.model_request_parameters.output_object.json_schema["properties"]
        answer = {"evidence": [], "reason": name, "level": level, "confidence": 4}
        return ModelResponse(parts=[TextPart(json.dumps(dict.fromkeys(names, answer)))])
    return FunctionModel(respond, model_name="one name")

asked = []
kind = saying("yes", "kind")
def strict():
    return saying("no", "strict")
def broken():
    raise ValueError("no licence")
class Judges:
    nested = saying("yes", "nested")
number = 7
async def fail(messages, info):
    asked.append("failing")
    raise KeyError("no such ending")
failing = FunctionModel(fail, model_name="failing")
"""

RUBRIC = tv.Rubric(
    name="manners",
    dimensions=(tv.Dimension(name="polite", asks="Whether it is polite.", levels={"yes": 1.0, "no": 0.0}),),
)


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_judges.py").write_text(CODE, encoding="utf-8")


def judged(model: str, **judge: object) -> tv.Run:
    suite = tv.Suite(cases=[tv.Case(id="1", input="hello")], name="manners").with_settings(
        metrics=["polite"], judge={"models": [model], "rubric": [RUBRIC], **judge}
    )
    return tv.evaluate(suite, agent=lambda question: question)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("own_judges:kind", 1.0),
        ("own_judges:strict", 0.0),
        ("own_judges:Judges.nested", 1.0),
        ("own_judges.py:strict", 0.0),
    ],
)
def test_a_model_or_a_function_that_returns_one_judges(path: str, expected: float) -> None:
    score = next(judged(f"python:{path}").evaluations()).scores["polite"]

    assert (score.status, score.value) == ("ok", expected)
    assert score.detail["model"] == f"python:{path}"
    assert score.detail["signals"]["verbalized_confidence"] == 4


def test_two_models_that_call_themselves_the_same_share_no_answer() -> None:
    values = [
        next(judged(f"python:own_judges:{each}").evaluations()).scores["polite"].value
        for each in ("kind", "strict")
    ]
    assert values == [1.0, 0.0]


def test_an_answer_is_cached_and_counted_under_the_name_of_the_suite() -> None:
    name = "python:own_judges:kind"
    first = judged(name, prices={name: {"input": 1.0, "output": 1.0}})
    again = judged(name, prices={name: {"input": 1.0, "output": 1.0}})

    import own_judges

    assert own_judges.asked == ["kind"]
    assert first.summary().spent.cost_usd > 0
    assert list(first.summary().spent.models) == [name]
    assert again.summary().spent.requests == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_judges:kid", 'own_judges has no "kid". Did you mean "kind"?'),
        ("no_such_judges:kind", 'there is no module "no_such_judges"'),
        ("own_judges", 'names no model; expected "package.module:name" or "file.py:name"'),
        ("own_judges:number", 'gives "int", expected a model of PydanticAI'),
        ("own_judges:broken", "failed: ValueError: no licence"),
    ],
)
def test_a_path_without_a_model_is_refused_before_anything_is_asked(path: str, message: str) -> None:
    assert message in str(why_unavailable(f"python:{path}"))
    with pytest.raises(SuiteError, match="judge.models"):
        judged(f"python:{path}")


def test_a_model_that_raises_is_asked_once_and_says_what_it_raised() -> None:
    score = next(judged("python:own_judges:failing", on_failure="skip").evaluations()).scores["polite"]

    import own_judges

    assert score.status == "skipped"
    assert "own_judges:failing failed: KeyError: 'no such ending'" in score.reason
    assert own_judges.asked == ["failing"]


def test_a_base_url_for_such_a_model_is_refused() -> None:
    with pytest.raises(ModelUnavailable, match="has no base URL that judge.servers could set"):
        open_model("python:own_judges:kind", ServerSettings(base_url="http://127.0.0.1:1"))
