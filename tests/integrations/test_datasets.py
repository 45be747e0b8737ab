"""Data sets of Hugging Face, and other rows, as suites."""

import pytest

import trivium as tv
from trivium.agents.recorded import open_recorded
from trivium.errors import MissingExtra, OutputsError, SuiteError

ROWS = {
    "question": ["Who?", "Where?"],
    "answers": [
        {"text": ["Ann", "Ann", "Bob"], "answer_start": [0, 1, 2]},
        {"text": ["here"], "answer_start": [3]},
    ],
    "context": ["Ann and Bob", "here"],
    "n": [1, 2],
}


@pytest.fixture(autouse=True)
def datasets(monkeypatch):
    """The library, which says nothing and stays here."""
    import datasets

    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    return datasets


@pytest.fixture
def squad(datasets):
    return datasets.Dataset.from_dict(ROWS)


def case_tuples(suite):
    return [(case.id, case.input, case.references, case.source, case.metadata) for case in suite]


EXPECTED = [
    ("0", "Who?", ("Ann", "Bob"), "Ann and Bob", {"n": 1}),
    ("1", "Where?", ("here",), "here", {"n": 2}),
]


def test_usual_columns_are_found_by_their_names(squad):
    assert case_tuples(tv.Suite.from_dataset(squad, name="squad")) == EXPECTED


def test_rows_of_any_kind_will_do():
    rows = [{key: ROWS[key][index] for key in ROWS} for index in range(2)]
    assert (
        case_tuples(tv.Suite.from_dataset(rows)) == case_tuples(tv.Suite.from_dataset(iter(rows))) == EXPECTED
    )


def test_a_folder_a_file_and_a_split_are_read(tmp_path, datasets, squad):
    squad.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": squad, "test": squad.select([1])}).save_to_disk(tmp_path / "two")
    (arrow,) = (tmp_path / "one").glob("*.arrow")
    for source in (tmp_path / "one", arrow, f"{tmp_path / 'two'}?split=train"):
        assert case_tuples(tv.Suite.load(f"hf:{source}")) == EXPECTED
    assert len(tv.Suite.load(f"hf:{tmp_path / 'two'}?split=test")) == 1
    with pytest.raises(SuiteError, match="several splits: name one of train, test"):
        tv.Suite.load(f"hf:{tmp_path / 'two'}")
    with pytest.raises(SuiteError, match='no split "tset".*Did you mean "test"'):
        tv.Suite.load(f"hf:{tmp_path / 'two'}?split=tset")


def test_a_suite_file_names_a_data_set_beside_it(tmp_path, squad):
    squad.save_to_disk(tmp_path / "one")
    path = tmp_path / "suite.yaml"
    path.write_text("hf: one?input=context\nmetrics: [jaccard]\n", encoding="utf-8")
    suite = tv.Suite.load(path)
    assert [case.input for case in suite] == ["Ann and Bob", "here"]
    assert suite.settings.metrics == ("jaccard",)


def test_columns_may_be_named(squad):
    suite = tv.Suite.from_dataset(squad, columns={"input": "context", "id": "n", "references": "question"})
    assert [(case.id, case.input, case.references) for case in suite] == [
        ("1", "Ann and Bob", ("Who?",)),
        ("2", "here", ("Where?",)),
    ]


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"input": "qestion"}, 'no column "qestion".*Did you mean "question"'),
        ({"inputs": "question"}, 'takes no "inputs".*Did you mean "input"'),
    ],
)
def test_a_column_that_there_is_not_is_named(squad, columns, what):
    with pytest.raises(SuiteError, match=what):
        tv.Suite.from_dataset(squad, columns=columns)


def test_rows_without_anything_asked_say_so(datasets):
    with pytest.raises(SuiteError, match=r"name it: input=COLUMN. There are: a, b"):
        tv.Suite.from_dataset([{"a": 1, "b": 2}])
    with pytest.raises(SuiteError, match="row 1: expected a mapping, found int"):
        tv.Suite.from_dataset([{"input": 1}, 2])
    with pytest.raises(SuiteError, match=r"choose one of its splits \(train\)"):
        tv.Suite.from_dataset({"train": []})
    with pytest.raises(SuiteError, match="no case"):
        tv.Suite.from_dataset(datasets.Dataset.from_dict({"input": []}))


def test_what_json_cannot_hold_is_left_out(datasets):
    picture = {"bytes": b"\x89PNG", "path": None}
    kinds = {"input": datasets.Value("string"), "answer": datasets.Value("int64")}
    kinds |= {"image": datasets.Image(decode=False), "raw": datasets.Value("binary")}
    columns = {"input": ["a"], "answer": [4], "image": [picture], "raw": [b"x"]}
    rows = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
    (case,) = tv.Suite.from_dataset(rows)
    assert (case.references, case.metadata.get("raw")) == (("4",), None)


def test_a_data_set_that_cannot_be_loaded_says_why(tmp_path):
    with pytest.raises(SuiteError, match="no-such-set: cannot be loaded"):
        tv.Suite.load("hf:no-such-set")
    (tmp_path / "x.txt").write_text("hi", encoding="utf-8")
    with pytest.raises(SuiteError, match=r"expected a folder, an \.arrow file"):
        tv.Suite.load(f"hf:{tmp_path / 'x.txt'}")


def test_a_data_set_holds_no_outputs(tmp_path, squad):
    squad.save_to_disk(tmp_path / "one")
    with pytest.raises(OutputsError, match='"hf:" is a suite only'):
        open_recorded(f"hf:{tmp_path / 'one'}", tv.Suite.from_dataset(squad))


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[hf\]"'):
        tv.Suite.load("hf:squad")
