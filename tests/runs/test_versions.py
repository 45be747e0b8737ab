"""What tells the versions of an agent apart."""

import subprocess

import pytest

import trivium as tv
from tests.runs.suites import Says, told_suite
from trivium.errors import InputError
from trivium.runs.provenance import fingerprint, recorded_version
from trivium.store.records import Commit, Provenance
from trivium.store.store import Store

AGENT = "app.py:answer"


@pytest.fixture
def store(tmp_path_factory):
    with Store(str(tmp_path_factory.mktemp("store") / "store.db")) as opened:
        yield opened


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.delenv("GIT_DIR")
    (tmp_path / "app.py").write_text("def answer(question):\n    return '1'\n")
    (tmp_path / ".gitignore").write_text("ignored\n")
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_a_change_of_code_agent_or_model_is_another_version(repository):
    (repository / "inner").mkdir()

    def of(agent="../app.py:answer", **environment):
        return fingerprint(agent, repository / "inner", environment)

    found = [of(), of("../app.py:other"), of(MODEL="one"), of(MODEL="two"), of(SYSTEM_PROMPT="x")]
    (repository / "prompt.txt").write_text("Answer.")  # untracked, beside the current folder
    found.append(of())
    git(repository, "add", ".")
    found.append(of())
    git(repository, "commit", "-m", "second")
    found.append(of())
    (repository / "prompt.txt").write_text("Answer well.")
    found.append(of())
    assert None not in found
    assert len(set(found)) == len(found)


def test_what_a_run_writes_and_what_git_ignores_is_no_other_version(repository):
    before = fingerprint(AGENT, repository, {})
    (repository / ".trivium").mkdir()
    (repository / "__pycache__").mkdir()
    for name in (".trivium/store.db", "__pycache__/app.pyc", "runs.db", "ignored"):
        (repository / name).write_text("x")
    shell = {"HOME": "other", "PROMPT_COMMAND": "x", "VIRTUAL_ENV_PROMPT": "y", "CONDA_PROMPT_MODIFIER": "z"}
    assert fingerprint(AGENT, repository, shell) == before


@pytest.mark.parametrize("agent", [len, None, "http://localhost/answer", "cmd:answer", "cmd:python app.py"])
def test_an_agent_that_does_not_say_what_it_runs_has_no_version(repository, agent, monkeypatch):
    monkeypatch.chdir(repository)
    assert recorded_version(None, agent, None) == Provenance()


@pytest.mark.parametrize("agent", ["trivium.any_object:plain", "ignored/app.py:answer", "missing.py:answer"])
def test_an_agent_whose_code_is_not_that_of_the_repository_has_no_version(repository, agent):
    (repository / "ignored").mkdir()
    (repository / "ignored" / "app.py").write_text("def answer(question):\n    return '1'\n")
    assert fingerprint(agent, repository, {}) is None


def test_code_outside_a_repository_has_no_version(tmp_path):
    assert fingerprint(AGENT, tmp_path, {}) is None


def test_a_run_has_the_version_that_it_is_given_or_that_its_code_has(repository, store, monkeypatch):
    monkeypatch.chdir(repository)
    run = tv.evaluate(told_suite(1), agent=AGENT, store=store)
    assert len(run.record.version) == 12
    again = tv.evaluate(told_suite(1), agent=AGENT, store=store)
    named = tv.evaluate(told_suite(1), agent=AGENT, store=store, version=" v1 ")
    recorded = tv.evaluate(told_suite(1), outputs=[{"case": "q0", "output": "1"}], store=store)
    versions = [each.record.version for each in (again, named, recorded)]
    assert versions == [run.record.version, "v1", None]
    with pytest.raises(InputError, match="version: is empty"):
        tv.evaluate(told_suite(1), agent=AGENT, store=store, version=" ")


def test_a_run_says_its_commit_and_whether_files_have_changed_since(repository, store, monkeypatch):
    def told():
        return tv.evaluate(told_suite(1), agent=Says({"q0": 1}), store=store).provenance.git

    monkeypatch.chdir(repository)
    commit = (repository / ".git" / "refs" / "heads" / "main").read_text().strip()
    assert told() == Commit(commit=commit, subject="first", dirty=False)
    (repository / "app.py").write_text("")
    assert told() == Commit(commit=commit, subject="first", dirty=True)
    git(repository, "update-ref", "-d", "HEAD")  # as before the first commit
    assert told() is None


def test_a_run_that_other_code_finishes_has_no_version(repository, store, monkeypatch):
    monkeypatch.chdir(repository)
    run = tv.evaluate(told_suite(1), agent=AGENT, store=store)
    (repository / "app.py").write_text("def answer(question):\n    return '0'\n")
    assert tv.evaluate(told_suite(1), agent=AGENT, store=store, resume=run.id).record.version is None


def test_a_run_goes_on_under_its_own_name_only(store):
    named, unnamed = (
        tv.evaluate(told_suite(1), agent=Says({"q0": 1}), store=store, version=name) for name in ("a", None)
    )
    for run, what in ((named, "as a, not as b"), (unnamed, "as unnamed, not as b")):
        with pytest.raises(InputError, match=f"was begun {what}"):
            tv.evaluate(told_suite(1), agent=Says({}), store=store, resume=run.id, version="b")
    again = tv.evaluate(told_suite(1), agent=Says({}), store=store, resume=named.id)
    assert again.record.version == "a"
