"""Tests the human ceiling, which is shown only beside comparable scores."""

import json
from pathlib import Path

import numpy as np
import pytest

import trivium as tv
from trivium.runs.human_ceiling import leave_one_out_values

PAPERS = Path(__file__).parents[2] / "examples" / "paper_review" / "papers"
SOURCE = f"peerread:{PAPERS}"


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "store.db")


def people(store, encoder) -> tv.Run:
    suite = tv.Suite.load(SOURCE, encoder=str(encoder))
    return tv.evaluate(
        suite, outputs=SOURCE, leave_one_out=True, metrics=["similarity", "jaccard"], store=store
    )


def agent(store, encoder) -> tv.Run:
    suite = tv.Suite.load(SOURCE, encoder=str(encoder))
    return tv.evaluate(suite, agent=lambda question: "A fine paper.", metrics=["similarity"], store=store)


def test_the_same_encoder_gives_a_ceiling(store, tiny_folder):
    reached = people(store, tiny_folder).summary()
    summary = agent(store, tiny_folder).summary()
    assert summary.human_ceiling["similarity"].mean == pytest.approx(reached.metrics["similarity"].mean)
    assert summary.human_ceiling["similarity"].run_mean is not None
    assert not [each for each in summary.warnings if "ceiling" in each]


def test_a_fallback_is_not_read_against_an_encoder(store, tiny_folder):
    people(store, tiny_folder)
    summary = agent(store, "no..such").summary()
    assert "similarity" not in summary.human_ceiling
    assert "jaccard" in summary.human_ceiling
    assert any(each.startswith("the human ceiling of similarity is left out") for each in summary.warnings)


def test_people_have_no_ceiling_above_themselves(store, tiny_folder):
    people(store, tiny_folder)
    assert people(store, tiny_folder).summary().human_ceiling is None


def test_a_gate_on_what_was_not_measured_says_so(store):
    suite = tv.Suite(
        name="s",
        cases=[tv.Case(id="1", input="x", references=("x",))],
        settings=tv.Suite.from_dict(
            {
                "cases": [{"id": "1", "input": "x"}],
                "metrics": ["jaccard"],
                "gates": {"cosine": {"at_least": 1}},
            }
        ).settings,
    )
    summary = tv.evaluate(suite, agent=lambda question: question, store=store).summary()
    assert summary.gates[0].answer == "inconclusive"
    assert any(each.startswith("the gate on cosine has no answer") for each in summary.warnings)


WORDS = [f"word{number}" for number in range(60)]


def text(rng) -> str:
    return " ".join(rng.choice(WORDS, size=15))


@pytest.fixture
def papers(tmp_path):
    """Papers with 1 to 4 reviews drawn from one distribution, and an agent's reviews from the same."""
    rng = np.random.default_rng(7)
    (tmp_path / "pr/dev/reviews").mkdir(parents=True)
    outputs = []
    for number in range(300):
        reviews = [{"comments": text(rng)} for _ in range(1 + number % 4)]
        paper = {"id": str(number), "reviews": reviews}
        (tmp_path / f"pr/dev/reviews/{number}.json").write_text(json.dumps(paper))
        outputs.append(json.dumps({"case": str(number), "output": text(rng)}))
    (tmp_path / "outputs.jsonl").write_text("\n".join(outputs))
    return tmp_path


def scored(papers, references, **of):
    success = {"metric": "jaccard", "at_least": 0.2}
    suite = tv.Suite.load(f"peerread:{papers / 'pr'}", references=references, success=success)
    options = {"metrics": ["cosine", "jaccard", "success"], "store": f"sqlite:///{papers / 'store.db'}"}
    return tv.evaluate(suite, **options, **of).summary()


@pytest.mark.parametrize("references", ["best", "mean"])
def test_an_agent_that_writes_like_people_scores_like_them(papers, references):
    people = scored(papers, references, outputs=f"peerread:{papers / 'pr'}", leave_one_out=True)
    summary = scored(papers, references, outputs=papers / "outputs.jsonl")
    for name in ("cosine", "jaccard", "success"):
        beside = summary.human_ceiling[name]
        assert beside.mean == pytest.approx(people.metrics[name].mean)
        assert beside.n == people.metrics[name].n == 75 * (2 + 3 + 4)
        assert beside.run_ci95[0] < beside.mean < beside.run_ci95[1]
        assert beside.ci95[0] < beside.run_mean < beside.ci95[1]


def test_people_scored_with_other_settings_are_not_shown(papers):
    scored(papers, "best", outputs=f"peerread:{papers / 'pr'}", leave_one_out=True)
    summary = scored(papers, "mean", outputs=papers / "outputs.jsonl")
    assert summary.human_ceiling is None
    (warning,) = [each for each in summary.warnings if "ceiling" in each]
    assert warning.endswith("scored people with other settings (references: mean here)")
    # With both at hand the run that is like this one is taken.
    scored(papers, "mean", outputs=f"peerread:{papers / 'pr'}", leave_one_out=True)
    scored(papers, "best", outputs=f"peerread:{papers / 'pr'}", leave_one_out=True)
    assert scored(papers, "mean", outputs=papers / "outputs.jsonl").human_ceiling is not None


def test_another_rule_of_success_is_not_shown_beside_people(papers):
    scored(papers, "best", outputs=f"peerread:{papers / 'pr'}", leave_one_out=True)
    suite = tv.Suite.load(f"peerread:{papers / 'pr'}", success={"metric": "jaccard", "at_least": 0.5})
    run = tv.evaluate(
        suite,
        outputs=papers / "outputs.jsonl",
        metrics=["jaccard", "success"],
        store=f"sqlite:///{papers / 'store.db'}",
    )
    assert "success" not in run.summary().human_ceiling
    assert any("scored people by jaccard ≥ 0.2" in each for each in run.summary().warnings)


@pytest.mark.parametrize(
    ("raw", "reduce", "left"),
    [
        ([0.2, 0.6, 0.4], "best", [0.6, 0.4, 0.6]),
        ([0.2, 0.6, 0.4], "mean", [0.5, 0.3, 0.4]),
        ([0.5], "best", None),
        (0.5, "best", None),
        ([None, 0.5], "best", None),
    ],
)
def test_each_reference_is_left_out_in_turn(raw, reduce, left):
    assert leave_one_out_values(raw, reduce) == (left if left is None else pytest.approx(left))
