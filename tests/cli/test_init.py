"""``trivium init`` writes a suite that runs as it is, and never half of one."""

import io
import json
import os
import pty
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from trivium.cli.main import run_command
from trivium.suites.suite import Suite

KINDS = ("python", "http", "command", "outputs", "traces")
RULES = ("contains", "exact", "similarity", "none")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)


def printed_commands(out: str) -> list[list[str]]:
    return [shlex.split(line) for line in out.partition("Next:\n")[2].splitlines() if line]


def run_printed(out: str) -> int:
    """Run the last command that was printed."""
    program, *words = printed_commands(out)[-1]
    assert program == "trivium"
    return run_command([*words, "--quiet"])


@pytest.mark.parametrize("success", RULES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "http"])
def test_what_is_written_runs_as_it_is(kind: str, success: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "a folder", "--yes", "--from", kind, "--success", success]) == 0
    assert run_printed(capsys.readouterr().out) == 0


def test_it_says_what_so_many_cases_can_prove(capsys: pytest.CaptureFixture[str]) -> None:
    Path("many.csv").write_text("input,references\n" + "".join(f"{n}?,{n}\n" for n in range(183)))
    assert run_command(["init", "--yes", "--cases", "many.csv"]) == 0
    # Where nothing differs it is 0.02, as docs/compare-runs.md has it.
    said = capsys.readouterr().out
    assert "183 cases can prove that a change loses no more than 0.072 of the pass rate" in said
    assert "0.02 if none does" in said
    assert run_command(["init", "one", "--yes", "--question", "a", "b"]) == 0
    assert "1 case can prove that a change loses no more than 1 of" in capsys.readouterr().out
    assert run_command(["init", "open", "--yes", "--success", "none"]) == 0
    assert "can prove" not in capsys.readouterr().out


def test_the_example_server_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "--yes", "--from", "http"]) == 0
    start, run = printed_commands(capsys.readouterr().out)
    assert start == ["python3", "server.py", "&"]
    assert run == ["trivium", "run", "suite.yaml", "--agent", "http://127.0.0.1:8000/"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "server.py", str(port)]) as server:
        try:
            _until_open(port)
            code = run_command(["run", "suite.yaml", "--agent", f"http://127.0.0.1:{port}/", "--json"])
        finally:
            server.terminate()
    summary = json.loads(capsys.readouterr().out)
    assert code == 0
    assert summary["metrics"]["success"]["mean"] == pytest.approx(2 / 3)


def _until_open(port: int) -> None:
    """Connect again and again; the test's own time limit ends it."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            os.sched_yield()


def test_the_suite_fits_its_schema_and_editors_find_it() -> None:
    assert run_command(["init", "--yes"]) == 0
    text = Path("suite.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=suite.schema.json\n")
    jsonschema.validate(yaml.safe_load(text), json.loads(Path("suite.schema.json").read_bytes()))


def test_questions_become_cases_whatever_they_contain() -> None:
    questions = [['a: "b" # no', "- 'x'\n: {y}"], ["\u00e9 \U0001f600 \\", ""]]
    given = [word for pair in questions for word in ("--question", *pair)]
    assert run_command(["init", "--yes", "--name", "no: [1]", *given]) == 0
    suite = Suite.load("suite.yaml")
    assert suite.name == "no: [1]"
    assert [[case.input, *case.references] for case in suite] == [questions[0], questions[1][:1]]


def test_a_file_of_cases_is_named_from_where_the_suite_is() -> None:
    Path("cases.jsonl").write_text('{"id": "1", "input": "q"}\n')
    assert run_command(["init", "sub/folder", "--yes", "--cases", "cases.jsonl"]) == 0
    raw = yaml.safe_load(Path("sub/folder/suite.yaml").read_text())
    assert raw["cases"] == "../../cases.jsonl"
    assert "success" not in raw, "no case has a reference"
    assert len(Suite.load("sub/folder/suite.yaml")) == 1


def test_traces_give_one_case_each(capsys: pytest.CaptureFixture[str]) -> None:
    span = {"id": "1", "kind": "agent", "name": "a", "input": "q", "output": "o"}
    traces = [{"trace_id": name, "spans": [span]} for name in ("x", "y")]
    Path("t.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    assert run_command(["init", "qa", "--yes", "--traces", "t.jsonl"]) == 0
    assert [(case.id, case.input) for case in Suite.load("qa/suite.yaml")] == [("x", "q"), ("y", "q")]
    out = capsys.readouterr().out
    assert printed_commands(out)[0] == ["trivium", "traces", "score", "t.jsonl"]
    assert run_printed(out) == 0


def test_a_judge_says_what_it_still_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", "--yes", "--judge", "openai:gpt-4o"]) == 0
    assert "still needs" in (out := capsys.readouterr().out)
    assert "OPENAI_API_KEY" in out
    settings = Suite.load("suite.yaml").settings
    assert settings.judge is not None
    assert settings.judge.models == ("openai:gpt-4o",)


def test_nothing_is_overwritten_unless_forced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("agent.py").write_text("mine")
    assert run_command(["init", "--yes"]) == 2
    assert capsys.readouterr().err.startswith("Error: agent.py: exists already")
    assert [path.name for path in Path().iterdir()] == ["agent.py"]
    assert Path("agent.py").read_text() == "mine"
    assert run_command(["init", "--yes", "--force"]) == 0
    assert "def answer" in Path("agent.py").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yes", "--cases", "c.jsonl"], "c.jsonl: there is no such file"),
        (["--yes", "--outputs", "o.csv"], "o.csv: there is no such file"),
        (["--yes", "--traces", "t.json"], "t.json: there is no such file"),
        (["--yes", "--cases", "c.jsonl", "--question", "q", "a"], "exclude each other"),
        (["--yes", "--agent", "a.py:f", "--outputs", "o.csv"], "--agent and --outputs exclude each other"),
        (["--yes", "--agent", "a.py:f", "--from", "http"], "--agent a.py:f is not --from http"),
        (["--yes", "--judge", "openai:x", "--success", "exact"], "--judge is not --success exact"),
        (["--yes", "--success", "contain"], 'Did you mean "contains"?'),
        (["new"], "add --yes"),
    ],
)
def test_wrong_options_write_nothing(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["init", *words]) == 2
    assert said in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def in_terminal(words: list[str], typed: str, *, interrupt: bool = False) -> tuple[int, str]:
    """Run ``init`` in a terminal of its own and type into it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "trivium", "init", *words]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        patience = 0.1
        while True:
            if interrupt and b"File of cases" in shown and not select.select([ours], [], [], patience)[0]:
                process.send_signal(signal.SIGINT)
                # Between a question and the reading of its answer, Ctrl-C ends nothing: it is sent again.
                patience = 10
                continue
            try:
                block = os.read(ours, 4096)
            except OSError:  # Linux: the other side is closed
                break
            if not block:
                break
            shown += block
    os.close(ours)
    return process.returncode, shown.decode()


def test_it_asks_in_a_terminal() -> None:
    typed = "python\n\n\nWho?\nMe\nWhy?\n\n\nexact\n"
    code, shown = in_terminal([], typed)
    assert code == 0, shown
    suite = Suite.load("suite.yaml")
    assert [(case.input, case.references) for case in suite] == [("Who?", ("Me",)), ("Why?", ())]
    assert suite.settings.success_rule.exact
    assert "trivium run suite.yaml --agent agent.py:answer" in shown


def test_ctrl_c_leaves_nothing() -> None:
    code, _ = in_terminal(["new"], "python\n\n", interrupt=True)
    assert code == 130
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_written_holds_nothing_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("file").write_text("")
    assert run_command(["init", "file/new", "--yes"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["file"]


class Typed(io.StringIO):
    """A terminal into which something is typed."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "typed", "written"),
    [
        ([], "http\n\n\n\n\n", ["agent.py", "server.py"]),
        # A mistake is told and asked again: another kind, no such file, a file that is no file of cases.
        (["--from", "http"], "app.py:answer\n\n\n\nnone\n", ["agent.py", "server.py"]),
        (["--from", "python"], "ap.py:answer\napp.py:answer\nd.csv\nt.jsonl\nc.jsonl\nnone\n", []),
        (["--from", "python"], "app.py:answer\n\n\nnone\n", []),
        (["--from", "command"], "python3 app.py\n\n\nnone\n", []),
        (["--from", "command"], "cmd:python3 app.py\n\n\nnone\n", []),
        (["--from", "outputs"], "\n\n\nexact\n", ["outputs.csv"]),
        (["--from", "outputs"], "o.csv\nc.jsonl\nexact\n", []),
        (["--from", "traces"], "\n\n\n\n", ["outputs.jsonl"]),
        (["--from", "traces", "--success", "contains"], "t.jsonl\n", ["cases.jsonl", "outputs.jsonl"]),
        (["--agent", "http://127.0.0.1:9/"], "\nWho?\n\n\njudge\n\n", []),
        (["--agent", "http://127.0.0.1:9/", "--question", "Who?", "Me"], "similarity\n", []),
    ],
)
def test_what_no_option_says_is_asked(
    words: list[str],
    typed: str,
    written: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("o.csv").write_text("case,output\n1,a\n")
    Path("c.jsonl").write_text('{"id": "1", "input": "q", "references": ["a"]}\n')
    Path("t.jsonl").write_text('{"trace_id": "x", "spans": [{"id": "1", "kind": "agent", "name": "a"}]}\n')
    Path("app.py").write_text("def answer(question):\n    return question\n")
    terminal = Typed(typed)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert run_command(["init", "new", *words]) == 0, capsys.readouterr().err
    assert terminal.read() == "", "every line that was typed was asked for"
    names = {path.name for path in Path("new").iterdir()}
    assert names == {"suite.yaml", "suite.schema.json", *written}
    Suite.load("new/suite.yaml")
