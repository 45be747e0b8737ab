"""``trivium traces score``: what it prints, its exit codes, and wrong input."""

import json

import pytest

from tests.runs.trace_scores.samples import support, trace, write
from trivium.cli.main import run_command


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.jsonl", *support())


def outcome(capsys, *arguments):
    code = run_command(["traces", "score", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_answer_comes_first_then_the_worst_agents_tools_and_metrics(capsys):
    code, out, err = outcome(capsys, "t.jsonl")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].startswith("1 of 4 traces failed (33 % of those that ended, interval")
    heads = ("most failed calls: tool search", "worst traces", "\nagent ", "\ntool ", "\nmetric ")
    places = [out.index(head) for head in heads]
    assert places == sorted(places)
    assert "looped failed: TimeoutError: gave up; 4 looped calls; 30.0 s" in " ".join(out.split())
    assert "need not be right" in out


def test_no_line_is_wider_than_the_terminal(capsys):
    _, out, _ = outcome(capsys, "t.jsonl")
    assert max(map(len, out.splitlines())) <= 80


def test_json_is_one_document(capsys):
    code, out, err = outcome(capsys, "t.jsonl", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["traces"], document["failed"]) == (4, 1)
    assert document["tools"][0]["tool"] == "search"
    assert document["summary"]["metrics"]["completed"]["n"] == 3


def test_quiet_prints_nothing(capsys):
    assert outcome(capsys, "t.jsonl", "--quiet") == (0, "", "")


def test_show_export_and_compare_work_on_the_stored_run(capsys):
    store = ("--store", "sqlite:///mine.db")
    runs = [json.loads(outcome(capsys, "t.jsonl", *store, "--json")[1])["run"] for _ in range(2)]
    assert run_command(["show", "--store", "sqlite:///mine.db"]) == 0
    assert "loop_free" in capsys.readouterr().out
    assert run_command(["export", "--store", "sqlite:///mine.db", "--what", "attempts"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert run_command(["compare", *runs, "--store", "sqlite:///mine.db"]) in {0, 4}


@pytest.mark.parametrize(
    ("option", "cases"),
    [
        (["--trace-id", "well", "--trace-id", "open"], 2),
        (["--tag", "beta"], 1),
        (["--agent", "other"], 1),
        (["--since", "2026-09-01"], 4),
        (["--until", "2026-10-01"], 4),
        (["--format", "native"], 4),
    ],
)
def test_every_selection_is_an_option(capsys, option, cases):
    _, out, _ = outcome(capsys, "t.jsonl", "--json", *option)
    assert json.loads(out)["traces"] == cases


def test_metrics_and_settings_are_options(capsys, tmp_path):
    (tmp_path / "config.yaml").write_text("gates: {loop_free: {at_least: 0.5}}\n")
    code, out, _ = outcome(capsys, "t.jsonl", "--metrics", "loop_free", "--config", "config.yaml", "--json")
    assert set(json.loads(out)["summary"]["metrics"]) == {"loop_free", "completed"}
    assert code == 0
    assert outcome(capsys, "t.jsonl", "--config", "config.yaml", "--policy", "proof", "--quiet")[0] == 4


def test_a_page_and_a_comment_can_be_written(capsys, tmp_path):
    pytest.importorskip("jinja2")
    code, _, err = outcome(capsys, "t.jsonl", "--html", "p.html", "--markdown", "c.md", "--junit", "j.xml")
    assert code == 0
    assert "looped" in (tmp_path / "p.html").read_text("utf-8")
    assert "wrote c.md" in err


def test_3_when_a_file_is_unreadable_and_it_is_named(capsys, tmp_path):
    (tmp_path / "cut.json").write_text('{"resourceSpans": [')
    code, out, _ = outcome(capsys, "t.jsonl", "cut.json")
    assert code == 3
    assert "1 unreadable" in out
    assert "cut.json" in out
    code, out, err = outcome(capsys, "t.jsonl", "cut.json", "--quiet")
    assert (code, out) == (3, "")
    assert err.startswith("unreadable: cut.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t.jsno"], 't.jsno: there is no such file or folder. Did you mean "t.jsonl"?'),
        (["empty"], "empty: there is no trace in it"),
        (["other.json"], "other.json: of no known format with the keys colour"),
        (["folder"], "folder: none of its 1 files holds a trace of a known format (first: folder/x.json"),
        (
            ["t.jsonl", "--trace-id", "wel"],
            '--trace-id: no trace has the trace id "wel". Did you mean "well"?',
        ),
        (["t.jsonl", "--format", "otpl"], 'no trace format is called "otpl". Did you mean "otlp"?'),
        (["t.jsonl", "--since", "soon"], 'since: found "soon", expected a date or time'),
        (["t.jsonl", "--metrics", "similarity"], "similarity needs references, which a trace does not state"),
    ],
)
def test_2_for_wrong_input_with_the_way_out(capsys, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text('{"colour": "red"}')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.json").write_text('{"colour": "red"}')
    code, out, err = outcome(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_hostile_names_are_shown_as_text(capsys, tmp_path):
    evil = trace("\x1b[31mred", agent="<b>\x1b]0;title\x07", ok=False)
    write(tmp_path / "evil.jsonl", evil)
    _, out, _ = outcome(capsys, "evil.jsonl")
    assert "\x1b" not in out
    assert "\x07" not in out


def test_help_has_examples(capsys):
    assert run_command(["traces", "score", "--help"]) == 0
    assert "trivium traces score traces/" in capsys.readouterr().out
