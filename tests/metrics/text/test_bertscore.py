import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trivium as tv
from tests.goldens import golden
from tests.metrics.text.texts import OTHER_REVIEW, RECIPE, REVIEW
from trivium.metrics.metric import MetricInput
from trivium.metrics.text import bertscore as embedding
from trivium.metrics.text import bertscore as semantic
from trivium.metrics.text.bertscore import Semantic, compare_pairs
from trivium.metrics.text.encoders.loading import load
from trivium.metrics.text.lexical import SizedCache

LETTERS = st.text(alphabet="abcdef .,", max_size=60)


def torchmetrics(a: str, b: str, folder: Path, **options: object) -> tuple[float, float, float]:
    """Precision, recall and F1 of one pair, as torchmetrics has them."""
    bert = pytest.importorskip("torchmetrics.functional.text.bert")
    found = bert.bert_score([a], [b], model_name_or_path=str(folder), truncation=True, **options)
    return tuple(float(found[key]) for key in ("precision", "recall", "f1"))  # type: ignore[return-value]


def scored(pairs: Sequence[tuple[str, str]], **fields: object) -> list[float]:
    subjects = [
        MetricInput(
            tv.Case(id=str(index), input=None, references=(b,)), tv.Attempt(case=str(index), output=a)
        )
        for index, (a, b) in enumerate(pairs)
    ]
    scores = Semantic(**fields).score_many(subjects)  # type: ignore[arg-type]
    assert all(score.status == "ok" for score in scores)
    return [score.value for score in scores]  # type: ignore[misc]


@pytest.fixture
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_REFERENCES", SizedCache(capacity=1_000_000))


def test_semantic_equals_the_oracle(minilm_folder: Path, minilm_onnx_folder: Path):
    lines = [line for line in golden("text_pairs.jsonl") if line.get("bertscore")]
    lines.sort(key=lambda line: len(line["a"]) + len(line["b"]))
    for folder, chosen in (
        (minilm_onnx_folder, lines[::-6]),
        (minilm_folder, lines[::-12]),
    ):  # longest included
        compared = compare_pairs(load(str(folder)), [(line["a"], line["b"]) for line in chosen])
        for line in chosen:
            found = compared[line["a"], line["b"]]
            for key, value in line["bertscore"].items():
                if value is not None and hasattr(found, key):
                    expected = pytest.approx(min(1.0, value), abs=1e-5)
                    assert getattr(found, key) == expected, (line["id"], key)


@pytest.mark.parametrize("layer", [None, 0, 1, 2])
def test_both_backends_give_the_layer_that_torchmetrics_gives(
    layer: int | None, tiny_folder: Path, tiny_onnx_folder: Path
):
    pairs = [("abc def", "abd. ef"), ("a", "b c"), ("fade", "bead face cafe")]
    options = {"max_length": 24, "num_layers": layer}
    expected = [torchmetrics(a, b, tiny_folder, **options)[2] for a, b in pairs]
    for folder in (tiny_folder, tiny_onnx_folder):
        assert scored(pairs, encoder=str(folder), layer=layer) == pytest.approx(expected, abs=1e-5)


def test_texts_beyond_the_limit_are_cut_and_the_score_says_so(tiny_folder: Path, tiny_onnx_folder: Path):
    long = "face cafe bead " * 5_000
    expected = torchmetrics(long, "fade bee", tiny_folder, max_length=24)
    for folder in (tiny_folder, tiny_onnx_folder):
        score = tv.score("semantic", output=long, references=["fade bee"], encoder=str(folder))
        assert score.value == pytest.approx(expected[2], abs=1e-5)
        assert score.detail["truncated"] is True
        assert score.detail["precision"] == pytest.approx([expected[0]], abs=1e-5)
        assert score.detail["recall"] == pytest.approx([expected[1]], abs=1e-5)
        nothing = tv.score("semantic", output=long, references=["\u200b"], encoder=str(folder))
        assert (nothing.value, nothing.detail["truncated"]) == (0.0, True)


def test_a_long_text_of_few_tokens_is_read_to_its_end(tiny_folder: Path):
    spread = " " * 50_000 + "fade"
    expected = tv.score("semantic", output="fade", references=["cafe"], encoder=str(tiny_folder))
    score = tv.score("semantic", output=spread, references=["cafe"], encoder=str(tiny_folder))
    assert score.value == pytest.approx(expected.value, abs=1e-6)
    assert score.detail["truncated"] is False


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(LETTERS, LETTERS), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_neither_batch_nor_order_changes_a_score(
    pairs: list[tuple[str, str]], seed: int, tiny_onnx_folder: Path, nothing_seen: None
):
    encoder = str(tiny_onnx_folder)
    alone = [scored([pair], encoder=encoder)[0] for pair in pairs]
    order = random.Random(seed).sample(range(len(pairs)), len(pairs))
    together = scored([pairs[index] for index in order], encoder=encoder)
    assert together == pytest.approx([alone[index] for index in order], abs=1e-5)
    assert all(0 <= value <= 1 for value in together)


def test_more_pairs_than_are_held_at_once_are_all_scored(
    tiny_onnx_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    pairs = [(f"ab{index % 7} cd{index}", f"bead {index % 5}") for index in range(40)]
    whole = scored(pairs, encoder=str(tiny_onnx_folder))
    monkeypatch.setattr(semantic, "PAIRS_AT_ONCE", 3)
    assert scored(pairs, encoder=str(tiny_onnx_folder)) == pytest.approx(whole, abs=1e-5)


@pytest.mark.usefixtures("nothing_seen")
def test_each_distinct_text_is_encoded_once(tiny_onnx_folder: Path, monkeypatch: pytest.MonkeyPatch):
    encoder = load(str(tiny_onnx_folder))
    texts: list[int] = []
    encode = encoder.encode

    def counted(batches):
        batches = list(batches)
        texts.extend(map(len, batches))
        return encode(batches)

    monkeypatch.setattr(encoder, "encode", counted)
    outputs = [f"output {index}" for index in range(8)]
    compare_pairs(encoder, [(output, reference) for output in outputs for reference in ("bead", "cafe")])
    assert sum(texts) == 8 + 2
    compare_pairs(encoder, [("another", "bead"), ("another", "cafe")])
    assert sum(texts) == 8 + 2 + 1


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_however_many_batches_are_encoded_at_once_scores_are_the_same(
    workers: int, tiny_folder: Path, tiny_onnx_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    pairs = [(f"ab{index % 7} cd{index}", f"bead {index % 5}") for index in range(20)]
    for folder in (tiny_folder, tiny_onnx_folder):
        alone = [scored([pair], encoder=str(folder))[0] for pair in pairs]
        monkeypatch.setattr(embedding, "_REFERENCES", SizedCache(capacity=1_000_000))
        monkeypatch.setattr(load(str(folder)), "workers", workers)
        assert scored(pairs, encoder=str(folder)) == pytest.approx(alone, abs=1e-5)


def test_torch_has_its_threads_back_after_scoring(tiny_folder: Path):
    import torch

    before = torch.get_num_threads()
    scored([(f"ab{index}", "bead") for index in range(9)], encoder=str(tiny_folder))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [("abc", " abc\n", 1.0), ("", "", 1.0), ("", "abc", 0.0), ("abc", " \n", 0.0), ("\u200b", "abc", 0.0)],
)
def test_equal_texts_and_empty_ones_have_their_rule(
    output: str, reference: str, expected: float, tiny_onnx_folder: Path
):
    assert scored([(output, reference)], encoder=str(tiny_onnx_folder)) == [expected]


def test_lone_surrogates_are_read_as_the_replacement_character(tiny_onnx_folder: Path):
    broken, mended = scored([("a\ud83db", "abc"), ("a\ufffdb", "abc")], encoder=str(tiny_onnx_folder))
    assert broken == mended


def test_the_score_names_its_encoder(tiny_folder: Path, tiny_onnx_folder: Path):
    for folder, backend in ((tiny_folder, "torch"), (tiny_onnx_folder, "onnx")):
        score = tv.score("semantic", output="abc", references=["bead", "abd"], encoder=str(folder))
        assert score.value == max(score.raw)
        assert (score.detail["encoder"], score.detail["backend"]) == (folder.name, backend)
        assert score.method == f"{folder.name}@{score.detail['revision'][:12]} ({backend})"


def test_cases_with_and_without_references_go_together(tiny_onnx_folder: Path):
    metric = Semantic(encoder=str(tiny_onnx_folder))
    cases = [tv.Case(id="1", input=None), tv.Case(id="2", input=None, references=("bead", "face"))]
    bare, full = metric.score_many(
        [MetricInput(case, tv.Attempt(case=case.id, output="fad")) for case in cases]
    )
    assert (bare.status, bare.reason) == ("skipped", "the case has no reference")
    assert full.status == "ok"
    assert len(full.raw) == 2


def test_without_any_reference_no_encoder_is_asked_for():
    score = tv.score("semantic", output="x", encoder="/no/such/folder")
    assert (score.status, score.reason) == ("skipped", "the case has no reference")


def test_without_encoder_the_score_is_skipped_and_says_why():
    score = tv.score("semantic", output="x", references=["y"], encoder="/no/such/folder")
    assert (score.status, score.value) == ("skipped", None)
    assert "/no/such/folder is not a folder here" in str(score.reason)


def test_one_subject_scores_as_in_a_batch(tiny_onnx_folder: Path):
    metric = Semantic(encoder=str(tiny_onnx_folder))
    subject = MetricInput(
        tv.Case(id="1", input=None, references=("bead",)), tv.Attempt(case="1", output="fad")
    )
    assert [metric.score(subject)] == metric.score_many([subject])


def test_comparing_alone_is_one_line(minilm_folder: Path):
    metric = Semantic(encoder=str(minilm_folder))
    assert metric.compare(REVIEW, OTHER_REVIEW) > metric.compare(REVIEW, RECIPE)


def test_worse_outputs_score_less(minilm_folder: Path):
    words = REVIEW.split()
    cut, swapped = " ".join(words[: len(words) // 2]), RECIPE
    whole, half, other = scored(
        [(REVIEW, OTHER_REVIEW), (cut, OTHER_REVIEW), (swapped, OTHER_REVIEW)], encoder=str(minilm_folder)
    )
    assert whole > half > other


def test_the_benchmark_runs_to_its_end(run_benchmark):
    run_benchmark("bertscore", "--one-core")
