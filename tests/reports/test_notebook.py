"""What a notebook shows: IPython's own formatter asks the records, and gets HTML that is safe anywhere."""

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import nbclient
import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

import trivium as tv
from tests.reports import comparison_samples as comparisons
from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary
from tests.reports.test_pairwise import comparison as pairs

ROOT = Path(__file__).parents[2]
SAFE = {
    "div",
    "b",
    "span",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "details",
    "summary",
    "ins",
    "del",
    "strong",
}
SAFE |= {"svg", "g", "line", "circle", "polyline", "rect", "text", "title"}


class Page(HTMLParser):
    """Reads HTML as a browser does, and refuses what could do anything."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SAFE, tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name not in {"href", "src", "id", "action"}, name
            assert "url(" not in (value or ""), value
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(record: object) -> Page:
    """What IPython would put into a notebook's cell."""
    formats, _ = DisplayFormatter().format(record)
    assert set(formats) == {"text/plain", "text/html"}
    return Page(formats["text/html"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tv.Run:
    cases = [{"id": f"c{i}", "input": str(i), "references": [str(i)]} for i in range(20)]
    suite = tv.Suite(name="numbers <b>", cases=cases).with_settings(
        metrics=["jaccard", "success"],
        success={"metric": "jaccard", "at_least": 0.5},
        gates={"pass_rate": {"at_least": 0.5}},
    )
    store = tmp_path_factory.mktemp("notebook") / "store.db"
    return tv.evaluate(suite, agent=lambda text: text if int(text) % 4 else "no", store=str(store))


def test_a_run_shows_its_figures_its_gates_and_what_did_not_pass(run: tv.Run) -> None:
    page = shown(run)

    rate = run.summary().pass_rate
    low, high = rate.ci95
    assert "numbers <b>" in page.text
    assert "0.750" in page.text
    assert f"[{low:.3f}, {high:.3f}]" in page.text
    assert "pass_rate ≥ 0.5" in page.text
    assert "did not pass (5 of 5, worst first)" in page.text
    assert "done" in page.text
    assert page.tags.count("svg") == 2  # two metrics
    order = ["✓ pass", "pass rate", "did not pass", "jaccard0.", "agent latency"]
    places = [page.text.index(part) for part in order]
    assert places == sorted(places)


def test_an_unfinished_run_shows_how_far_it_has_come(run: tv.Run) -> None:
    record = msgspec.structs.replace(run.record, summary=None, state="interrupted")

    page = shown(tv.Run(run.store, record))

    assert "interrupted" in page.text
    assert "20 attempts of 20 cases" in page.text


def test_a_summary_is_printed_as_text_and_drawn_as_html(run: tv.Run) -> None:
    summary = run.summary()
    formats, _ = DisplayFormatter().format(summary)

    assert formats["text/plain"] == str(summary)
    assert "<svg" in formats["text/html"]


def test_a_large_summary_is_shown_whole() -> None:
    page = shown(samples.summary(samples.views()))

    assert "coordination_quality" in page.text
    assert "similarity" in page.text


def test_a_comparison_shows_answer_differences_and_moves() -> None:
    page = shown(comparisons.comparison())

    assert "? Likely not worse (75 %)" in page.text
    for expected in ("−0.010", "[−0.060, +0.040]", "812", "0.340", "q3", "Cusco", "margin"):
        assert expected in page.text, expected


def test_a_curve_is_drawn_with_its_areas() -> None:
    # three predictions of four items, right, wrong, right: risk 0, 1/2, 1/3 at coverage 1/4, 2/4, 3/4
    curve = tv.trust.risk_coverage([0, 1, 0], [0.9, 0.8, 0.7], n_items=4)

    page = shown(curve)

    assert "4 items, 75 % predicted" in page.text
    assert f"AURC {(0 + 0.5) / 2 / 4 + (0.5 + 1 / 3) / 2 / 4:.3f}" in page.text
    for reading in ("25 %0.000", "50 %0.500", "75 %0.333"):
        assert reading in page.text
    assert "polyline" in page.tags


def test_a_long_curve_stays_small_and_an_empty_one_says_so() -> None:
    rng = np.random.default_rng(3)
    long = tv.trust.risk_coverage(rng.random(50_000), rng.random(50_000), n_items=60_000)

    assert len(long._repr_html_()) < 20_000
    assert "no item is predicted" in shown(tv.trust.risk_coverage([], [], n_items=3)).text


def test_agreement_calibrators_and_certificates_show_their_figures() -> None:
    rng = np.random.default_rng(1)
    people = rng.integers(0, 3, 120)
    judge = np.where(rng.random(120) < 0.8, people, rng.integers(0, 3, 120))
    groups = np.arange(120) // 4
    agreed = shown(tv.trust.agreement(judge, people, groups, resamples=200))
    exact = float((judge == people).mean())
    assert f"same label{exact:.3f}" in agreed.text
    assert "120 items in 30 groups" in agreed.text

    right = (judge == people).astype(float)
    sure = np.clip(0.6 * right + 0.4 * rng.random(120), 0, 1)
    calibrator = tv.trust.fit_calibrator("logistic", sure, right, features=["sure"], groups=groups.tolist())
    made = shown(calibrator)
    assert "logistic on sure" in made.text
    assert f"{calibrator.metrics['cross_fitted']['brier_score']:.3f}" in made.text

    assert "Nothing can be certified" in shown(tv.trust.certify(1 - right[:6], sure[:6], range(6))).text
    wrong = np.zeros(400)
    assert "Accept confidence ≥" in shown(tv.trust.certify(wrong, rng.random(400), range(400))).text


def test_what_has_no_drawing_of_its_own_shows_the_terminals_table() -> None:
    assert "win rate" in shown(pairs()).text


@pytest.mark.parametrize("record", [hostile_summary(), comparisons.hostile(), pairs("<script>x</script>")])
def test_texts_of_strangers_are_shown_and_never_obeyed(record: object) -> None:
    page = shown(record)  # refuses whatever is no mark-up of ours

    assert "<script>" in page.text


def test_the_example_notebook_runs_and_shows_each_record_once_with_its_text(tmp_path: Path) -> None:
    notebook = nbformat.read(ROOT / "examples" / "notebook" / "two_agents.ipynb", as_version=4)
    notebook.cells += map(nbformat.v4.new_code_cell, ("head.summary()", "print(str(head.summary()))"))

    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    *cells, printed = [cell["outputs"] for cell in notebook.cells if cell.get("outputs")]
    assert [[each["output_type"] for each in outputs] for outputs in cells] == [["execute_result"]] * 5
    run, comparison, frame, curve, summary = (outputs[0]["data"] for outputs in cells)
    for data in (run, comparison, curve, summary):
        assert set(data) == {"text/plain", "text/html"}
    assert "done" in Page(run["text/html"]).text
    assert "✓ Better" in Page(comparison["text/html"]).text
    assert "<table" in frame["text/html"]
    assert "AURC" in Page(curve["text/html"]).text
    assert "success" in comparison["text/plain"]
    assert "success" in summary["text/plain"]
    assert [each["output_type"] for each in printed] == ["stream"]
    assert "success" in printed[0]["text"]
