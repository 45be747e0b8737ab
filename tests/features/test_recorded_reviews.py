"""Steps of recorded_reviews.feature."""

import json
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from tests.features.world import World
from trivium.suites.suite import Suite

scenarios("recorded_reviews.feature")

PAPERS = Path(__file__).parents[2] / "examples" / "paper_review" / "papers"
SOURCE = f"peerread:{PAPERS}"


@given("the papers of the example with their reviews", target_fixture="papers")
def papers(world: World) -> Suite:
    settings = {
        "name": "papers",
        "peerread": str(PAPERS),
        "metrics": ["cosine", "jaccard", "similarity", "success"],
        "similarity": {"cosine": 0.6, "jaccard": 0.4},
    }
    Path("papers.json").write_text(json.dumps(settings))
    return Suite.load("papers.json")


def record(suite: Suite, count: int) -> None:
    outputs = [{"case": case.id, "output": f"A review. {case.source[:400]}"} for case in suite][:count]
    outputs[0]["output"] = suite.cases[0].references[0]
    Path("reviews.jsonl").write_text("".join(json.dumps(one) + "\n" for one in outputs))


@given(parsers.parse("recorded reviews of {count:d} papers, one of them copied from a person"))
@given(parsers.parse("recorded reviews of {count:d} papers"))
def recorded(world: World, papers: Suite, count: int) -> None:
    record(papers, count)


@given("a recorded review of a paper that is not among them")
def of_another_paper(world: World) -> None:
    Path("reviews.jsonl").write_text('{"case": "no such paper", "output": "A review."}\n')


@given("an agent that counts how often it is asked")
def counting_agent(world: World) -> None:
    Path("counting.py").write_text(
        "def answer(question):\n"
        "    with open('asked.log', 'a') as log:\n"
        "        log.write(question + '\\n')\n"
        "    return question\n"
    )


@given(parsers.parse("the agent was run on {count:d} questions"))
def was_run(world: World, count: int) -> None:
    cases = [{"id": f"{i}", "input": f"question {i}", "references": ["question"]} for i in range(count)]
    suite = {"name": "questions", "metrics": ["jaccard"], "cases": cases}
    Path("questions.json").write_text(json.dumps(suite))
    world.call("run", "questions.json", "--agent", "counting.py:answer", "--quiet")
    assert world.code == 0


@when("the recorded reviews are scored")
def score(world: World) -> None:
    world.call("score", "papers.json", "--outputs", "reviews.jsonl", "--json")


@when("people's reviews are scored against one another")
def score_people(world: World) -> None:
    world.call("score", "papers.json", "--outputs", SOURCE, "--leave-one-out", "--quiet")
    assert world.code == 0, world.err


@when("the run is scored again with another metric")
def score_again(world: World) -> None:
    run = world.ask("list")[0]["run"]
    world.call("score", "questions.json", "--attempts-of", run, "--metrics", "cosine", "--quiet")
    assert world.code == 0, world.err


@then(parsers.parse("the copied review has the similarity {value:g}"))
def copied(world: World, papers: Suite, value: float) -> None:
    (first, *_) = [row for row in world.rows() if row["metric"] == "similarity"]
    assert first["case"] == papers.cases[0].id
    assert first["value"] == pytest.approx(value)


@then("every other review has a lower similarity")
def others(world: World) -> None:
    (first, *rest) = [row["value"] for row in world.rows() if row["metric"] == "similarity"]
    assert max(rest) < first


@then(parsers.parse("{count:d} attempt is reported as missing"))
def missing(world: World, count: int) -> None:
    assert world.answer["missing"] == count
    assert f"{count} of 6 attempts are missing" in world.answer["warnings"]


@then("nothing missing was counted as a 0")
def not_a_zero(world: World) -> None:
    answer = world.answer
    values = [row["value"] for row in world.rows() if row["metric"] == "cosine"]
    assert len(values) == answer["metrics"]["cosine"]["n"] == 5
    assert answer["metrics"]["cosine"]["mean"] == pytest.approx(sum(values) / 5)
    assert answer["metrics"]["cosine"]["coverage"] == pytest.approx(5 / 6)


@then("the message names the file, the line and the paper")
def names_it(world: World) -> None:
    assert 'reviews.jsonl: line 1: the suite has no case "no such paper"' in world.err


@then("no run is stored")
def nothing_stored(world: World) -> None:
    assert not Path(".trivium/store.db").exists()


@then(parsers.parse("the agent was asked {count:d} times"))
def asked(world: World, count: int) -> None:
    assert len(Path("asked.log").read_text().splitlines()) == count


@then("both runs are listed")
def both(world: World) -> None:
    assert [run["attempts"] for run in world.ask("list")] == [4, 4]


@then("the report shows what people reach beside the agent's scores")
def ceiling(world: World) -> None:
    ceiling = world.answer["human_ceiling"]
    assert ceiling["similarity"]["mean"] < world.answer["metrics"]["similarity"]["mean"]
    world.call("show")
    assert "human" in world.out


@then("what people reach lies under the bar of success")
def under_the_bar(world: World) -> None:
    assert world.ask("show")["human_ceiling"]["similarity"]["mean"] < 0.8
