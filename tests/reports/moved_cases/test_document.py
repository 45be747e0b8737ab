"""The JSON document of a comparison, whole and piece by piece."""

import msgspec
import pytest

from tests.reports import comparison_samples
from tests.reports import moved_case_samples as samples
from trivium.errors import StoreError
from trivium.reports.moved_cases import document
from trivium.reports.moved_cases.document import comparison_document, comparison_json
from trivium.runs.comparing.comparison import ComparedSlice
from trivium.runs.comparing.moved_cases import MovedCases


def moved(count):
    texts = samples.scored("Lima"), samples.scored("Cusco\n", passed=False)
    return samples.moved_cases(*(samples.moved_case(f"q{at}", *texts) for at in range(count)))


def as_one_document(comparison, **options):
    whole = msgspec.json.encode(comparison_document(comparison, **options))
    return msgspec.json.format(whole, indent=2)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("cases", [0, 1, 3, 9])
def test_the_pieces_are_the_document_with_lists_of_any_length(monkeypatch, count, cases):
    monkeypatch.setattr(document, "ENCODED_AT_ONCE", 2)
    comparison = comparison_samples.comparison(moved_cases=moved(count))
    assert b"".join(comparison_json(comparison, cases=cases)) == as_one_document(comparison, cases=cases)


def test_the_pieces_are_the_document_with_texts_that_look_like_its_lines():
    trap = '\n    "changes": []\n    ]'
    comparison = comparison_samples.comparison(
        moved_cases=samples.hostile(),
        only_base=(trap,),
        metrics={"changes": comparison_samples.delta(0.1, 0.2), trap: comparison_samples.delta(None, None)},
        slices={"changes": (), trap: (ComparedSlice(value=trap, cases=1, metrics={}),)},
    )
    assert b"".join(comparison_json(comparison)) == as_one_document(comparison)


def test_the_document_is_the_comparison_with_the_texts_of_the_first_cases():
    comparison = comparison_samples.comparison(moved_cases=moved(3))
    found = comparison_document(comparison, cases=1)
    first, *others = found["moved_cases"]["changes"]
    assert (first["base"]["output"], first["head"]["output"]) == ("Lima", "Cusco\n")
    found["moved_cases"]["changes"] = [{name: first[name] for name in others[0]}, *others]
    assert msgspec.json.encode(found) == msgspec.json.encode(comparison)


def test_a_piece_holds_no_more_cases_the_more_there_are(monkeypatch):
    monkeypatch.setattr(document, "ENCODED_AT_ONCE", 10)
    pieces = list(comparison_json(comparison_samples.comparison(moved_cases=moved(200)), cases=0))
    assert max(piece.count(b'"by": "pass_rate"') for piece in pieces) == 10


def test_nothing_is_written_if_the_first_texts_cannot_be_read():
    unread = MovedCases(by=("pass_rate",), compared=60, worse=1, changes=samples.calm().changes[:1])
    with pytest.raises(StoreError, match="texts of these cases are unknown"):
        next(comparison_json(comparison_samples.comparison(moved_cases=unread)))
