"""Finds the run to compare with by git: that of the commit where a change left its branch.

Definition: docs/definitions/comparisons.md#base-run.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from trivium.errors import InputError
from trivium.runs.provenance import ask_git
from trivium.runs.run import Run
from trivium.store.records import Commit, RunRecord

AUTO = "auto"
"""In place of a branch: the target branch that the CI system names, else ``DEFAULT_BRANCH``."""

TARGETS = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
"""Environment variables in which GitHub and GitLab name the branch that a change is to be merged into."""

DEFAULT_BRANCH = "main"

_REFS = ("refs/remotes/origin/{}", "refs/remotes/{}", "refs/heads/{}")
"""Where a branch may be; what the server has comes before a local branch, which may lag behind."""

_FETCH = "fetch the whole history (actions/checkout: fetch-depth: 0; GitLab: GIT_DEPTH: 0)"


_COMMIT = re.compile("[0-9a-f]{40,64}")


class BaseRun(NamedTuple):
    """The run to compare with, and why it is this one, in a sentence."""

    run: Run
    why: str


def base_of_branch(head: Run, branch: str, *, folder: Path, environment: Mapping[str, str]) -> BaseRun:
    """Find the run of the commit at which a run's commit left a branch, or of the nearest one before it.

    Definition: docs/definitions/comparisons.md#base-run.

    Args:
        head: The run that is to be compared.
        branch: Name of the branch, or ``AUTO``.
        folder: A folder of the repository.
        environment: The environment variables.

    Raises:
        InputError: If git does not know the branch or the commit at which head left it, or no run is stored
            of that or an earlier commit.
    """
    if branch == AUTO:
        branch = next(filter(None, map(environment.get, TARGETS)), DEFAULT_BRANCH)
    recorded = _commit_of(head.record)
    commit = ask_git(folder, "rev-parse", "HEAD") if recorded is None else recorded.commit
    if commit is None:
        raise _none("this folder is in no git repository that can be read: compare in a checkout of it")
    target = _target(branch, folder)
    left = ask_git(folder, "merge-base", commit, target.ref)
    if left is None:
        raise _none(f"{_short(commit)} and {target.name} have no commit in common here: {_FETCH}")
    where = f"where {_short(commit)} left {target.name}"
    if left == commit:
        where = f"the commit of run {head.id}, which is on {target.name}"
    runs = _runs_by_commit(head)
    if left == commit and recorded is not None and not recorded.dirty:
        runs.pop(commit, None)  # a comparison with the same code would say nothing of a change
    for found in (ask_git(folder, "rev-list", left) or "").split():
        if found in runs:
            return BaseRun(Run(head.store, runs[found]), _why(runs[found], found, left, where, folder))
    shallow = ask_git(folder, "rev-parse", "--is-shallow-repository") == "true"
    raise _none(
        f'no finished run of suite "{head.record.suite_name}" is stored of {_short(left)}, {where}, or of a '
        f"commit before it: evaluate {target.name} first, and restore the store with its runs here"
        + f"; or, since this checkout is shallow, {_FETCH}"
        * shallow
    )


class _Target(NamedTuple):
    ref: str
    name: str


def _target(branch: str, folder: Path) -> _Target:
    for form in _REFS:
        ref = form.format(branch)
        if ask_git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") is not None:
            return _Target(ref, ref.removeprefix("refs/remotes/").removeprefix("refs/heads/"))
    raise _none(f'there is no branch "{branch}" here, nor origin/{branch}: name another, or {_FETCH}')


def _runs_by_commit(head: Run) -> dict[str, RunRecord]:
    """The newest finished run of head's suite at each commit, made without uncommitted changes."""
    found: dict[str, RunRecord] = {}
    for record in head.store.runs():
        git = _commit_of(record)
        alike = (record.suite_name, record.kind) == (head.record.suite_name, head.record.kind)
        if alike and record.state == "done" and record.id != head.id and git is not None and not git.dirty:
            found.setdefault(git.commit, record)
    return found


def _commit_of(record: RunRecord) -> Commit | None:
    """The commit of a run; None if it was made outside a repository."""
    git = record.provenance.git
    return git if git is not None and _COMMIT.fullmatch(git.commit) else None


def _why(record: RunRecord, commit: str, left: str, where: str, folder: Path) -> str:
    of = f"base: run {record.id} of {_short(commit)}"
    if commit == left:
        return f"{of}, {where}"
    count = ask_git(folder, "rev-list", "--count", f"{commit}..{left}")
    before = f"{count} {'commit' if count == '1' else 'commits'} before {_short(left)}, {where}"
    return f"{of}, {before}: no run of a nearer one is stored"


def _short(commit: str) -> str:
    return commit[:9]


def _none(what: str) -> InputError:
    return InputError("--against-branch", what)
