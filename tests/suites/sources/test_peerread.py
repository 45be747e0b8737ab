import json

import pytest

from tests.goldens import data
from trivium.errors import SuiteError
from trivium.suites.sources.peerread import human_outputs, without_margin_numbers
from trivium.suites.suite import Suite


def write(path, raw):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw))


def review(comments, **fields):
    return {"comments": comments, **fields}


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "conf_2020"
    write(
        root / "train/reviews/10.json",
        {
            "id": 10,
            "title": "Ten",
            "abstract": "About ten.",
            "reviews": [
                review("A decision.", is_meta_review=True, RECOMMENDATION="5"),
                review(
                    "Good.",
                    RECOMMENDATION="4",
                    CLARITY=2,
                    IMPACT=None,
                    SUBSTANCE="N/A",
                    is_meta_review=None,
                    PRESENTATION_FORMAT="Poster",
                    REVIEWER_CONFIDENCE="3.5",
                ),
                review("Bad.", IS_META_REVIEW=False, CLARITY=True),
            ],
        },
    )
    write(
        root / "train/reviews/9.json",
        {
            "id": "9",
            "title": "Nine",
            "abstract": "About nine.",
            "reviews": [review("Alone."), review("  "), review(None), "noise"],
        },
    )
    write(root / "dev/reviews/9.json", {"id": "9", "abstract": "Other nine.", "reviews": []})
    write(root / "dev/reviews/x.json", {})
    write(
        root / "train/parsed_pdfs/10.pdf.json",
        {
            "metadata": {
                "title": None,
                "abstractText": "The abstract.",
                "sections": [
                    {"heading": None, "text": "1 000\n013\n014\n015\n016\n017\nFirst words."},
                    {"heading": "1 Introduction", "text": "More words."},
                    {"heading": "2 Empty", "text": ""},
                    "noise",
                ],
            }
        },
    )
    return root


def test_each_paper_is_a_case(folder):
    suite = Suite.load(f"peerread:{folder}")
    assert suite.name == "conf_2020"
    assert [case.id for case in suite] == ["dev/9", "x", "train/9", "10"]
    ten = suite.case("10")
    assert ten.input == "Review this paper.\n\nTen"
    assert ten.references == ("Good.", "Bad.")
    assert ten.source == "Ten\n\nThe abstract.\n\nFirst words.\n\n1 Introduction\n\nMore words.\n\n2 Empty"
    assert ten.tags == ("conf_2020", "train")
    assert suite.group_of(ten) == "10"
    assert ten.metadata == {
        "title": "Ten",
        "meta_reviews": ["A decision."],
        "reviews": [
            {"place": 1, "scores": {"recommendation": 4, "clarity": 2, "reviewer_confidence": 3.5},
             "presentation_format": "Poster"},
            {"place": 2, "scores": {}},
        ],
    }  # fmt: skip


def test_a_paper_without_pdf_or_title_has_what_there_is(folder):
    suite = Suite.load(f"peerread:{folder}")
    assert suite.case("train/9").source == "Nine\n\nAbout nine."
    assert suite.case("dev/9").input == "Review this paper."
    assert suite.case("x").source == ""


def test_human_reviews_are_held_against_the_others(folder):
    outputs = human_outputs(folder)
    assert [(o.case, o.repeat, o.text, o.other_references) for o in outputs] == [
        ("10", 1, "Good.", ("Bad.",)),
        ("10", 2, "Bad.", ("Good.",)),
    ]
    assert (len(outputs), outputs.alone) == (2, 1)


@pytest.mark.parametrize("below", ["train", ""])
def test_a_split_or_a_folder_of_venues_will_do(folder, below):
    if below:
        suite = Suite.load(f"peerread:{folder / below}")
        assert [case.id for case in suite] == ["9", "10"]
        return
    write(folder.parent / "other/train/reviews/10.json", {"id": 10, "reviews": []})
    write(folder.parent / "other/dev/reviews/9.json", {"id": 9, "reviews": []})
    suite = Suite.load(f"peerread:{folder.parent}")
    assert [case.id for case in suite] == [
        "conf_2020/dev/9", "x", "train/9", "conf_2020/train/10", "other/dev/9", "other/train/10"
    ]  # fmt: skip
    assert {output.case for output in human_outputs(folder.parent)} == {"conf_2020/train/10"}


def test_all_broken_files_are_named(folder):
    write(folder / "dev/reviews/7.json", "{")
    write(folder / "dev/reviews/8.json", "[]")
    with pytest.raises(SuiteError) as caught:
        Suite.load(f"peerread:{folder}")
    assert "7.json: line 1, column 2: broken JSON" in str(caught.value)
    assert "8.json: is no JSON object" in str(caught.value)


def test_a_broken_pdf_is_named(folder):
    write(folder / "train/parsed_pdfs/10.pdf.json", {"metadata": []})
    with pytest.raises(SuiteError, match=r'10\.pdf\.json: has no mapping "metadata"'):
        Suite.load(f"peerread:{folder}")


def test_a_suite_file_may_name_a_folder(folder):
    (folder.parent / "s.yaml").write_text("peerread: conf_2020\ngroup: group\nrepeats: 2")
    suite = Suite.load(folder.parent / "s.yaml")
    assert (suite.name, len(suite), suite.settings.repeats) == ("s", 4, 2)
    assert len(Suite.load(f"peerread:{folder}", repeats=3, name="n").filter(tag="dev")) == 2


@pytest.mark.parametrize(
    ("below", "said"), [("no", "there is no such folder"), ("f", "is no folder"), (".", "holds no reviews")]
)
def test_a_folder_of_something_else_says_what_was_expected(tmp_path, below, said):
    (tmp_path / "f").write_text("")
    with pytest.raises(SuiteError, match=said):
        Suite.load(f"peerread:{tmp_path / below}")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\n101\n102\n103\n104\n105\nb", "a\nb"),
        ("3\n201\n202\n203\n204\n205", ""),
        ("1 000\n013\n014\n015\n016", ""),
        ("049\n050\n063\n064\n065\n066\nx", "x"),
        ("a\n1\n2\n3\n4\nb", "a\n1\n2\n3\n4\nb"),
        ("85\n87\n86\n90\n82\n91", "85\n87\n86\n90\n82\n91"),
        ("a\n\nb\n", "a\n\nb\n"),
        ("", ""),
    ],
)
def test_only_runs_of_rising_numbers_are_a_margin(text, left):
    assert without_margin_numbers(text) == left


def test_the_sample_is_read_whole():
    folder = data("peerread/acl_2017")
    suite = Suite.load(f"peerread:{folder}")
    assert len(suite) == 11
    assert sum(len(case.references) for case in suite) == 20
    assert all(len(r["scores"]) == 9 for case in suite for r in case.metadata["reviews"])
    assert {tag: len(cases) for tag, cases in suite.tags.items()} == {"acl_2017": 11, "dev": 7, "test": 4}
    outputs = human_outputs(folder)
    assert (len(outputs), outputs.alone) == (17, 3)
    assert list(Suite.load(f"peerread:{folder.parent}")) == list(suite)


def test_the_sample_s_pdfs_lose_their_margins():
    suite = Suite.load(f"peerread:{data('peerread/acl_2017/dev')}")
    for name in ("173", "352"):
        source = suite.case(name).source
        assert len(source) > 20_000
        assert "\n101\n102\n" not in source
