"""Tests the provenance of judges, and that runs of different judges are not compared unless forced."""

import os
import subprocess
from importlib.metadata import version

import pytest

import trivium as tv
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.errors import ComparisonError
from trivium.runs.provenance import ask_git, provenance
from trivium.store.store import Store
from trivium.suites.settings import Settings


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def test_a_run_says_who_judged_it_where_and_how(store, monkeypatch):
    with provider(monkeypatch) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url.replace("//", "//me:pass-word-1@"))
        found = run(suite(1, models=[MODEL], samples=2, seed=3), store).provenance
    judge = found.judge
    assert found.judges == judge.models == [MODEL]
    assert (judge.temperature, judge.seed, judge.samples) == (0.7, 3, 2)
    assert set(found.prompts) == set(judge.rubrics) == {"review"}
    assert "127.0.0.1" in judge.addresses[MODEL]
    assert "pass-word" not in str(found)


def test_a_run_names_the_versions_of_the_packages_it_computes_with(store):
    found = run(suite(1, metrics=("similarity",)), store).provenance.packages
    assert {"numpy", "scipy", "msgspec"} <= found.keys()
    assert found == {package: version(package) for package in found}


def test_a_run_without_judges_says_nothing_of_them(store):
    found = run(suite(1, metrics=("similarity",)), store).provenance
    assert (found.judge, found.judges, found.prompts) == (None, None, None)


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


def git(folder, *words):
    """What git itself says; None if it fails."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def test_git_is_asked_wherever_it_finds_a_repository(tmp_path, monkeypatch):
    monkeypatch.delenv("GIT_DIR")
    for name in ("tree/below", "outside"):
        (tmp_path / name).mkdir(parents=True)
    me = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    git(tmp_path / "tree", "init", "--quiet")
    git(tmp_path / "tree", *me, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(tmp_path / "tree", "worktree", "add", "--quiet", "../linked")
    git(tmp_path, "clone", "--quiet", "--bare", "tree", "bare")
    answers = {}
    for place in ("tree", "tree/below", "tree/.git", "linked", "bare", "outside"):
        for given in (None, "../tree/.git", ".git", os.devnull):
            with monkeypatch.context() as patch:
                if given is not None:
                    patch.setenv("GIT_DIR", given)
                answers[place, given] = git(tmp_path / place, "rev-parse", "HEAD")
                assert ask_git(tmp_path / place, "rev-parse", "HEAD") == answers[place, given], (place, given)
    without = {place for (place, given), commit in answers.items() if given is None and commit is None}
    assert without == {"outside"}
    assert answers["outside", "../tree/.git"] is not None
    assert answers["tree", ".git"] is not None


def test_a_run_records_what_its_commit_says_without_secrets_and_not_at_any_length(tmp_path, monkeypatch):
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.chdir(tmp_path)
    me = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    git(tmp_path, "init", "--quiet")
    for message, told in (
        ("Ask for the year, too\n\nA body.", "Ask for the year, too"),
        ("Set api_key=abcdef0123456789", "Set api_key=[masked]"),
        ("é" * 500, "é" * 200),
    ):
        git(tmp_path, *me, "commit", "--quiet", "--allow-empty", "--message", message)
        recorded = provenance([], Settings(), source="a").git
        assert recorded.commit == git(tmp_path, "rev-parse", "HEAD")
        assert recorded.subject == told
