"""Cases in a folder, or named by a pattern."""

import json
import os
import pickle
import random
import resource

import pytest

import trivium as tv
from trivium.cli.main import run_command
from trivium.errors import SuiteError
from trivium.suites.files import tables
from trivium.suites.files.jsonl import CaseFiles, CaseLines
from trivium.suites.suite import Suite


def lines(ids):
    return "".join(json.dumps({"id": each, "input": "q", "references": ["yes"]}) + "\n" for each in ids)


@pytest.fixture
def folder(tmp_path):
    """Nine cases in three files, one of them in a folder below, one a table."""
    made = tmp_path / "cases"
    (made / "deep").mkdir(parents=True)
    (made / "a.jsonl").write_text(lines("012"))
    (made / "b.csv").write_text("id,input,references\n3,q,yes\n4,q,yes\n5,q,yes\n")
    (made / "deep" / "c.jsonl").write_text("\n" + lines("678"))
    (made / "README.md").write_text("what these are")
    return made


def ids(suite):
    return [case.id for case in suite]


def problems(source, **keys):
    with pytest.raises(SuiteError) as caught:
        Suite.load(source, **keys)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", "**/*.*[lv]"])
def test_a_folder_or_a_pattern_is_read_file_after_file(folder, name):
    suite = Suite.load(folder / name)
    assert (suite.name, ids(suite), len(suite)) == ("cases", list("012345678"), 9)
    assert [suite.position(each) for each in "80361"] == [8, 0, 3, 6, 1]
    assert suite.position("9") is None
    assert [suite.cases[index].id for index in (4, 0, -1, 7)] == ["4", "0", "8", "7"]
    assert [case.id for case in suite.cases[2:8:2]] == ["2", "4", "6"]
    with pytest.raises(IndexError):
        suite.cases[9]


def test_a_pattern_may_leave_files_out(folder, monkeypatch):
    assert ids(Suite.load(f"{folder}/*.jsonl")) == list("012")
    assert problems(f"{folder}/*.parquet") == f"{folder}/*.parquet: no file has such a name"
    monkeypatch.chdir(folder)
    assert (Suite.load("*.jsonl").name, Suite.load(".").name) == ("cases", "cases")
    assert Suite.load("*.jsonl", name="mine", repeats=2).name == "mine"


def test_a_suite_file_names_them_from_where_it_is(folder, tmp_path):
    for cases in ("cases", "cases/**/*.jsonl"):
        (tmp_path / "s.yaml").write_text(f"name: s\ncases: '{cases}'\nrepeats: 2\n")
        suite = Suite.load(tmp_path / "s.yaml")
        assert (suite.name, len(suite), suite.settings.repeats) == ("s", 9 if cases == "cases" else 6, 2)


def test_the_digest_is_that_of_one_file(folder, tmp_path):
    (tmp_path / "one.jsonl").write_text(lines("012345678"))
    assert Suite.load(folder).digest == Suite.load(tmp_path / "one.jsonl").digest


def test_mistakes_of_all_files_are_told_together(folder):
    (folder / "a.jsonl").write_text(lines("01") + "{\n" + lines("01"))
    (folder / "b.csv").write_text("id,input,expect\n3,q,{\n")
    told = problems(folder).splitlines()
    assert told[0].startswith(f"{folder}/a.jsonl: line 3, column 2: ")
    assert told[1].startswith(f"{folder}/b.csv: line 2")
    (folder / "a.jsonl").write_text("{\n" * 30)
    told = problems(folder).splitlines()
    assert len(told) == 2
    assert told[0].endswith(f"(and in 19 other places, the last {folder}/a.jsonl: line 20, column 2)")
    assert told[1] == "… and 11 more"


def test_an_id_in_two_files_is_told_with_both_places(folder):
    (folder / "deep" / "c.jsonl").write_text("\n" + lines(["x", "1", "4"]))
    assert problems(folder).splitlines() == [
        f'{folder}/deep/c.jsonl: line 3: duplicate id "1" (first in {folder}/a.jsonl: line 2)',
        f'{folder}/deep/c.jsonl: line 4: duplicate id "4" (first in {folder}/b.csv: line 3)',
    ]
    (folder / "deep" / "c.jsonl").write_text(lines(str(index) for index in range(50)))
    (folder / "d.jsonl").write_text(lines(str(index) for index in range(50)))
    assert problems(folder).splitlines()[-1] == "… and 36 more"


def test_rows_of_tables_are_told_with_their_lines(folder):
    (folder / "d.csv").write_text('id,input\nx,"two\nlines"\n4,q\n')
    (folder / "e.jsonl").write_text("\n\n" + json.dumps({"id": "x", "question": "q", "answer": "a"}))
    assert problems(folder).splitlines() == [
        f'{folder}/d.csv: line 4: duplicate id "4" (first in {folder}/b.csv: line 3)',
        f'{folder}/e.jsonl: line 3: duplicate id "x" (first in {folder}/d.csv: line 2)',
    ]


def test_a_document_is_read_once(folder, monkeypatch):
    (folder / "d.json").write_text(json.dumps([{"question": "q"}, {"question": "r"}]))
    read = []
    document = tables.read_document
    monkeypatch.setattr(tables, "read_document", lambda *a, **k: read.append(a) or document(*a, **k))
    for _ in range(2):  # the second finds the copy that the first has made
        suite = Suite.load(folder / "*.j*")
        assert (ids(suite)[-2:], suite.cases[-1].input) == (["4", "5"], "r")
        assert suite.notes == ("read question as input",)
    assert len(read) == 2


def test_a_copy_of_a_file_is_told_without_reading_it_for_every_case(folder, monkeypatch):
    read = []
    place = CaseLines.place
    monkeypatch.setattr(CaseLines, "place", lambda *each: read.append(each) or place(*each))
    for name in ("d", "e"):
        (folder / f"{name}.jsonl").write_text(lines(f"n{index}" for index in range(500)))
    assert problems(folder).splitlines()[-1] == "… and 480 more"
    (folder / "e.jsonl").write_text(lines(f"m{index // 2}" for index in range(1000)))
    assert problems(folder).splitlines()[-1] == "… and 480 more"
    assert len(read) == 2 * 2 * 20


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
def test_cases_without_ids_are_numbered_on_from_file_to_file(tmp_path, suffix):
    rows = [{"question": "a?", "answer": "a"}, {"question": "b?", "answer": "b"}]
    for name in "ab":
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "csv":
            path.write_text("question,answer\na?,a\nb?,b\n")
        elif suffix == "parquet":
            parquet = pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path)
        else:
            path.write_text(json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows)))
    suite = Suite.load(tmp_path / f"*.{suffix}")
    assert ids(suite) == list("1234")
    assert [case.input for case in suite] == ["a?", "b?", "a?", "b?"]
    assert ids(Suite.load(tmp_path / f"b.{suffix}")) == list("12")


def test_a_folder_with_brackets_in_its_name_is_no_pattern(folder, tmp_path):
    made = folder.rename(tmp_path / "cases [1]")
    assert (Suite.load(made).name, len(Suite.load(made))) == ("cases [1]", 9)
    for cases, count in (("*.jsonl", 3), ("a.jsonl", 3), ("deep", 3)):
        (made / "s.yaml").write_text(f"name: s\ncases: '{cases}'\n")
        assert len(Suite.load(made / "s.yaml")) == count
    (made / "s.yaml").write_text("name: s\ncases: '*.parquet'\n")
    assert problems(made / "s.yaml") == f"{made}/*.parquet: no file has such a name"
    (made / "s.yaml").write_text("name: s\ncases: x.jsonl\n")
    assert "there is no such file" in problems(made / "s.yaml")


def test_columns_of_another_tool_are_mapped_and_told_once(folder):
    for name, each in (("a.jsonl", "0"), ("d.jsonl", "1")):
        (folder / name).write_text(json.dumps({"id": each, "question": "2 + 2?", "answer": "4"}) + "\n")
    suite = Suite.load(folder)
    assert suite.cases[0].references == ("4",)
    assert ids(suite) == ["0", "3", "4", "5", "1", "6", "7", "8"]
    assert len(suite.notes) == len(set(suite.notes)) == 1


def test_empty_files_hold_no_case(folder):
    (folder / "e.jsonl").write_text("")
    assert len(Suite.load(folder)) == 9
    for each in folder.rglob("*.*"):
        each.unlink()
    (folder / "e.jsonl").write_text("\n")
    assert problems(folder).endswith("holds no case")


def test_a_folder_without_cases_is_no_suite(tmp_path):
    assert "is a folder: expected a file, or the folder with what it holds" in problems(tmp_path)


def test_another_process_reads_them_by_the_same_index(folder):
    suite = Suite.load(folder)
    again = pickle.loads(pickle.dumps(suite.cases))
    assert [case.id for case in again] == list("012345678")
    assert [again.position(each) for each in "5x8"] == [5, None, 8]
    (folder / "deep" / "c.jsonl").write_text(lines("67"))
    assert again[0].id == "0"
    with pytest.raises(SuiteError, match=r"deep/c.jsonl: has changed since it was opened"):
        again[7]


def test_there_may_be_more_files_than_a_process_may_open(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = max(map(int, os.listdir("/dev/fd"))) + 60  # noqa: PTH208 - numbers, not paths
    for index in range(200):
        (tmp_path / f"{index:03}.jsonl").write_text(lines([f"{index}-{number}" for number in range(3)]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        cases = CaseFiles(sorted(tmp_path.iterdir()))
        again = pickle.loads(pickle.dumps(cases))
        for each in (cases, again):
            order = random.Random(0).sample(range(600), 600)
            assert [each[index].id for index in order] == [f"{index // 3}-{index % 3}" for index in order]
            assert sum(1 for _ in each) == 600
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_many_files_are_scored_as_one(folder, tmp_path):
    (tmp_path / "one.jsonl").write_text(lines("012345678"))
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    every = [json.dumps({"case": str(index), "output": f"yes {index}"}) for index in range(9)]
    (tmp_path / "outputs.jsonl").write_text("\n".join(every))
    for name, part in (("a", every[4:]), ("b", every[:4])):
        (outputs / f"{name}.jsonl").write_text("\n".join(part))
    keys = {"metrics": ["jaccard", "cosine"], "store": f"{tmp_path}/a.db"}
    one = tv.evaluate(str(tmp_path / "one.jsonl"), outputs=str(tmp_path / "outputs.jsonl"), **keys)
    many = tv.evaluate(str(folder), outputs=str(outputs), workers=2, **keys)

    def scores(run):
        return {each.case: each.scores for each in run.evaluations()}

    assert scores(many) == scores(one)
    assert many.summary().metrics == one.summary().metrics


def test_a_command_takes_a_folder(folder, tmp_path, capsys):
    every = [json.dumps({"case": each, "output": "yes"}) for each in "012345678"]
    (tmp_path / "o.jsonl").write_text("\n".join(every))
    keys = ["--metrics", "jaccard", "--store", f"{tmp_path}/a.db"]
    assert run_command(["score", str(folder), "--outputs", f"{tmp_path}/o.jsonl", *keys]) == 0
    assert "9 attempts of 9 cases" in capsys.readouterr().out
