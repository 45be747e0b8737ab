"""The workflow that is offered for CI: it is what the page shows, its commands exist and do what it needs."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import trivium as tv
from tests.runs.test_versions import git
from trivium.cli.main import run_command
from trivium.cli.main import trivium as cli

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "ci" / "trivium.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
JOBS = WORKFLOW["jobs"]
VERSION = "TRIVIUM_AGENT_VERSION"


def commands() -> list[list[str]]:
    """The words of every trivium command of the workflow."""
    scripts = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
    lines = "\n".join(scripts).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("trivium ")]


def step(job: str, name: str) -> dict[str, Any]:
    return next(each for each in JOBS[job]["steps"] if each.get("name") == name)


def test_the_page_shows_the_file() -> None:
    assert FILE.read_text(encoding="utf-8") in (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def test_every_command_and_option_exists() -> None:
    assert [words[1] for words in commands()] == ["run", "compare"]
    for _, name, *words in commands():
        command = cli.get_command(None, name)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_nothing_may_write_but_the_job_that_runs_nothing_of_the_pull_request() -> None:
    assert WORKFLOW["permissions"] == {}
    assert JOBS["evaluate"]["permissions"] == {"contents": "read"}
    assert JOBS["comment"]["permissions"] == {"pull-requests": "write"}
    used = [each.get("uses", "") for each in JOBS["comment"]["steps"]]
    assert not any("checkout" in action for action in used)
    assert "secrets." not in str(JOBS["comment"])
    assert "pull_request_target" not in WORKFLOW[True]  # YAML 1.1 reads "on" as true
    assert "head.repo.full_name == github.repository" in JOBS["comment"]["if"]


def test_no_untrusted_text_is_in_a_script() -> None:
    for job in JOBS.values():
        for each in job["steps"]:
            assert "${{" not in each.get("run", "")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as the workflow expects it, with the first commit of its main branch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in os.environ if name.startswith("TRIVIUM_")]:
        monkeypatch.delenv(name)
    cases = "".join(f"  - {{id: q{i}, input: q{i}, expect: {{output: q{i}}}}}\n" for i in range(40))
    keys = "metrics: [success]\nsuccess: {exact: true}\ncomposite: {weights: {success: 1}}"
    head = f"name: echo\nrepeats: 3\n{keys}\ncases:\n"
    tmp_path.joinpath("evals").mkdir()
    tmp_path.joinpath("evals", "suite.yaml").write_text(head + cases)
    git(tmp_path, "init", "--initial-branch=main")
    return tmp_path


def answer_with(project: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit the project's agent; run from a file, so that its next version is read anew."""
    project.joinpath("my_agent.py").write_text(f"def answer(question):\n    return {code}\n")
    git(project, "add", "my_agent.py")
    git(project, "commit", "-m", code)
    monkeypatch.setenv(VERSION, code)  # another one for each commit


def run_step(words: list[str]) -> int:
    return run_command([word.replace("my_agent:", "my_agent.py:") for word in words[1:]])


def test_a_regression_fails_the_pull_request_and_is_in_the_comment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert JOBS["evaluate"]["env"] == {VERSION: "${{ github.sha }}"}
    run, compare = commands()
    answer_with(project, "question", monkeypatch)
    assert run_step(run) == 0  # the push to main, whose store is kept
    base = tv.Run.load().id
    git(project, "switch", "-c", "change")
    answer_with(project, "'no idea' and question", monkeypatch)
    assert run_step(run) == 0  # of the same pull request, earlier
    answer_with(project, "'no idea' if question in ('q3', 'q7', 'q9') else question", monkeypatch)
    assert run_step(run) == 0
    assert "echo" in project.joinpath("trivium", "comment.md").read_text()

    assert run_step(compare) == 1

    comment = project.joinpath("trivium", "comment.md").read_text()
    assert re.search(r"### ❌ Trivium · `echo`: fail", comment)
    assert f"base {base}" in comment
    assert "Broke: q3, q7 and q9." in comment  # base passed them three times of three
    assert project.joinpath("trivium", "comparison.html").exists()
    assert project.joinpath("trivium", "junit.xml").exists()


GH = """#!/usr/bin/env bash
echo "$@" >> calls.txt
for word in "$@"; do
  if [ "${word#body=@}" != "$word" ]; then cp "${word#body=@}" posted.md; exit; fi
done
cat found.txt
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("found", "call"), [("", "--method POST comments"), ("17\n18\n", "--method PATCH one/17")]
)
def test_the_comment_is_written_once_and_then_written_anew(tmp_path: Path, found: str, call: str) -> None:
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(GH)
    gh.chmod(0o755)
    tmp_path.joinpath("found.txt").write_text(found)
    tmp_path.joinpath("comment.md").write_text("### ✅ fine\n" + "ü" * 70_000)
    script = step("comment", "Write the comment, or write it anew")["run"]
    environment = {"PATH": f"{gh.parent}:{os.environ['PATH']}", "COMMENTS": "comments", "ONE_COMMENT": "one"}

    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)

    assert call in tmp_path.joinpath("calls.txt").read_text()
    posted = tmp_path.joinpath("posted.md").read_text(encoding="utf-8")
    assert posted.startswith("<!-- trivium -->\n### ✅ fine")
    assert len(posted) < 65_536
