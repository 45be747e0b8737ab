"""Steps of comparing.feature."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from tests.features.world import World

scenarios("comparing.feature")


class Versions:
    """An agent before and after a change, by how many questions it answers right."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.options: list[str] = []
        self.questions = 40
        self.documents: int | None = None
        self.asked = "What is {}?"
        self.right = 0
        self.base = ""
        self.comparison: Any = None

    def run(self, right: int) -> str:
        cases = [
            {"id": f"q{i}", "input": self.asked.format(i), "references": [f"right {i}"]}
            | ({"group": f"d{i % self.documents}"} if self.documents else {})
            for i in range(self.questions)
        ]
        suite = {"name": "questions", "metrics": ["success"], "success": {"exact": True}, "cases": cases}
        Path("suite.json").write_text(json.dumps(suite))
        outputs = [
            {"case": f"q{i}", "output": f"right {i}" if i < right else f"wrong {i}"}
            for i in range(self.questions)
        ]
        Path("outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in outputs))
        return self._world.ask("score", "suite.json", "--outputs", "outputs.jsonl")["run"]

    def compare(self, right: int) -> None:
        base = self.run(self.right) if not self.base else self.base
        head = self.run(right)
        self._world.call("compare", base, head, "--json", *self.options)
        self.comparison = self._world.answer if self._world.out else None


@pytest.fixture
def versions(world: World) -> Versions:
    return Versions(world)


@given(parsers.parse("an agent that was right on {right:d} of 40 questions"))
def was_right(versions: Versions, right: int) -> None:
    versions.right = right


@given(parsers.parse("the policy is {policy}"))
def has_a_policy(versions: Versions, policy: str) -> None:
    versions.options = ["--policy", policy]


@given(parsers.parse("the questions are about {count:d} documents"))
def about_documents(versions: Versions, count: int) -> None:
    versions.documents = count


@when(parsers.parse("it is changed so that it is right on {right:d} of them"))
def is_changed(versions: Versions, right: int) -> None:
    versions.compare(right)


@when("it is run again and says the same")
def says_the_same(versions: Versions) -> None:
    versions.compare(versions.right)


@when("it is asked other questions under the same names")
def is_asked_others(versions: Versions) -> None:
    versions.base = versions.run(versions.right)
    versions.asked = "What else is {}?"
    versions.compare(versions.right)


@then(parsers.parse("the comparison ends with {code:d}"))
def comparison_ends_with(world: World, code: int) -> None:
    assert world.code == code, world.err


@then("it says that nothing is proven")
def says_that_nothing_is_proven(versions: Versions) -> None:
    assert versions.comparison["proof"] == "inconclusive"


@then(parsers.re(r"it says (?P<answer>pass|fail|inconclusive)$"))
def says(versions: Versions, answer: str) -> None:
    assert versions.comparison["answer"] == answer


@then("it names a question that was right before and is wrong now")
def names_a_loss(versions: Versions) -> None:
    lost = {f"q{i}" for i in range(10, 30)}
    assert versions.comparison["moved"]
    assert set(versions.comparison["moved"]) <= lost


@then("every question that moved was wrong before and is right now")
def moved_up(versions: Versions) -> None:
    rate = versions.comparison["metrics"]["pass_rate"]
    assert (rate["wins"], rate["losses"], rate["ties"]) == (20, 0, 20)


@then("it says how many more questions would settle it")
def says_what_settles(versions: Versions) -> None:
    assert versions.comparison["metrics"]["pass_rate"]["needs_cases"] > 0


@then("it says that the questions have changed")
def says_rewritten(world: World) -> None:
    assert "40 of the cases have changed" in world.err


@then("its interval is wider than if every question were its own document")
def is_wider(versions: Versions) -> None:
    clustered = versions.comparison["metrics"]["pass_rate"]
    assert clustered["groups"] == versions.documents
    versions.documents = None
    versions.compare(10)
    alone = versions.comparison["metrics"]["pass_rate"]
    assert clustered["ci95"][1] - clustered["ci95"][0] > alone["ci95"][1] - alone["ci95"][0]
