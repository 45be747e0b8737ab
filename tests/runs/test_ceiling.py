"""The human ceiling stands beside scores that were made in the same way, and beside no others."""

from pathlib import Path

import pytest

import trivium as tv

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
    assert summary.human_ceiling["similarity"].mean == reached.metrics["similarity"].mean
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
