"""A file called ``-`` is standard output: the document takes the place of what the command prints."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from trivium.cli.main import run_command, trivium
from trivium.cli.options import STANDARD_OUTPUT, output_file

TRACE = {"spans": [{"id": "1", "kind": "tool", "name": "look", "start": 0.0, "end": 1.0}], "trace_id": "t"}


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory):
    """A folder with two runs of a suite, items with confidences, and a trace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("documents"))
        cases = [{"id": f"c{at}", "input": "?", "references": ["x y"]} for at in range(12)]
        Path("suite.json").write_text(json.dumps({"name": "s", "cases": cases, "metrics": ["jaccard"]}))
        for output in ("x", "x y"):
            lines = [json.dumps({"case": case["id"], "output": output}) for case in cases]
            Path("outputs.jsonl").write_text("\n".join(lines))
            assert run_command(["score", "suite.json", "--outputs", "outputs.jsonl", "--quiet"]) == 0
        items = [
            {"group": f"g{at}", "pred": at % 2, "gt": at % 3 % 2, "confidence": at / 40, "item": "i"}
            for at in range(40)
        ]
        Path("items.jsonl").write_text("\n".join(map(json.dumps, items)))
        Path("trace.json").write_text(json.dumps(TRACE))
        yield


TRUST = ("trust", "curve", "items.jsonl", "--bootstrap-resamples", "20", "--created-at", "2026-01-01")
COMMANDS = [
    (("show", "--html"), "page.html"),
    (("show", "--markdown"), "summary.md"),
    (("show", "--junit"), "junit.xml"),
    (("compare", "--html"), "page.html"),
    (("compare", "--markdown"), "comment.md"),
    (("compare", "--chart"), "chart.svg"),
    ((*TRUST, "--html"), "page.html"),
    ((*TRUST, "--chart"), "chart.svg"),
    ((*TRUST, "--output"), "curve.json"),
    (("traces", "import", "trace.json", "--output"), "traces.jsonl"),
    (("traces", "export", "trace.json", "--output"), "spans.json"),
    (("export", "--output"), "scores.jsonl"),
    (("label", "export", "--output"), "labels.jsonl"),
    (("schema", "--output"), "schema.json"),
]


@pytest.mark.parametrize(("command", "file"), COMMANDS, ids=[" ".join(command) for command, _ in COMMANDS])
def test_a_document_on_standard_output_is_that_of_a_file(capsysbinary, command, file):
    code = run_command([*command, file])
    capsysbinary.readouterr()
    assert run_command([*command, "-"]) == code
    assert capsysbinary.readouterr().out == Path(file).read_bytes()
    assert not Path("-").exists()


def test_a_run_prints_its_document_instead_of_its_table(capsys):
    arguments = ["score", "suite.json", "--outputs", "outputs.jsonl", "--markdown", "-"]
    assert run_command(arguments) == 0
    printed = capsys.readouterr().out
    run_command(["show", "--markdown", "-"])
    assert printed == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "--json", "--markdown", "-"), "--json and --markdown - both write to standard output"),
        (("show", "--html", "-", "--junit", "-"), "--html - and --junit - both write to standard output"),
        (("compare", "--markdown", "-", "--json"), "--markdown - and --json both write to standard output"),
        ((*TRUST, "--output", "-", "--json"), "--output - and --json both write to standard output"),
    ],
)
def test_two_documents_do_not_fit_standard_output(capsys, arguments, message):
    assert run_command(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_a_document_may_go_to_a_file_beside_json(capsys):
    assert run_command(["show", "--json", "--markdown", "beside.md"]) == 0
    assert json.loads(capsys.readouterr().out)["suite"] == "s"
    assert Path("beside.md").exists()


def _options(
    group: click.Group, context: click.Context, name: str = ""
) -> Iterator[tuple[str, click.Option]]:
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        if isinstance(command, click.Group):
            yield from _options(command, context, f"{name} {each}")
        elif command is not None:
            yield from ((f"{name} {each}", one) for one in command.params if isinstance(one, click.Option))


def test_every_option_that_names_a_file_to_write_takes_a_dash():
    @click.command()
    @output_file("--output")
    def command(output):
        pass

    (own,) = command.params
    found = dict.fromkeys(
        f"{command} {option.opts[-1]}: {option.help}"
        for command, option in _options(trivium, click.Context(trivium))
        if option.metavar == "FILE" and "rite" in (option.help or "") and option.callback is not own.callback
    )
    assert list(found) == []
    assert Path("-") == STANDARD_OUTPUT
