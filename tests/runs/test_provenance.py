"""Tests the provenance of judges, and that runs of different judges are not compared unless forced."""

from importlib.metadata import version

import pytest

import trivium as tv
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.errors import ComparisonError
from trivium.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def test_a_run_says_who_judged_it_where_and_how(store, monkeypatch):
    with provider(monkeypatch) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url.replace("//", "//me:pass-word-1@"))
        found = run(suite(1, models=[MODEL], samples=2, seed=3), store).provenance
    judge = found["judge"]
    assert found["judges"] == judge["models"] == [MODEL]
    assert (judge["temperature"], judge["seed"], judge["samples"]) == (0.7, 3, 2)
    assert set(found["prompts"]) == set(judge["rubrics"]) == {"review"}
    assert "127.0.0.1" in judge["addresses"][MODEL]
    assert "pass-word" not in str(found)


def test_a_run_names_the_versions_of_the_packages_it_computes_with(store):
    found = run(suite(1, metrics=("similarity",)), store).provenance["packages"]
    assert {"numpy", "scipy", "msgspec"} <= found.keys()
    assert found == {package: version(package) for package in found}


def test_a_run_without_judges_says_nothing_of_them(store):
    found = run(suite(1, metrics=("similarity",)), store).provenance
    assert "judge" not in found
    assert "judges" not in found


def test_runs_of_different_judges_are_compared_only_when_forced(store, monkeypatch):
    with provider(monkeypatch):
        one, other = (run(suite(3, models=[name]), store) for name in (MODEL, OTHER))
        same = run(suite(3), store)
    with pytest.raises(ComparisonError, match="judge.models") as refused:
        tv.compare(one, other)
    assert str(refused.value).count("judge.models") == 1
    assert tv.compare(one, same) is not None


def test_runs_judged_at_different_addresses_are_compared_only_when_forced(store, monkeypatch):
    with provider(monkeypatch):
        one = run(suite(3), store)
    with provider(monkeypatch):
        other = run(suite(3), store)
    with pytest.raises(ComparisonError, match="was asked at"):
        tv.compare(one, other)
