import json
import threading
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import cases
from trivium import number_buffer
from trivium.errors import SuiteError
from trivium.suites.case import Case
from trivium.suites.files import jsonl as case_file
from trivium.suites.files.jsonl import CaseFiles
from trivium.suites.suite import Suite


def write(path, rows, *, between="\n", before=""):
    path.write_text(before + between.join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def row(id, **fields):
    return {"id": id, "input": f"question {id}", **fields}


@pytest.fixture(params=["in memory", "in a temporary file"])
def many(tmp_path, monkeypatch, request):
    if request.param != "in memory":
        monkeypatch.setattr(number_buffer, "BLOCK", 64)
        monkeypatch.setattr(number_buffer, "_SORTED_AT_ONCE", 100)
        monkeypatch.setattr(case_file, "_STEP", 16)
    rows = [row(f"n{i}", tags=["odd"] * (i % 2)) for i in range(1000)]
    return CaseFiles([write(tmp_path / "c.jsonl", rows)])


def test_it_is_a_sequence(many):
    assert len(many) == 1000
    assert many[0].id == "n0"
    assert many[-1].id == "n999"
    assert [case.id for case in many[10:13]] == ["n10", "n11", "n12"]
    assert [case.id for case in many] == [f"n{i}" for i in range(1000)]
    with pytest.raises(IndexError):
        many[1000]


def test_every_id_is_found_and_no_other(many):
    assert [many.position(f"n{i}") for i in range(1000)] == list(range(1000))
    assert many.position("n1000") is None


@given(st.lists(cases(), min_size=1, max_size=5, unique_by=lambda case: case.id))
def test_it_holds_what_a_list_of_the_same_cases_holds(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("cases") / "c.jsonl"
    Suite(name="s", cases=made).save(path)
    assert list(CaseFiles([path])) == made


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n\n\n", "\n  \n"])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n"])
def test_marks_blank_lines_and_either_line_ending_are_passed_over(tmp_path, between, before):
    file = CaseFiles([write(tmp_path / "c.jsonl", [row("1"), row("2")], between=between, before=before)])
    assert [case.id for case in file] == ["1", "2"]


def test_numbers_and_single_texts_are_taken_as_the_spec_says(tmp_path):
    file = CaseFiles([write(tmp_path / "c.jsonl", [row(1, references="r", group=2), row(1.5)])])
    assert file[0] == Case(id="1", input="question 1", references=("r",), group="2")
    assert file.position("1.5") == 1


def test_texts_are_cleaned_at_the_door(tmp_path):
    lines = [
        r'{"id": "1", "input": "a\u0000b"}',
        r'{"id": "2", "input": "\uD83D"}',
        r'{"id": "3", "input": "\uD83D\uDE00"}',
    ]
    file = CaseFiles([write(tmp_path / "c.jsonl", lines)])
    assert [case.input for case in file] == ["a␀b", "�", "😀"]


def test_ids_are_found_in_any_order(many):
    places = [(i * 617) % 1000 for i in range(1000)]
    assert [many.position(f"n{i}") for i in places] == places


@pytest.mark.parametrize(
    "hash_", [b"\0" * 16, b"\xff" * 16, b"\x01" + b"\0" * 15], ids=["0", "255", "ends in 0"]
)
def test_a_hash_may_be_any_bytes(tmp_path, monkeypatch, hash_):
    hashes = {"b": hash_}
    monkeypatch.setattr(case_file, "hash_of", lambda name: hashes.get(name, name.encode().ljust(16, b"_")))
    file = CaseFiles([write(tmp_path / "c.jsonl", [row("a"), row("b"), row("c")])])
    for name, place in {"c": 2, "b": 1, "a": 0, "d": None}.items():
        assert file.position(name) == place


def test_ids_whose_hashes_begin_alike_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(case_file, "_STEP", 4)
    monkeypatch.setattr(case_file, "hash_of", lambda name: f"{int(name) % 3:08}{name:>8}".encode())
    file = CaseFiles([write(tmp_path / "c.jsonl", [row(f"{i}") for i in range(30)])])
    places = [(i * 7) % 30 for i in range(30)]
    assert [file.position(f"{i}") for i in places] == places
    assert file.position("30") is None


def test_a_file_that_has_changed_is_not_read_on(many, tmp_path):
    with (tmp_path / "c.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(SuiteError, match="has changed since it was opened"):
        many[3]


def test_a_file_that_was_replaced_is_read_as_it_was(many, tmp_path):
    other = write(tmp_path / "other", [row("x")])
    other.replace(tmp_path / "c.jsonl")
    assert many[3].id == "n3"


def test_threads_may_read_at_once(many):
    wrong = []
    turns = count()

    def read():
        while (turn := next(turns)) < 4000:
            index = turn * 7919 % 1000
            if many[index].id != f"n{index}":
                wrong.append(index)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_suite_over_a_file_holds_no_case_and_still_filters_samples_and_splits(many):
    suite = Suite(name="s", cases=many)
    odd = suite.filter(tag="odd")
    assert len(odd) == 500
    assert (odd.position("n3"), odd.position("n2"), odd.position("zz")) == (1, None, None)
    assert odd.case("n3").id == "n3"
    assert [case.id for case in odd.cases[:2]] == ["n1", "n3"]
    assert len(odd.sample(10, seed=1)) == 10
    train, test = odd.split([0.9, 0.1], seed=1)
    assert (len(train), len(test)) == (450, 50)
    assert Suite(name="s", cases=list(odd)).digest == odd.digest


def test_line_numbers_count_blank_lines(tmp_path):
    file = CaseFiles([write(tmp_path / "c.jsonl", [row("1"), row("2")], between="\n\n\n")])
    assert [file.place(i) for i in (0, 1)] == ["line 1", "line 4"]


@given(st.lists(st.integers(0, 199), max_size=40), st.integers(0, 150))
def test_a_case_is_the_same_in_any_order_of_access(tmp_path_factory, asked, first):
    path = tmp_path_factory.mktemp("cases") / "c.jsonl"
    file = CaseFiles([write(path, [row(f"n{i}") for i in range(200)], between="\n\n")])
    for index in (*asked, *range(first, 200), *reversed(asked)):
        assert file[index].id == f"n{index}"


@given(st.lists(cases(), min_size=1, max_size=4, unique_by=lambda case: case.id), st.booleans())
def test_its_digest_is_that_of_a_list_whether_defaults_are_spelled_out_or_not(
    tmp_path_factory, made, spelled
):
    path = tmp_path_factory.mktemp("cases") / "c.jsonl"
    rows = [msgspec.to_builtins(case) for case in made]
    if spelled:
        empty = {
            "references": [],
            "source": None,
            "expect": {},
            "tags": [],
            "complexity": "medium",
            "group": None,
        }
        rows = [empty | {"metadata": {}} | row for row in rows]
        for each in rows:
            each["expect"] = {"aspects": [], "facts": [], "output": None} | each["expect"]
            for tool in each["expect"].get("tools") or ():
                tool.setdefault("arguments", None)
    file = CaseFiles([write(path, [json.dumps(each) for each in rows])])
    assert Suite(name="s", cases=file).digest == Suite(name="s", cases=made).digest
