"""Tests that every key of ``judge`` about money has a visible effect."""

import pytest

from tests.runs.judging.suites import MODEL, provider, run, suite
from trivium.store.store import Store
from trivium.suites.settings import JudgeSettings

CHANGES = [
    {"budget_usd": 0.0},
    {"budget_tokens": 1},
    {"prices": {MODEL: {"input": 7.0, "output": 9.0}}},
    {"cache": False},
    {"cache_mb": 0},
    {"max_tokens": 321},
]


def seen(folder, monkeypatch, **keys) -> tuple:
    """What two runs of a suite scored, spent and sent."""
    with provider(monkeypatch) as server, Store(str(folder / "store.db")) as store:
        summaries = [run(suite(2, **keys), store).summary() for _ in range(2)]
        # Of equal replies, whichever came first: only what they hold is compared.
        sent = sorted(str(sorted(question.body.items())) for question in server.requests)
    spent = [
        summary.spent and (summary.spent.cost_usd, summary.spent.from_cache, summary.spent.requests)
        for summary in summaries
    ]
    return [summary.metrics["clarity"].status for summary in summaries], spent, sent


def test_every_key_of_the_cache_is_tried():
    tried = {key for change in CHANGES for key in change}
    assert {key for key in JudgeSettings.__struct_fields__ if key.startswith("cache")} <= tried


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_key_changes_what_is_seen(tmp_path, monkeypatch, change):
    for name in ("as-it-was", "changed"):
        (tmp_path / name).mkdir()
    unchanged = seen(tmp_path / "as-it-was", monkeypatch)
    assert seen(tmp_path / "changed", monkeypatch, **change) != unchanged


def test_the_same_keys_show_the_same(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one = seen(tmp_path / "one", monkeypatch)
    assert seen(tmp_path / "other", monkeypatch) == one
