"""``trivium compare`` as a user types it: what it prints, what it writes, and how it ends."""

import json
from pathlib import Path

import pytest

from trivium.cli.main import run_command

# files.md: compare --json
KEYS = {"base", "head", "answer", "metrics", "only_base", "only_head", "moved"}
FIGURE_KEYS = {"delta", "ci95", "p", "p_holm", "share_positive", "mde", "wins", "losses", "ties"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [f"word{i}" for i in range(20)]
    cases = [{"id": f"c{i}", "input": "x", "references": [" ".join(words)]} for i in range(30)]
    suite = {
        "name": "small",
        "metrics": ["jaccard", "similarity", "success"],
        "similarity": {"jaccard": 1},
        "cases": cases,
    }
    Path("suite.json").write_text(json.dumps(suite))


@pytest.fixture
def outcome(capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def run(outcome):
    """Scores outputs that hold so many of the twenty words in turn, and gives the run's id."""

    def score(*counts: int, suite: str = "suite.json") -> str:
        lines = [
            {"case": f"c{i}", "output": " ".join(f"word{w}" for w in range(counts[i % len(counts)]))}
            for i in range(30)
        ]
        Path("outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        _, out, err = outcome("score", suite, "--outputs", "outputs.jsonl", "--json")
        assert out, err
        return json.loads(out)["run"]

    return score


def test_unchanged_outputs_end_with_0(run, outcome):
    code, out, err = outcome("compare", run(15, 18), run(15, 18))
    assert (code, err) == (0, "")
    assert "✓ pass. The outputs are the same." in out


def test_a_surely_worse_run_ends_with_1(run, outcome):
    code, out, _ = outcome("compare", run(15, 18, 12), run(8, 9, 7))
    assert code == 1
    assert "✗ fail" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_policy_decides_where_nothing_is_proven(run, outcome):
    runs = run(15, 18, 12), run(18, 12, 15)
    for options, code in (((), 0), (("--policy", "proof"), 4), (("--policy", "strict"), 1)):
        found, out, _ = outcome("compare", *runs, *options)
        assert found == code
        assert "Likely not worse (" in out
        assert f"Policy {options[1] if options else 'balanced'}" in " ".join(out.split())


def test_the_newest_run_is_compared_with_the_one_before_it_of_its_suite(run, outcome):
    base = run(15, 18)
    Path("else.json").write_text(Path("suite.json").read_text().replace("small", "else"))
    other = run(4, 5, suite="else.json")
    head = run(15, 18)
    document = json.loads(outcome("compare", "--json")[1])
    assert (document["base"], document["head"]) == (base, head)
    code, _, err = outcome("compare", other, other)
    assert code == 0, err


def test_the_first_run_of_a_suite_has_none_before_it(run, outcome):
    run(15)
    code, _, err = outcome("compare")
    assert code == 2
    assert "is the first of small: there is none to compare it with" in err


def test_a_run_of_an_agent_and_one_of_recorded_outputs_are_compared_by_name(run, outcome):
    recorded = run(15)
    called = json.loads(outcome("run", "suite.json", "--agent", "cmd:cat", "--json")[1])["run"]
    code, _, err = outcome("compare")
    assert code == 2
    assert f"is the first of small by an agent: to compare it with run {recorded} of recorded" in err
    assert outcome(*err.strip().partition("name both: trivium ")[2].split())[0] == 1, called


def test_peoples_own_run_is_no_base(outcome):
    papers = f"peerread:{Path(__file__).parents[2] / 'examples' / 'paper_review' / 'papers'}"
    code, _, err = outcome("score", papers, "--leave-one-out", "--metrics", "jaccard")
    assert code == 0, err
    Path("agent.py").write_text("def review(paper):\n    return 'A fine paper.'\n")
    outcome("run", papers, "--agent", "agent.py:review", "--metrics", "jaccard")
    code, _, err = outcome("compare")
    assert code == 2
    assert "of people's outputs, name both: trivium compare" in err


def test_a_run_that_is_not_there_ends_with_2(run, outcome):
    code, out, err = outcome("compare", run(15), "nothing")
    assert (code, out) == (2, "")
    assert 'no run is called "nothing"' in err


def test_unlike_runs_end_with_2_unless_forced(run, outcome):
    base = run(15, 18)
    suite = json.loads(Path("suite.json").read_text()) | {
        "success": {"metric": "similarity", "at_least": 0.5}
    }
    Path("other.json").write_text(json.dumps(suite))
    head = run(15, 18, suite="other.json")
    code, out, err = outcome("compare", base, head)
    assert (code, out) == (2, "")
    assert 'success: {"contains":"any"} in base, {"metric"' in err
    code, out, _ = outcome("compare", base, head, "--force")
    assert code in {0, 1, 4}
    assert "compared although unlike: success" in " ".join(out.split())


def test_json_is_one_document_with_the_documented_keys(run, outcome):
    base, head = run(15, 18, 12), run(12, 19, 10)
    code, out, err = outcome(
        "compare", base, head, "--json", "--margin", "0.5", "--seed", "7", "--resamples", "500"
    )
    assert err == ""
    document = json.loads(out)
    assert set(document) >= KEYS
    assert (document["base"], document["head"]) == (base, head)
    assert (document["margin"], document["seed"], document["resamples"]) == (0.5, 7, 500)
    assert set(document["metrics"]) >= {"pass_rate", "jaccard", "similarity", "success"}
    for figure in document["metrics"].values():
        assert set(figure) >= FIGURE_KEYS
        assert figure["wins"] + figure["losses"] + figure["ties"] == figure["n"] == 30
    assert document["answer"] == {0: "pass", 1: "fail", 4: "inconclusive"}[code]
    assert set(document["moved"]) <= {f"c{i}" for i in range(30)}
    assert "NaN" not in out


def test_a_wider_level_makes_wider_intervals(run, outcome):
    runs = run(15, 18, 12), run(12, 19, 10)
    narrow, wide = (
        json.loads(outcome("compare", *runs, "--json", "--level", level)[1])["metrics"]["jaccard"]["ci95"]
        for level in ("0.8", "0.99")
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_reports_are_written_where_they_are_asked_for(run, outcome):
    names = ("out/a.html", "out/a.md", "out/a.svg")
    options = [part for pair in zip(("--html", "--markdown", "--chart"), names, strict=True) for part in pair]
    code, out, err = outcome("compare", run(15), run(15), "--quiet", *options)
    assert (code, out) == (0, "")
    assert err.splitlines() == [f"wrote {name}" for name in names]
    assert all(Path(name).stat().st_size for name in names)


def test_a_report_that_cannot_be_written_ends_with_2(run, outcome):
    base = run(15)
    code, _, err = outcome("compare", base, base, "--quiet", "--markdown", "suite.json/a.md")
    assert code == 2
    assert "suite.json/a.md: cannot be written" in err


def test_an_option_out_of_range_ends_with_2(run, outcome):
    base = run(15)
    assert outcome("compare", base, base, "--margin", "7")[0] == 2


def test_graphs_are_compared_where_that_is_asked_for(outcome):
    def traced(name, tool):
        span = {"id": "1", "kind": "tool", "name": tool, "start": 0, "end": 1}
        lines = [{"case": f"c{i}", "output": "x", "trace": {"spans": [span]}} for i in range(30)]
        Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    for name, tool in (("one.jsonl", "old"), ("two.jsonl", "new")):
        traced(name, tool)
        outcome("score", "suite.json", "--outputs", name, "--quiet")
    _, out, _ = outcome("compare", "--json")
    assert json.loads(out)["graphs"] is None
    _, out, _ = outcome("compare", "--graphs", "--json", "--html", "page.html", "--markdown", "note.md")
    graphs = json.loads(out)["graphs"]
    became = {(one["source"], one["target"]): one["became"] for one in graphs["edges"]}
    assert became[None, "new"] == "appeared"
    assert became[None, "old"] == "vanished"
    _, table, _ = outcome("compare", "--graphs")
    for text in (table, Path("page.html").read_text(), Path("note.md").read_text()):
        assert "nobody calls new" in text
        assert "6 edges: 3 appeared, 3 vanished" in text


def test_so_many_moved_cases_are_shown_with_their_outputs(run, outcome):
    runs = run(15), run(*[15] * 26, 5, 6, 7, 8)
    text = outcome("compare", *runs)[1]
    assert "4 of 30 cases moved" in text
    assert text.count("↓ c") == 3
    assert "head       word0 word1 word2 word3 word4" in text
    assert outcome("compare", *runs, "--cases", "1")[1].count("↓ c") == 1
    assert "↓ c" not in outcome("compare", *runs, "--cases", "0")[1]
    assert outcome("compare", *runs, "--cases", "-1")[0] == 2


def test_json_has_the_values_of_all_moved_cases_and_the_texts_of_the_first(run, outcome):
    runs = run(15), run(*[15] * 26, 5, 6, 7, 8)
    moved = json.loads(outcome("compare", *runs, "--json", "--cases", "2")[1])["moved_cases"]
    assert (moved["compared"], moved["better"], moved["worse"]) == (30, 0, 4)
    assert [change["case"] for change in moved["changes"]] == ["c26", "c27", "c28", "c29"]
    first, *_, last = moved["changes"]
    assert first["head"]["output"] == "word0 word1 word2 word3 word4"
    assert first["base"]["output"].endswith("word13 word14")
    assert first["values"]["pass_rate"] in ([0.0, 0.0], [1.0, 0.0])
    assert "head" not in last
    assert last["values"].keys() == first["values"].keys()


def test_pages_of_both_runs_are_linked_by_relative_paths_or_addresses(run, outcome):
    runs = run(15), run(5, 15)
    outcome(
        "compare",
        *runs,
        "--html",
        "out/c.html",
        "--base-page",
        "pages/a.html",
        "--head-page",
        "https://x.y/b",
    )
    text = Path("out/c.html").read_text("utf-8")
    assert 'href="../pages/a.html"' in text
    assert 'href="https://x.y/b#attempt-' in text


def test_a_comment_has_so_many_cases(run, outcome):
    runs = run(15), run(5)
    for given, expected in (((), 5), (("--cases", "7"), 7)):
        outcome("compare", *runs, "--quiet", "--markdown", "c.md", *given)
        assert Path("c.md").read_text("utf-8").count("<details>") == expected
