"""The run of the target branch, found by git in a local repository."""

import itertools
from pathlib import Path

import pytest

from tests.runs.comparing.told_runs import run_of
from tests.runs.test_versions import git
from trivium.cli.main import run_command
from trivium.errors import InputError
from trivium.runs.comparing.base_run import TARGETS, base_of_branch
from trivium.store.store import Store


@pytest.fixture
def store(tmp_path_factory):
    with Store(str(tmp_path_factory.mktemp("store") / "store.db")) as opened:
        yield opened


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A clone of a repository whose branch main has one commit."""
    monkeypatch.delenv("GIT_DIR")
    for name in TARGETS:
        monkeypatch.delenv(name, raising=False)
    server, clone = tmp_path / "server", tmp_path / "clone"
    server.mkdir()
    git(server, "init", "--initial-branch=main")
    git(server, "config", "receive.denyCurrentBranch", "ignore")
    commit(server)
    git(tmp_path, "clone", "-q", str(server), "clone")
    monkeypatch.chdir(clone)
    return clone


NUMBERS = itertools.count()


def commit(folder):
    """Change the code; the number makes every commit another one."""
    with (folder / "app.py").open("a") as file:
        file.write(f"# {next(NUMBERS)}\n")
    git(folder, "add", "app.py")
    git(folder, "commit", "-m", "a change")


def push(folder):
    git(folder, "push", "-q", "origin", "HEAD:main")


def found(head, branch="main", **environment):
    return base_of_branch(head, branch, folder=Path.cwd(), environment=environment)


def told(store, **settings):
    return run_of(store, [0.6] * 8, **settings)


def test_it_is_the_newest_run_of_the_commit_at_which_the_branch_left(repository, store):
    told(store)
    base = told(store)
    git(repository, "switch", "-c", "feature")
    commit(repository)
    other = told(store)  # of the feature itself
    commit(repository)
    head = told(store)
    git(repository, "switch", "main")
    commit(repository)
    push(repository)
    told(store)  # main went on
    assert found(head).run.id == base.id
    assert found(head).why.startswith(f"base: run {base.id} of ")
    assert "where" in found(head).why
    assert "left origin/main" in found(head).why
    assert "before" not in found(head).why
    assert found(head, "feature").run.id == other.id


def test_without_a_run_of_that_commit_it_is_that_of_the_nearest_before(repository, store):
    told(store)
    commit(repository)
    nearer = told(store)
    for _ in range(2):
        commit(repository)
    push(repository)
    (repository / "app.py").write_text("changed and not committed")
    told(store)
    git(repository, "checkout", "--", "app.py")
    git(repository, "switch", "-c", "feature")
    commit(repository)
    head = told(store)
    assert found(head).run.id == nearer.id
    assert "2 commits before" in found(head).why
    assert "no run of a nearer one is stored" in found(head).why


@pytest.mark.parametrize("name", TARGETS)
def test_auto_is_the_branch_that_the_ci_system_names_else_main(repository, store, name):
    main = told(store)
    git(repository, "switch", "-c", "release")
    commit(repository)
    git(repository, "push", "-q", "origin", "release")
    release = told(store)
    git(repository, "switch", "-c", "feature")
    commit(repository)
    head = told(store)
    assert found(head, "auto", **{name: "release"}).run.id == release.id
    assert found(head, "auto").run.id == found(head, "auto", **{name: ""}).run.id == main.id


def test_on_the_branch_itself_it_is_the_run_before(repository, store):
    before = told(store)
    commit(repository)
    push(repository)
    told(store)
    head = told(store)
    assert found(head).run.id == before.id
    assert f"the commit of run {head.id}, which is on origin/main" in found(head).why


def test_uncommitted_changes_are_compared_with_their_commit(repository, store):
    base = told(store)
    (repository / "app.py").write_text("changed and not committed")
    assert found(told(store)).run.id == base.id


def test_runs_of_other_suites_and_unfinished_ones_do_not_count(repository, store):
    base = told(store)
    run_of(store, [0.6] * 9)
    store.new_run(
        id="cut-short",
        suite_name=base.record.suite_name,
        suite=base.record.suite,
        kind=base.record.kind,
        settings=base.record.settings,
        provenance=base.record.provenance,
        attempts_from=None,
    )
    git(repository, "switch", "-c", "feature")
    commit(repository)
    assert found(told(store)).run.record.state == "done"


def test_where_there_is_none_the_words_say_what_to_do(repository, store, tmp_path, monkeypatch):
    git(repository, "switch", "-c", "feature")
    commit(repository)
    head = told(store)
    said = 'no finished run of suite "told" is stored of .*, where .* left origin/main, or of a commit before'
    with pytest.raises(InputError, match=said):
        found(head)
    with pytest.raises(InputError, match='there is no branch "mian" here, nor origin/mian'):
        found(head, "mian")
    git(repository, "switch", "--orphan", "apart")
    commit(repository)
    with pytest.raises(InputError, match="and origin/main have no commit in common here: fetch the whole"):
        found(told(store))
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path / 'server'}", "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    commit(tmp_path / "shallow")
    with pytest.raises(InputError, match="since this checkout is shallow, fetch the whole history"):
        found(told(store))
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(InputError, match="this folder is in no git repository"):
        found(told(store))


def test_the_command_says_which_it_took_and_ends_with_2_without_one(repository, store, capsys, monkeypatch):
    url = str(store.name)
    base = told(store)
    git(repository, "switch", "-c", "feature")
    commit(repository)
    head = run_of(store, [0.1] * 8)
    told(store)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    assert run_command(["compare", head.id, "--against-branch", "auto", "--store", url]) == 1
    printed = capsys.readouterr()
    assert f"base: run {base.id} of " in printed.err
    assert f"{head.id} against {base.id}" in printed.out
    assert run_command(["compare", "--against-branch", "auto", "--store", url, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert run_command(["compare", "--against-branch", "none", "--store", url]) == 2
    assert 'there is no branch "none" here' in capsys.readouterr().err
    assert run_command(["compare", base.id, head.id, "--against-branch", "auto", "--store", url]) == 2
    assert "name HEAD alone" in capsys.readouterr().err
