"""The semantic score of plain safetensors where neither PyTorch nor transformers is installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import trivium as tv
from tests.encoders import ONNX, only_installed
from tests.metrics.text.texts import OTHER_REVIEW, RECIPE, REVIEW
from trivium.errors import EncoderUnavailable
from trivium.metrics.text.bertscore import compare_pairs
from trivium.metrics.text.encoders.loading import load

WITHOUT_TORCH = """
import sys
sys.modules.update(dict.fromkeys(("torch", "transformers", "safetensors", "onnx")))
from trivium.cli.main import run_command
sys.exit(run_command(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch, *ONNX)
    monkeypatch.setattr("trivium.metrics.text.encoders.loading._loaded", {})


def torchmetrics(a: str, b: str, folder: Path, **options: object) -> float:
    """F1 of one pair, as torchmetrics has it."""
    bert = pytest.importorskip("torchmetrics.functional.text.bert")
    found = bert.bert_score([a], [b], model_name_or_path=str(folder), truncation=True, **options)
    return float(found["f1"])


@pytest.mark.cpu(12, "a process scores, and torchmetrics is imported")
def test_trivium_score_gives_what_torchmetrics_gives(minilm_folder: Path, tmp_path: Path):
    pairs = {"a": (REVIEW, OTHER_REVIEW), "b": ("A short one.", RECIPE), "c": (REVIEW + RECIPE * 40, RECIPE)}
    cases = [{"id": name, "input": "?", "references": [pair[1]]} for name, pair in pairs.items()]
    outputs = [json.dumps({"case": name, "output": pair[0]}) for name, pair in pairs.items()]
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "cases": cases}), encoding="utf-8")
    (tmp_path / "o.jsonl").write_text("\n".join(outputs), encoding="utf-8")
    store = str(tmp_path / "store.db")
    command = ["score", "suite.json", "--outputs", "o.jsonl", "--encoder", str(minilm_folder), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *command, "--metrics", "semantic", "--store", store],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with tv.Store(store) as opened:
        (run,) = opened.runs()
        evaluations = [each.evaluation for each in opened.evaluations(run)]
    found = {each.case: each.scores["semantic"] for each in evaluations}
    for name, (output, reference) in pairs.items():
        assert found[name].value == pytest.approx(torchmetrics(output, reference, minilm_folder), abs=1e-5)
        assert found[name].detail["backend"] == "onnx"
    assert [found[name].detail["truncated"] for name in pairs] == [False, False, True]


@pytest.mark.parametrize("layer", [None, 0, 1, 2])
def test_a_layer_is_the_one_that_torchmetrics_gives(layer: int | None, tiny_folder: Path):
    output, reference = "fade cafe", "bead face cafe"
    expected = torchmetrics(output, reference, tiny_folder, max_length=24, num_layers=layer)
    compared = compare_pairs(load(str(tiny_folder), layer=layer), [(output, reference)])
    assert compared[output, reference].f1 == pytest.approx(expected, abs=1e-5)


def test_a_tokeniser_of_more_words_than_the_weights_have_is_a_reason(tiny_folder: Path, tmp_path: Path):
    for file in tiny_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tokeniser = Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    tokeniser.add_tokens(["zebra"])
    tokeniser.save(str(tmp_path / "tokenizer.json"))
    known = json.loads((tiny_folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    with pytest.raises(EncoderUnavailable, match=f"knows {known + 1} tokens, but its weights {known}"):
        load(str(tmp_path))


def test_weights_without_tokeniser_are_a_reason(tiny_folder: Path, tmp_path: Path):
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes((tiny_folder / file).read_bytes())
    with pytest.raises(EncoderUnavailable, match=r"has no tokenizer\.json beside its weights"):
        load(str(tmp_path))


def test_a_score_is_skipped_with_the_reason_where_the_family_is_unknown(tiny_folder: Path, tmp_path: Path):
    for file in tiny_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "deberta-v2"}', encoding="utf-8")
    score = tv.score("semantic", output="a", references=["b"], encoder=str(tmp_path))
    assert score.status == "skipped"
    assert "is a model of type 'deberta-v2'" in score.reason
    assert "semantic-torch" in score.reason
