"""Tables of slices in the terminal, in Markdown and on pages; the options that ask for them."""

import json

import pytest

import trivium as tv
from trivium.cli.main import run_command
from trivium.display import as_text
from trivium.reports.document.html import html
from trivium.reports.document.markdown import markdown
from trivium.reports.document.terminal import Printed
from trivium.reports.slices import run_slices

HOSTILE = "<script>alert(1)</script>|x\x1b[31m"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder with two scored runs: in the second one the tag ``shipping`` fails."""
    monkeypatch.chdir(tmp_path)
    tags = ("refund", "shipping", HOSTILE)
    cases = [
        {
            "id": f"q{i}",
            "input": "?",
            "references": ["yes"],
            "tags": [tags[i % 3]],
            "metadata": {"lang": "en"},
        }
        for i in range(60)
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    suite = "cases: cases.jsonl\nmetrics: [jaccard, success]\nsuccess: {metric: jaccard, at_least: 0.9}\n"
    (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    for name, fails in (("base", None), ("head", "shipping")):
        rows = [
            {"case": case["id"], "output": "no" if fails in case["tags"] or at % 10 == 9 else "yes"}
            for at, case in enumerate(cases)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        assert run_command(["score", "suite.yaml", "--outputs", f"{name}.jsonl", "--quiet"]) == 0
    return tmp_path


def test_show_prints_the_worst_slice_first_and_says_which_differ(store, capsys):
    assert run_command(["show", "--by", "tag", "--by", "lang"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("by tag, worst first") :]
    assert table[2].split()[:3] == ["shipping", "20", "0.000"]
    assert "lower by 0.900" in table[2]
    assert "by lang, worst first" in lines


def test_json_holds_the_slices_by_key(store, capsys):
    assert run_command(["show", "--by", "tag", "--json"]) == 0
    slices = json.loads(capsys.readouterr().out)["slices"]["tag"]
    assert slices[0]["value"] == "shipping"
    assert slices[0]["pass_rate"]["mean"] == 0
    assert slices[0]["metrics"]["jaccard"]["mean"] == 0
    assert slices[0]["versus_rest"]["p_holm"] < 0.001


def test_run_and_score_take_the_same_option(store, capsys):
    assert run_command(["score", "suite.yaml", "--outputs", "head.jsonl", "--by", "tag"]) == 0
    assert "by tag, worst first" in capsys.readouterr().out


def test_a_comparison_says_which_slices_got_worse(store, capsys):
    assert run_command(["compare", "--by", "tag", "--html", "c.html", "--markdown", "c.md"]) == 1
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("shipping"))
    assert row.endswith("worse")
    assert ">99 %" in row
    assert not any(line.startswith("refund") and line.endswith(("worse", "better")) for line in lines)
    assert "| `shipping` | 20 |" in (store / "c.md").read_text(encoding="utf-8")
    assert "Pass rate by tag, largest loss first" in (store / "c.html").read_text(encoding="utf-8")
    assert run_command(["compare", "--by", "tag", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["slices"]["tag"][0]["value"] == "shipping"


def test_values_are_escaped_on_the_page_in_markdown_and_in_the_terminal(store, capsys):
    assert run_command(["show", "--by", "tag", "--html", "r.html", "--markdown", "r.md"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    page = (store / "r.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
    assert 'href="#slices-1"' in page
    assert "<script>" not in (store / "r.md").read_text(encoding="utf-8")


def test_an_unknown_key_ends_with_exit_code_2_and_the_known_keys(store, capsys):
    assert run_command(["show", "--by", "land"]) == 2
    message = capsys.readouterr().err
    assert "no case has a value for 'land'" in message
    assert "lang" in message


def test_a_terminal_and_a_comment_count_the_slices_that_they_leave_out(store):
    cases = [{"id": f"c{i}", "input": "q", "references": ["a"], "tags": [f"v{i:02}"]} for i in range(25)]
    run = tv.evaluate({"name": "s", "cases": cases, "metrics": ["jaccard"]}, agent=str, store="other.db")
    slices = run.slices("tag")
    for text in (
        as_text(Printed([run_slices(slices, "terminal")])),
        markdown([run_slices(slices, "comment")]),
    ):
        assert "and 5 more slices" in text
        assert "v19" in text
        assert "v20" not in text
    assert "v24" in html([run_slices(slices, "page")])
