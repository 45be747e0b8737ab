"""The commands as a user types them: what they print, where, and how they end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import pytest

from trivium.cli.main import COMMANDS, run_command, trivium

REFERENCE = "the method is sound but the evaluation is small"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("agent.py").write_text(
        "def same(question):\n    return question\n\ndef bad(question):\n    raise ValueError('no')\n"
    )


def write_suite(count: int = 3, **keys) -> str:
    cases = [
        {"id": f"c{i}", "input": f"{REFERENCE} {i}", "references": [f"{REFERENCE} {i}"]} for i in range(count)
    ]
    defaults = {
        "name": "small",
        "metrics": ["jaccard", "similarity", "success"],
        "similarity": {"jaccard": 1},
        "cases": cases,
    }
    Path("suite.json").write_text(json.dumps(defaults | keys))
    return "suite.json"


def outcome(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run_command(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_command_says_in_the_overview_what_it_says_itself():
    context = click.Context(trivium)
    for name, (_, line) in COMMANDS.items():
        command = trivium.get_command(context, name)
        assert command is not None
        assert command.help, name
        assert line.endswith(".")


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_the_overview_is_what_a_bare_command_prints(arguments):
    reported = [
        subprocess.run([sys.executable, "-m", "trivium", *each], capture_output=True, text=True)
        for each in (arguments, ["--log-level", "error", "--help"])
    ]
    assert reported[0].stdout == reported[1].stdout
    assert [each.returncode for each in reported] == [0, 0]


def test_every_option_has_an_environment_variable():
    context = click.Context(trivium)
    commands = [trivium, *(trivium.get_command(context, name) for name in COMMANDS)]
    for command in commands:
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name not in {"help", "version"}:
                assert str(parameter.envvar).startswith("TRIVIUM_"), (command.name, parameter.name)


def test_run_prints_a_table_and_ends_with_0(capsys):
    code, out, err = outcome(capsys, "run", write_suite(), "--agent", "agent:same")
    assert code == 0
    assert "jaccard" in out
    assert "3 of 3 passed" in out
    assert err == ""


def test_json_is_one_document_on_standard_output_and_nothing_else(capsys):
    code, out, err = outcome(capsys, "run", write_suite(), "--agent", "agent:same", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["total_tests"] == document["passed"] == 3
    assert document["metrics"]["jaccard"]["mean"] == 1.0


def test_a_setting_can_come_from_the_environment(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRIVIUM_STORE", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    outcome(capsys, "run", write_suite(), "--agent", "agent:same")
    assert (tmp_path / "elsewhere.db").exists()
    assert not Path(".trivium").exists()


class TestExitCodes:
    def test_1_when_a_gate_fails(self, capsys):
        suite = write_suite(30, gates={"jaccard": {"at_most": 0.1}})
        assert outcome(capsys, "run", suite, "--agent", "agent:same")[0] == 1

    def test_2_when_the_input_is_wrong(self, capsys):
        code, out, err = outcome(capsys, "run", "nowhere.yaml", "--agent", "agent:same")
        assert (code, out) == (2, "")
        assert "nowhere.yaml" in err
        assert "Traceback" not in err

    def test_3_when_attempts_failed(self, capsys):
        code, out, _ = outcome(capsys, "run", write_suite(), "--agent", "agent:bad")
        assert code == 3
        assert "ValueError: no" in out

    def test_3_when_outputs_are_missing(self, capsys):
        Path("outputs.jsonl").write_text('{"case": "c1", "output": "x"}\n')
        code, out, _ = outcome(capsys, "score", write_suite(), "--outputs", "outputs.jsonl")
        assert code == 3
        assert "2 of 3 attempts are missing" in out

    def test_the_policy_decides_where_nothing_is_proven(self, capsys):
        suite = write_suite(gates={"jaccard": {"at_least": 0.9}})
        assert outcome(capsys, "run", suite, "--agent", "agent:same", "--policy", "proof")[0] == 4
        assert outcome(capsys, "show")[0] == 4, "the run keeps the policy with which it was made"
        assert outcome(capsys, "show", "--policy", "balanced")[0] == 0
        assert outcome(capsys, "show", "--policy", "strict")[0] == 1

    def test_4_if_nothing_was_measured_for_a_gate(self, capsys):
        suite = write_suite(gates={"reasoning_quality": {"at_least": 0.5}})
        assert outcome(capsys, "run", suite, "--agent", "agent:same")[0] == 4
        assert outcome(capsys, "show", "--policy", "strict")[0] == 1

    def test_a_failed_gate_outranks_failed_attempts(self, capsys):
        suite = write_suite(30, gates={"success": {"at_least": 0.9}})
        assert outcome(capsys, "run", suite, "--agent", "agent:bad")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rum"], 'there is no command "rum". Did you mean "run"?'),
        (["run", "suite.json"], "Missing option '--agent'"),
        (["score", "suite.json"], "say what to score: --outputs FILE (SUITE again, if it holds them), or"),
        (["score", "suite.json", "--outputs", "a", "--attempts-of", "b"], "exclude each other"),
        (["show"], "there is no store yet"),
        (["run", "suite.json", "--agent", "agent:sam"], '"same"'),
        (["run", "suite.json", "--agent", "agent:same", "--metrics", "jacard"], 'Did you mean "jaccard"?'),
        (
            ["run", "suite.json", "--agent", "agent:same", "--resume", "none"],
            "holds no run yet|no run is called",
        ),
        (["run", "suite.json", "--agent", "agent:same", "--html", "agent.py/x.html"], "cannot be written"),
    ],
)
def test_wrong_usage_is_reported_in_one_message_without_a_traceback(capsys, arguments, words):
    import re

    write_suite()
    code, _, err = outcome(capsys, *arguments)
    assert code == 2
    assert re.search(words, err) or words in err
    assert "Traceback" not in err


def test_show_list_and_export_take_the_newest_run(capsys):
    outcome(capsys, "run", write_suite(), "--agent", "agent:same")
    outcome(capsys, "run", write_suite(5), "--agent", "agent:same")
    assert json.loads(outcome(capsys, "show", "--json")[1])["cases"] == 5
    rows = json.loads(outcome(capsys, "list", "--json")[1])
    assert [row["attempts"] for row in rows] == [5, 3]
    assert json.loads(outcome(capsys, "show", rows[1]["run"], "--json")[1])["cases"] == 3
    assert rows[0]["run"] in outcome(capsys, "list")[1]


def test_equal_inputs_give_equal_bytes_in_a_stable_export(capsys):
    for store in ("a.db", "b.db"):
        suite = write_suite(metrics=["jaccard", "similarity", "success", "time"])
        outcome(capsys, "run", suite, "--agent", "agent:same", "--store", store)
        for what in ("scores", "attempts", "summary"):
            outcome(
                capsys, "export", "--stable", "--store", store, "--what", what, "--output", f"{store}.{what}"
            )
    for what in ("scores", "attempts", "summary"):
        assert Path(f"a.db.{what}").read_bytes() == Path(f"b.db.{what}").read_bytes()


def test_an_export_has_a_row_for_every_score_and_composite(capfdbinary):
    assert outcome(capfdbinary, "run", write_suite(repeats=2), "--agent", "agent:same", "--quiet")[0] == 0
    code, out, _ = outcome(capfdbinary, "export")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    own = [row for row in rows if row["case"] == "c1" and row["repeat"] == 1]
    assert [row["metric"] for row in own] == ["jaccard", "similarity", "success", "composite"]
    assert own[-1]["detail"]["passed"] is True
    of_the_run = {row["metric"]: row["value"] for row in rows if row["case"] is None}
    assert of_the_run == {"pass@1": 1.0, "pass@2": 1.0, "pass^1": 1.0, "pass^2": 1.0}


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_csv_and_parquet_hold_what_jsonl_holds(capsys, format_):
    outcome(capsys, "run", write_suite(), "--agent", "agent:same")
    outcome(capsys, "export", "--output", "rows.jsonl")
    outcome(capsys, "export", "--output", f"rows.{format_}", "--format", format_)
    expected = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    if format_ == "csv":
        import csv

        with Path("rows.csv").open(newline="") as file:
            found = [dict(row) for row in csv.DictReader(file)]
        assert [float(row["value"]) for row in found] == [row["value"] for row in expected]
    else:
        import pyarrow.parquet as pq

        found = pq.read_table("rows.parquet").to_pylist()
        assert [row["value"] for row in found] == [row["value"] for row in expected]
    assert [row["metric"] for row in found] == [row["metric"] for row in expected]
    assert [json.loads(row["detail"]) for row in found] == [row["detail"] for row in expected]


def test_exported_attempts_can_be_scored_again(capsys):
    outcome(capsys, "run", write_suite(), "--agent", "agent:same")
    outcome(capsys, "export", "--what", "attempts", "--output", "outputs.jsonl")
    code, out, _ = outcome(capsys, "score", "suite.json", "--outputs", "outputs.jsonl", "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["jaccard"]["mean"] == 1.0


def test_reports_are_written_and_named(capsys):
    _, _, err = outcome(
        capsys, *("run", write_suite(), "--agent", "agent:same", "--markdown", "r.md", "--junit", "out/r.xml")
    )
    assert "wrote r.md" in err
    assert "jaccard" in Path("r.md").read_text()
    assert "<testsuite" in Path("out/r.xml").read_text()


@pytest.mark.parametrize("what", ["suite", "case", "output", "item", "label", "judgement"])
def test_schemas_are_json_schemas(capsys, what):
    schema = json.loads(outcome(capsys, "schema", what)[1])
    assert "$ref" in schema or "properties" in schema


def test_what_commands_print_as_json_is_what_their_schemas_say(capsys):
    suite = write_suite()
    for agent in ("agent:same", "agent:bad"):
        outcome(capsys, "run", suite, "--agent", agent, "--quiet")
    lines = [
        ("run", suite, "--agent", "agent:same"),
        *(("show",), ("list",), ("compare",), ("plan", "--detect", "0.2"), ("doctor",)),
    ]
    for command, *words in lines:
        schema = json.loads(outcome(capsys, "schema", "--command", command)[1])
        jsonschema.Draft202012Validator.check_schema(schema)
        printed = json.loads(outcome(capsys, command, *words, "--json")[1])
        errors = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(printed)]
        assert errors == [], command
        assert printed
    texts = json.loads(outcome(capsys, "compare", "--json")[1])["moved_cases"]["changes"][0]
    described = json.loads(outcome(capsys, "schema", "--command", "compare")[1])["$defs"]["ChangeWithTexts"]
    assert {*texts} <= {*described["properties"]}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_lines_for_the_shell(capsys, shell):
    assert "_TRIVIUM_COMPLETE" in outcome(capsys, "completion", shell)[1]


def test_doctor_says_what_is_there(capsys):
    findings = {one["what"]: one for one in json.loads(outcome(capsys, "doctor", "--json")[1])}
    assert findings["trivium"]["ok"]
    assert findings["parquet"]["ok"]
    assert "no store yet" in findings["store"]["found"]
    assert "trivium" in outcome(capsys, "doctor")[1]


def test_show_metrics_lists_every_metric(capsys):
    out = outcome(capsys, "show", "metrics")[1]
    for name in ("cosine", "path_agreement", "edit"):
        assert name in out


def test_ctrl_c_keeps_what_is_done_and_names_the_line_to_resume():
    Path("slow.py").write_text(
        "import sys, threading\n"
        "def answer(question):\n"
        "    if question.endswith('2'):\n"
        "        print('ready', flush=True); threading.Event().wait()\n"
        "    return question\n"
    )
    write_suite()
    command = [
        sys.executable,
        "-m",
        "trivium",
        "run",
        "suite.json",
        "--agent",
        "slow:answer",
        "--at-once",
        "1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n", "standard output is kept for what Trivium says"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "2 attempts are stored with their scores" in err
    resume = err.strip().splitlines()[-1].split()
    assert resume[0] == "trivium"
    Path("slow.py").write_text("def answer(question):\n    return question\n")
    done = subprocess.run([sys.executable, "-m", *resume], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 of 3 passed" in done.stdout


def test_output_into_a_pipe_that_closes_is_no_error(capsys):
    assert outcome(capsys, "run", write_suite(200), "--agent", "agent:same", "--quiet")[0] == 0
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "trivium", "export"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_log_goes_to_a_file_as_json_lines_with_secrets_masked(capsys):
    Path("leaky.py").write_text(
        "def answer(question):\n    raise ValueError('Authorization: Bearer sk-abcdefghijklmnop')\n"
    )
    log = ("--log-level", "debug", "--log-file", "log.jsonl")
    _, _, err = outcome(capsys, *log, "run", write_suite(1), "--agent", "leaky:answer", "--quiet")
    assert "sk-abcdefghijklmnop" not in err
    text = Path("log.jsonl").read_text()
    assert "sk-abcdefghijklmnop" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert any("c0" in line["message"] for line in lines)
    assert "sk-abcdefghijklmnop" not in outcome(capsys, "export", "--what", "attempts")[1]
