"""A metric that is named and cannot be measured is an error of the suite, before anything is asked."""

import json
import subprocess
import sys

import pytest

from tests.judge_server import JudgeServer
from trivium.cli.main import run_command
from trivium.metrics.text import lexical as extras


@pytest.fixture
def score(tmp_path, capfd):
    """Scores two recorded outputs; gives the exit code and what was printed on standard error."""

    def run(*options, **settings):
        cases = [{"id": name, "input": "?", "references": ["x y"]} for name in "ab"]
        (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "cases": cases} | settings))
        (tmp_path / "o.jsonl").write_text("".join(f'{{"case": "{name}", "output": "x"}}\n' for name in "ab"))
        paths = [str(tmp_path / "suite.json"), "--outputs", str(tmp_path / "o.jsonl")]
        store = ["--store", f"sqlite:///{tmp_path / 'store.db'}"]
        code = run_command(["score", *paths, *store, *options])
        return code, capfd.readouterr().err

    return run


@pytest.mark.parametrize("name", ["rouge_l", "bleu", "chrf", "edit"])
def test_a_named_metric_without_its_extra_is_refused_with_what_to_install(score, monkeypatch, name):
    for module in ("rouge_score.tokenizers", "rapidfuzz.distance", "sacrebleu"):
        monkeypatch.setitem(sys.modules, module, None)
    extras._library.cache_clear()
    code, error = score("--quiet", "--metrics", name)
    extras._library.cache_clear()
    assert code == 2
    assert f'{name} cannot be measured: {name} needs an extra: pip install "trivium[text]"' in error


def test_a_named_semantic_without_any_backend_is_refused_and_similarity_is_not(score, monkeypatch):
    from trivium.metrics.text.encoders import loading

    for module in ("onnxruntime", "torch"):
        monkeypatch.setitem(sys.modules, module, None)
    loading._loaded.clear()
    code, error = score(metrics=["semantic"])
    assert code == 2
    assert 'pip install "trivium[semantic]"' in error
    assert score(metrics=["similarity"])[0] == 0
    loading._loaded.clear()


def test_a_judge_without_its_extra_is_refused_by_the_name_of_the_extra(score, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    code, error = score(metrics=["clarity"], judge={"models": ["openai:gpt-4o-mini"]})
    assert code == 2
    assert 'clarity needs an extra: pip install "trivium[judge]"' in error
    assert "httpx2" not in error


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("opnai:gpt-4o", 'judge.models: no provider is called "opnai". Did you mean "openai"?'),
        ("gpt-4o", '"gpt-4o" names no provider: expected provider:model'),
    ],
)
def test_an_unknown_provider_is_an_error_of_the_suite(score, monkeypatch, model, words):
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        code, error = score(metrics=["clarity"], judge={"models": [model]})
    assert code == 2
    assert words in error
    assert server.counts["requests"] == 0


def test_a_provider_whose_package_is_not_installed_is_known(score):
    assert score(metrics=["clarity"], judge={"models": ["groq:llama-3", "ollama:x"]})[0] == 3


def test_a_page_without_the_extra_says_what_to_install(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['jinja2'] = sys.modules['markupsafe'] = None\n"
        "from trivium.cli.main import main\n"
        "main()\n"
    )
    (tmp_path / "s.jsonl").write_text('{"id": "a", "input": "q", "references": ["o"]}\n')
    (tmp_path / "o.jsonl").write_text('{"case": "a", "output": "o"}\n')
    command = ["score", "s.jsonl", "--outputs", "o.jsonl", "--metrics", "jaccard", "--html", "r.html"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 2, ended.stderr
    assert 'The HTML report needs an extra: pip install "trivium[report]"' in ended.stderr
    assert "Traceback" not in ended.stderr
