"""The action, its workflow and GitLab's template: their steps, run in order, do what docs/ci.md says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runs.test_versions import git
from trivium.cli.main import trivium as cli

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
COMMENT = ROOT / ".github" / "comment" / "action.yml"
WORKFLOW = ROOT / "examples" / "ci" / "trivium.yml"
GITLAB = ROOT / "examples" / "ci" / "gitlab-ci.yml"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def scripts() -> list[str]:
    steps = [step for path in (ACTION, COMMENT) for step in read(path)["runs"]["steps"]]
    return [step["run"] for step in steps if "run" in step]


def test_the_page_shows_the_files() -> None:
    assert WORKFLOW.read_text(encoding="utf-8") in PAGE
    assert GITLAB.read_text(encoding="utf-8") in PAGE


def test_the_page_has_every_input_and_output_with_its_default() -> None:
    action = read(ACTION)
    for name, entry in action["inputs"].items():
        default = (
            "required" if entry.get("required") else f"`{entry['default']}`" if entry["default"] else "–"
        )
        assert re.search(rf"^\| `{name}` \| {re.escape(default)} \| .+ \|$", PAGE, re.MULTILINE), name
    for name in action["outputs"]:
        assert f"`{name}`" in PAGE


def test_every_option_in_the_files_exists() -> None:
    text = "\n".join([*scripts(), *read(GITLAB)["trivium"]["script"]]).replace("\\\n", " ")
    calls = re.findall(r"\btrivium (run|compare) (.*)", text)
    assert [name for name, _ in calls] == ["run", "compare"] * 2
    for name, words in calls:
        known = {option for parameter in cli.get_command(None, name).params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", words)) <= known


def test_nothing_may_write_but_the_job_that_runs_nothing_of_the_pull_request() -> None:
    workflow = read(WORKFLOW)
    evaluate, comment = workflow["jobs"]["evaluate"], workflow["jobs"]["comment"]
    assert workflow["permissions"] == {}
    assert evaluate["permissions"] == {"contents": "read"}
    assert comment["permissions"] == {"pull-requests": "write"}
    assert [each["uses"] for each in comment["steps"]] == ["OWNER/trivium/.github/comment@COMMIT"]
    assert "secrets." not in str(comment)
    assert "secrets." not in COMMENT.read_text(encoding="utf-8")
    assert not any("checkout" in each.get("uses", "") for each in read(COMMENT)["runs"]["steps"])
    assert "pull_request_target" not in workflow[True]  # YAML 1.1 reads "on" as true


def test_no_untrusted_text_is_in_a_script() -> None:
    assert not any("${{" in script for script in scripts())


class Runner:
    """Runs the steps of a composite action in order, as GitHub's runner does.

    Knows the conditions, the contexts and the actions that these two files use, and no others.
    """

    def __init__(self, folder: Path, tools: Path) -> None:
        self.caches, self.artifacts = folder / "caches", folder / "artifacts"
        self.folder, self.tools = folder, tools
        self.log: list[str] = []

    def run(self, path: Path, project: Path, github: dict[str, Any], **inputs: str) -> bool:
        """Run an action's steps in a project; whether none failed."""
        action = read(path)
        defaults = {name: entry.get("default", "") for name, entry in action.get("inputs", {}).items()}
        context = {
            "github": {**github, "action_path": str(ROOT)},
            "inputs": {**defaults, **inputs},
            "steps": {},
        }
        well = True
        for step in action["runs"]["steps"]:
            condition = str(step.get("if", ""))
            wanted = not condition or self.filled(condition, context)
            if not wanted or (not well and "cancelled()" not in condition):
                continue
            self.log.append(step.get("name") or step["uses"].split("@")[0])
            outputs = context["steps"].setdefault(step.get("id", ""), {"outputs": {}})["outputs"]
            if "uses" in step:
                given = {key: self.filled(value, context) for key, value in step["with"].items()}
                outputs.update(self.use(step["uses"], project, given))
            else:
                well &= self.script(step, project, context, outputs)
        return well

    def filled(self, text: str, context: dict[str, Any]) -> Any:
        """A text with its expressions replaced; the value itself where the text is one expression."""
        whole = re.fullmatch(r"\$\{\{(.*)\}\}", text.strip(), re.DOTALL)
        if whole:
            return self.value(whole[1], context)
        return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(self.value(match[1], context)), text)

    def value(self, expression: str, context: dict[str, Any]) -> Any:
        def look_up(match: re.Match[str]) -> str:
            found: Any = context
            for name in match[0].split("."):
                found = found.get(name, "") if isinstance(found, dict) else ""
            return repr(found)

        text = expression.strip().replace("!cancelled()", "True").replace("\n", " ")
        text = re.sub(r"(?<!')\b(?:github|inputs|steps)(?:\.[a-z_-]+)+", look_up, text)
        return eval(text.replace("&&", "and").replace("||", "or"), {})

    def use(self, action: str, project: Path, given: dict[str, str]) -> dict[str, str]:
        """What the actions of others do, in folders."""
        name = action.split("@", maxsplit=1)[0]
        target = project / given.get("path", "")
        if name == "actions/cache/save":
            shutil.copytree(target, self.caches / given["key"].replace("/", "_"))
        elif name == "actions/upload-artifact":
            if target.exists():  # else it warns
                shutil.copytree(target, self.artifacts / given["name"], dirs_exist_ok=True)
        elif name == "actions/download-artifact":
            shutil.copytree(self.artifacts / given["name"], project, dirs_exist_ok=True)
        elif name == "actions/cache/restore":
            kept = sorted(self.caches.glob("*"), key=lambda folder: folder.stat().st_mtime_ns)
            if not kept:
                return {"cache-matched-key": ""}
            shutil.copytree(kept[-1], target)
            return {"cache-matched-key": kept[-1].name}
        else:
            assert name == "actions/setup-python"
        return {}

    def script(
        self, step: dict[str, Any], project: Path, context: dict[str, Any], outputs: dict[str, str]
    ) -> bool:
        assert step["shell"] == "bash"
        written, summary = self.folder / "output.txt", self.folder / "summary.md"
        written.write_text("")
        own = {key: str(self.filled(value, context)) for key, value in step.get("env", {}).items()}
        kept = {key: os.environ[key] for key in ("HOME", "PYTHONPATH") if key in os.environ}
        environment = {**kept, "PATH": f"{self.tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environment |= {"GITHUB_OUTPUT": str(written), "GITHUB_STEP_SUMMARY": str(summary)} | own
        environment |= {"GITHUB_BASE_REF": context["github"].get("base_ref", "")}
        folder = project / self.filled(step.get("working-directory", "."), context)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=folder, env=environment, check=False, capture_output=True, text=True
        )
        self.log[-1] += f" {done.returncode}"
        outputs.update(line.split("=", 1) for line in written.read_text().splitlines())
        return done.returncode == 0


TOOL = """#!/usr/bin/env bash
echo "{name} $@" >> {folder}/calls.txt
for word in "$@"; do
  if [ "${{word#body=@}}" != "$word" ]; then cp "${{word#body=@}}" {folder}/posted.md; fi
  if [ "${{word#body@}}" != "$word" ]; then cp "${{word#body@}}" {folder}/posted.md; fi
done
if [ -f {folder}/{name}.txt ]; then cat {folder}/{name}.txt; fi
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with programs that only write down how they were called."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("python", "gh", "curl"):
        folder.joinpath(name).write_text(TOOL.format(name=name, folder=folder))
        folder.joinpath(name).chmod(0o755)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as the workflow expects it, with the first commit of its main branch."""
    monkeypatch.delenv("GIT_DIR")
    folder = tmp_path / "project"
    cases = "".join(f"  - {{id: q{i}, input: q{i}, expect: {{output: q{i}}}}}\n" for i in range(40))
    keys = "metrics: [success]\nsuccess: {exact: true}\nrepeats: 3\n"
    folder.joinpath("evals").mkdir(parents=True)
    folder.joinpath("evals", "suite.yaml").write_text(f"name: echo\n{keys}cases:\n{cases}")
    folder.joinpath(".gitignore").write_text(".trivium\ntrivium\n__pycache__\n")
    git(folder, "init", "--initial-branch=main")
    answer_with(folder, "question")
    return folder


def answer_with(project: Path, code: str) -> None:
    project.joinpath("my_agent.py").write_text(f"def answer(question):\n    return {code}\n")
    git(project, "add", ".")
    git(project, "commit", "-m", code)


def clean(project: Path) -> None:
    """As a fresh checkout is."""
    for name in (".trivium", "trivium", "__pycache__"):
        shutil.rmtree(project / name, ignore_errors=True)


PULL = {"event_name": "pull_request", "base_ref": "main", "repository": "o/r", "token": "t"}
GIVEN = {"suite": "evals/suite.yaml", "agent": "my_agent.py:answer"}


@pytest.mark.cpu(10, "starts the command line three times, as a push and a pull request do")
def test_a_regression_fails_the_pull_request_and_is_in_the_comment(
    project: Path, tools: Path, tmp_path: Path
) -> None:
    runner = Runner(tmp_path, tools)
    assert runner.run(ACTION, project, {"event_name": "push", "sha": "1"}, **GIVEN, install="-r needs.txt")
    assert "python -m pip install --quiet" in tools.joinpath("calls.txt").read_text()
    assert f"{ROOT}[judge,report] -r needs.txt" in tools.joinpath("calls.txt").read_text()
    assert "Compare with the base branch" not in " ".join(runner.log)
    assert [each.name for each in runner.caches.iterdir()] == ["trivium-evals_suite.yaml-1"]
    clean(project)
    git(project, "switch", "-c", "change")
    answer_with(project, "'no idea' if question in ('q3', 'q7', 'q9') else question")
    runner.log.clear()
    event = {"pull_request": {"number": 5, "base": {"sha": "1"}, "head": {"repo": {"full_name": "o/r"}}}}

    assert not runner.run(ACTION, project, {**PULL, "sha": "2", "event": event}, **GIVEN)

    assert "Ask and score 0" in runner.log
    assert "Compare with the base branch 1" in runner.log
    assert len(list(runner.caches.iterdir())) == 1  # a pull request stores nothing
    kept = {each.name for each in runner.artifacts.joinpath("trivium").iterdir()}
    assert kept == {"comment.md", "comparison.html", "junit.xml"}
    empty = tmp_path / "job"
    empty.mkdir()
    assert runner.run(COMMENT, empty, {**PULL, "event": event})
    posted = tools.joinpath("posted.md").read_text(encoding="utf-8")
    assert re.match(r"<!-- trivium -->\n### ❌ Trivium · `echo`: fail", posted)
    assert "Broke: q3, q7 and q9." in posted  # base passed them three times of three
    assert "--method POST repos/o/r/issues/5/comments" in tools.joinpath("calls.txt").read_text()


def test_a_run_that_cannot_start_is_compared_with_nothing(project: Path, tools: Path, tmp_path: Path) -> None:
    runner = Runner(tmp_path, tools)
    runner.caches.joinpath("trivium-x").mkdir(parents=True)
    event = {"event": {"pull_request": {"base": {"sha": "1"}}}}
    assert not runner.run(ACTION, project, {**PULL, **event, "sha": "2"}, suite="evals/none.yaml", agent="")
    ran = [each for each in runner.log if not each.startswith("actions/")]
    assert ran == [
        "Install 0",
        "Fetch the store with the base branch's runs",
        "Ask and score 2",
        "Show it on the run's own page 0",
    ]


@pytest.mark.parametrize("number", [None, 17])
def test_the_comment_is_written_once_and_then_written_anew(
    tools: Path, tmp_path: Path, number: int | None
) -> None:
    if number:
        tools.joinpath("gh.txt").write_text(f"{number}\n18\n")
    runner = Runner(tmp_path, tools)
    kept, job = runner.artifacts / "trivium", tmp_path / "job"
    kept.mkdir(parents=True)
    job.mkdir()
    kept.joinpath("comment.md").write_text("### ✅ fine\n" + "ü" * 70_000, encoding="utf-8")
    event = {"event": {"pull_request": {"number": 5, "head": {"repo": {"full_name": "o/r"}}}}}
    assert runner.run(COMMENT, job, {**PULL, **event})
    assert ("PATCH repos/o/r/issues/comments/17" if number else "POST") in tools.joinpath(
        "calls.txt"
    ).read_text()
    assert tools.joinpath("posted.md").stat().st_size < 2 * 65_536
    assert tools.joinpath("posted.md").read_text(encoding="utf-8").startswith("<!-- trivium -->\n### ✅ fine")


def test_a_fork_gets_no_comment(tools: Path, tmp_path: Path) -> None:
    runner = Runner(tmp_path, tools)
    runner.artifacts.joinpath("trivium").mkdir(parents=True)
    event = {"event": {"pull_request": {"number": 5, "head": {"repo": {"full_name": "fork/r"}}}}}
    assert runner.run(COMMENT, tmp_path, {**PULL, **event})
    assert runner.log == ["actions/download-artifact"]


@pytest.mark.parametrize("number", [None, 17])
def test_gitlab_writes_one_comment(tools: Path, tmp_path: Path, number: int | None) -> None:
    notes = [{"id": 3, "body": "hello"}]
    if number:
        notes.append({"id": number, "body": "<!-- trivium -->\nold"})
    tools.joinpath("curl.txt").write_text(json.dumps(notes))
    tmp_path.joinpath("trivium").mkdir()
    tmp_path.joinpath("trivium", "comment.md").write_text("### ✅ fine\n")
    ours = {"CI_API_V4_URL": "api", "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "5"}
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "TRIVIUM_COMMENT_TOKEN": "secret", **ours}
    script = "\n".join(read(GITLAB)["trivium-comment"]["script"])
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    last = tools.joinpath("calls.txt").read_text().splitlines()[-1]
    address = "api/projects/1/merge_requests/5/notes"
    assert last.endswith(
        f"PUT --data-urlencode body@body.md {address}/17" if number else f"body@body.md {address}"
    )
    assert tools.joinpath("posted.md").read_text(encoding="utf-8") == "<!-- trivium -->\n### ✅ fine\n"


@pytest.mark.parametrize("request_id", ["", "5"])
def test_gitlab_compares_in_merge_requests_only(tools: Path, tmp_path: Path, request_id: str) -> None:
    tools.joinpath("trivium").write_text(TOOL.format(name="trivium", folder=tools))
    tools.joinpath("trivium").chmod(0o755)
    job = read(GITLAB)["trivium"]
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "CI_MERGE_REQUEST_IID": request_id,
        **job["variables"],
    }
    script = "\n".join(job["script"])
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    calls = tools.joinpath("calls.txt").read_text().splitlines()
    assert [call.split()[:2] for call in calls if call.startswith("trivium")] == [
        ["trivium", "run"],
        *([["trivium", "compare"]] if request_id else []),
    ]
