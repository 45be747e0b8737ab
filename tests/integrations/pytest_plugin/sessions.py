"""Sessions of pytest in a folder with a suite of four capitals, and what they leave there."""

from collections import Counter
from pathlib import Path

import pytest

import trivium as tv

ROOT = Path(__file__).parents[3]


PLUGIN = ("-p", "trivium.integrations.pytest.plugin", "-p", "no:cacheprovider")


SUITE = """
name: capitals
metrics: [jaccard, success]
success: {metric: jaccard, at_least: 0.9}
composite: {weights: {success: 1}}
cases:
  - {id: fr, input: France, references: [Paris]}
  - {id: pe, input: Peru, references: [Lima]}
  - {id: la, input: Laos, references: [Vientiane]}
  - {id: it, input: Italy, references: [Rome]}
"""


AGENT = """
def agent(country, *, repeat=0):
    with open("asked.txt", "a") as file:
        file.write(f"{country} {repeat}\\n")
    if country == "Italy":
        raise ValueError("never heard of it")
    return {"France": "Paris", "Peru": "Lima"}.get(country, "Nowhere")
"""


def session(folder: pytest.Pytester, *options: str) -> pytest.RunResult:
    return folder.runpytest_inprocess(*PLUGIN, *options)


def write_tests(folder: pytest.Pytester, body: str, mark: str = '"capitals.yaml", agent=agent') -> None:
    head = f"import pytest\nfrom capital_agents import agent\npytestmark = pytest.mark.trivium({mark})\n"
    folder.path.joinpath("test_capitals.py").write_text(head + body)


def asked(folder: pytest.Pytester) -> Counter[str]:
    file = folder.path / "asked.txt"
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def runs(folder: pytest.Pytester) -> list[str]:
    with tv.Run.load(store=str(folder.path / ".trivium" / "store.db")).store as store:
        return [record.id for record in store.runs()]


def record_answers(folder: pytest.Pytester, name: str, wrong: set[int], many: int = 60) -> None:
    """A suite of many questions, and recorded answers of which some are wrong."""
    lines = "\n".join(
        f'{{"case": "q{i}", "output": "{"no idea" if i in wrong else f"city {i}"}"}}' for i in range(many)
    )
    folder.path.joinpath(name).write_text(lines)
    cases = "".join(f"  - {{id: q{i}, input: q, references: [city {i}]}}\n" for i in range(many))
    folder.path.joinpath("many.yaml").write_text(SUITE.partition("  - ")[0] + cases)


ASSERTING_ALL = "def test_all(trivium_run):\n    pass\n"


ASSERTING_EACH = "def test_one(trivium_attempt):\n    assert trivium_attempt.passed\n"
