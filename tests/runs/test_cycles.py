"""Tests that a run reduces garbage collection and restores the host program's thresholds."""

import gc

import pytest

import trivium as tv
from trivium.runs.event_loop import (
    THRESHOLDS_WHILE_ASKING,
    THRESHOLDS_WHILE_SCORING,
    reduced_garbage_collection,
)
from trivium.runs.pipeline import NoProgress


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def seen_by_an_agent(store):
    seen = []

    def agent(text: str) -> str:
        seen.append(gc.get_threshold())
        return text

    suite = tv.Suite(name="s", cases=[tv.Case(id="1", input="x", references=("x",))])
    tv.evaluate(suite, agent=agent, metrics=["jaccard"], store=f"{store}/t.db")
    return seen


def test_a_run_holds_it_and_then_it_is_as_before(tmp_path):
    gc.set_threshold(700, 10, 10)
    assert seen_by_an_agent(tmp_path) == [THRESHOLDS_WHILE_ASKING]
    assert gc.get_threshold() == (700, 10, 10)


def test_where_no_agent_is_asked_it_is_sought_hardly_ever(tmp_path):
    seen = []

    class Seeing(NoProgress):
        def advance(self, *, done, failed):
            seen.append(gc.get_threshold())

    gc.set_threshold(700, 10, 10)
    suite = tv.Suite(name="s", cases=[tv.Case(id="1", input="x", references=("x",))])
    (tmp_path / "o.jsonl").write_text('{"case": "1", "output": "x"}')
    outputs, store = tmp_path / "o.jsonl", f"{tmp_path}/t.db"
    tv.evaluate(suite, outputs=outputs, metrics=["jaccard"], store=store, progress=Seeing())
    assert seen == [THRESHOLDS_WHILE_SCORING]
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (150_000, 5, 5)], ids=["off", "higher"])
def test_a_host_that_wants_it_seldomer_keeps_its_own(tmp_path, own):
    gc.set_threshold(*own)
    assert seen_by_an_agent(tmp_path) == [own]
    assert gc.get_threshold() == own


def test_it_lasts_until_the_last_of_several_is_done():
    gc.set_threshold(700, 10, 10)
    first, second = reduced_garbage_collection(THRESHOLDS_WHILE_SCORING), reduced_garbage_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == THRESHOLDS_WHILE_SCORING
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


def test_what_the_host_set_meanwhile_stays():
    gc.set_threshold(700, 10, 10)
    with reduced_garbage_collection():
        gc.set_threshold(1_000, 10, 10)
    assert gc.get_threshold() == (1_000, 10, 10)
