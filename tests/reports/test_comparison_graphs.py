"""Traces of two runs compared, in words, tables, Markdown and on a page."""

import io

import msgspec
from rich.console import Console

from tests.reports import comparison_samples as samples
from tests.reports.html.parsed import Page
from trivium.reports.comparison import render_markdown, write_html
from trivium.reports.graph_diff import change_word, edge_text, edges_changed, traces_compared
from trivium.runs.comparing.graph_diff import EdgeChange, GraphComparison, PaceChange


def edge(**fields):
    given = {
        "kind": "call",
        "source": "boss",
        "target": "search",
        "became": "more",
        "sure": True,
        "base": 1.0,
        "head": 1.5,
        "delta": 0.5,
        "ci95": (0.25, 0.75),
        "share_base": 1.0,
        "share_head": 1.0,
        "groups_more": 20,
        "groups_fewer": 1,
        "p": 0.0001,
        "p_holm": 0.0003,
    }
    return EdgeChange(**given | fields)


def pace(**fields):
    given = {
        "kind": "tool",
        "name": "search",
        "became": "slower",
        "sure": True,
        "base": 1.0,
        "head": 1.5,
        "factor": 1.5,
        "ci95": (1.25, 1.75),
        "cases": 21,
        "groups": 21,
        "groups_slower": 20,
        "groups_faster": 1,
        "p": 0.0001,
        "p_holm": 0.0003,
    }
    return PaceChange(**given | fields)


def graphs(edges=(), paces=(), **fields):
    given = {
        "attempts": 42,
        "cases": 21,
        "groups": 21,
        "without_trace": 0,
        "edges": tuple(edges),
        "edges_left_out": 0,
        "paces": tuple(paces),
        "paces_left_out": 0,
        "level": 0.95,
    }
    return GraphComparison(**given | fields)


def printed(comparison, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(comparison)
    return console.file.getvalue()


def test_an_edge_says_what_it_is():
    assert edge_text(edge()) == "boss calls search"
    assert edge_text(edge(source=None)) == "nobody calls search"
    assert edge_text(edge(kind="order", source="START")) == "START then search"
    assert edge_text(edge(kind="message", target="aide")) == "boss → aide"


def test_what_chance_may_have_done_has_a_question_mark():
    assert change_word(edge()) == "more"
    assert change_word(edge(sure=False)) == "more?"
    assert change_word(edge(sure=False, became="same")) == "same"


def test_the_headline_counts_what_is_sure():
    found = graphs([edge(), edge(became="vanished"), edge(sure=False)], [pace(), pace(became="faster")])
    assert (
        edges_changed(found) == "Among 3 edges: 1 vanished, 1 became more frequent, 1 slowed down, 1 sped up"
    )
    assert edges_changed(graphs([edge(sure=False)])).endswith("nothing changed beyond chance")
    assert traces_compared(graphs(without_trace=1_000)).endswith("21 cases; 1,000 pairs without")


def test_every_report_shows_the_changes_and_counts_what_it_leaves_out(tmp_path):
    many = graphs([edge(target=f"t{i}") for i in range(100)], [pace()], edges_left_out=7)
    comparison = samples.comparison(graphs=many)
    write_html(tmp_path / "page.html", comparison)
    page = Page((tmp_path / "page.html").read_text("utf-8"))
    assert page.open == []
    for text, left in ((printed(comparison), 92), (render_markdown(comparison), 92), (page.text, 47)):
        for words in (
            "boss calls t0",
            "+0.500",
            "[+0.250, +0.750]",
            "×1.50",
            f"{left} further edges not shown",
        ):
            assert words in text.replace("\\", "")
    assert all(len(line) <= 80 for line in printed(comparison).splitlines())


def test_names_of_strangers_are_shown_and_never_obeyed(tmp_path):
    hostile = graphs([edge(source=samples.HOSTILE, target=samples.HOSTILE)], [pace(name=samples.HOSTILE)])
    comparison = samples.comparison(graphs=hostile)
    write_html(tmp_path / "page.html", comparison)
    for text in (render_markdown(comparison), (tmp_path / "page.html").read_text("utf-8")):
        assert "<script" not in text
        assert "\x1b" not in text
    assert "\x1b" not in printed(comparison)
    rows = [line for line in render_markdown(comparison).splitlines() if line.startswith("| more ")]
    assert {line.count("|") for line in rows} == {8}


def test_without_common_traces_there_is_no_section():
    empty = graphs(attempts=0, cases=0, groups=0)
    assert "traces" not in printed(samples.comparison(graphs=empty))
    assert msgspec.json.decode(msgspec.json.encode(empty))["edges"] == []
