import json

import pytest

from tests.goldens import data
from trivium.errors import SuiteError
from trivium.formats.peerread import read_attempts, without_margin_numbers
from trivium.runs.evaluate import evaluate
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
                review("Bad.", IS_META_REVIEW=False, CLARITY=True, RECOMMENDATION="2"),
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
            {"place": 2, "scores": {"recommendation": 2}},
        ],
    }  # fmt: skip


def test_a_paper_without_pdf_or_title_has_what_there_is(folder):
    suite = Suite.load(f"peerread:{folder}")
    assert suite.case("train/9").source == "Nine\n\nAbout nine."
    assert suite.case("dev/9").input == "Review this paper."
    assert suite.case("x").source == ""


def human_reviews(folder):
    """Case, repeat and text of every review that is an attempt, and the references of its case."""
    attempts = read_attempts(folder, Suite.load(f"peerread:{folder}"))
    return [(attempt.case, attempt.repeat, attempt.output, case.references) for case, attempt in attempts]


def test_human_reviews_are_held_against_the_others(folder):
    assert human_reviews(folder) == [("10", 1, "Good.", ("Bad.",)), ("10", 2, "Bad.", ("Good.",))]


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
    assert {case for case, *_ in human_reviews(folder.parent)} == {"conf_2020/train/10"}


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
    ("below", "expected"),
    [("no", "there is no such folder"), ("f", "is not a folder"), (".", "holds no reviews")],
)
def test_a_folder_of_something_else_says_what_was_expected(tmp_path, below, expected):
    (tmp_path / "f").write_text("")
    with pytest.raises(SuiteError, match=expected):
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


ENTRIES_OF_ICLR = [
    review("Sound work.", IS_META_REVIEW=True),
    review("We accept it.", IS_META_REVIEW=False, TITLE="ICLR committee final decision"),
    review("We thank all the reviewers.", IS_META_REVIEW=False, TITLE="Paper updates"),
    review("Sound work.", IS_META_REVIEW=False, RECOMMENDATION=8, REVIEWER_CONFIDENCE=4, CLARITY=5),
    review("Not for us.", IS_META_REVIEW=False, RECOMMENDATION=3, REVIEWER_CONFIDENCE=2),
    review("What is the prior?", IS_META_REVIEW=False),
    review("", IS_META_REVIEW=False, CLARITY=5, IS_ANNOTATED=True),
]
"""The shape of ICLR 2017's files, texts shortened: everything stands there twice."""


@pytest.fixture
def iclr(tmp_path):
    for name in ("316", "325"):
        paper = {"id": name, "title": f"Paper {name}", "reviews": ENTRIES_OF_ICLR * 2, "accepted": True}
        write(tmp_path / f"iclr_2017/dev/reviews/{name}.json", paper)
    return tmp_path / "iclr_2017"


def test_each_review_counts_once_and_questions_answers_and_decisions_are_none(iclr):
    suite = Suite.load(f"peerread:{iclr}")
    case = suite.case("316")
    assert case.references == ("Sound work.", "Not for us.")
    assert [one["place"] for one in case.metadata["reviews"]] == [3, 4]
    assert "meta_reviews" not in case.metadata  # the entry so marked repeats a reviewer's report
    assert case.metadata["left_out"] == {"repeated": 4, "not_reviews": 8}
    (note,) = suite.notes
    assert note == (
        "entries of iclr_2017's review files that were left out: 8 repeated, 16 without a recommendation "
        "(questions, answers, decisions)"
    )
    assert human_reviews(iclr)[:2] == [
        ("316", 3, "Sound work.", ("Not for us.",)),
        ("316", 4, "Not for us.", ("Sound work.",)),
    ]


def test_the_ceiling_of_doubled_reviews_is_that_of_two_people(iclr, tmp_path):
    source = f"peerread:{iclr}"
    run = evaluate(
        source, outputs=source, leave_one_out=True, metrics=["jaccard"], store=str(tmp_path / "store.db")
    )
    summary = run.summary()
    assert (summary.attempts, summary.missing) == (4, 0)
    assert summary.metrics["jaccard"].mean == 0.0  # no word in common
    assert [warning for warning in summary.warnings if "8 repeated, 16 without" in warning]


def test_a_duplicate_review_counts_once(tmp_path):
    one = review("Good paper.\nAccept.", RECOMMENDATION="4")
    write(
        tmp_path / "acl/dev/reviews/1.json",
        {
            "id": "1",
            "reviews": [one, review("Bad.", RECOMMENDATION="1"), {**one, "comments": "Good paper. Accept. "}],
        },
    )
    assert Suite.load(f"peerread:{tmp_path / 'acl'}").case("1").references == ("Good paper.\nAccept.", "Bad.")


def test_papers_without_reviews_are_not_missing(folder, tmp_path):
    source = f"peerread:{folder}"
    run = evaluate(
        source, outputs=source, leave_one_out=True, metrics=["jaccard"], store=str(tmp_path / "store.db")
    )
    assert (run.summary().attempts, run.summary().missing) == (2, 0)


def test_broken_papers_are_left_out_on_wish_and_named(folder, tmp_path):
    write(folder / "dev/reviews/7.json", "{")
    write(folder / "train/parsed_pdfs/9.pdf.json", {"metadata": []})
    with pytest.raises(SuiteError, match=r'go on without broken papers: "peerread:.*conf_2020\?skip_broken"'):
        Suite.load(f"peerread:{folder}")
    suite = Suite.load(f"peerread:{folder}?skip_broken")
    assert (suite.name, [case.id for case in suite]) == ("conf_2020", ["dev/9", "x", "10"])
    (note,) = suite.notes
    assert note.startswith("2 papers with broken files were left out: ")
    assert "7.json: line 1, column 2: broken JSON" in note
    assert '9.pdf.json: has no mapping "metadata"' in note
    source = f"peerread:{folder}?skip_broken"
    run = evaluate(
        source, outputs=source, leave_one_out=True, metrics=["jaccard"], store=str(tmp_path / "store.db")
    )
    assert note in run.summary().warnings
    (tmp_path / "s.yaml").write_text("peerread: conf_2020?skip_broken=true")
    assert len(Suite.load(tmp_path / "s.yaml")) == 3


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("skip_borken", 'unknown option "skip_borken". Did you mean "skip_broken"?'),
        ("skip_broken=yes", 'skip_broken: found the text "yes", expected true or false'),
    ],
)
def test_a_wrong_option_is_named(folder, query, expected):
    with pytest.raises(SuiteError) as caught:
        Suite.load(f"peerread:{folder}?{query}")
    assert expected in str(caught.value)


def test_the_sample_is_read_whole():
    folder = data("peerread/acl_2017")
    suite = Suite.load(f"peerread:{folder}")
    assert len(suite) == 11
    assert suite.notes == ()
    assert sum(len(case.references) for case in suite) == 20
    assert all(len(r["scores"]) == 9 for case in suite for r in case.metadata["reviews"])
    assert {tag: len(cases) for tag, cases in suite.tags.items()} == {"acl_2017": 11, "dev": 7, "test": 4}
    assert len(human_reviews(folder)) == 17
    assert list(Suite.load(f"peerread:{folder.parent}")) == list(suite)


def test_the_sample_s_pdfs_lose_their_margins():
    suite = Suite.load(f"peerread:{data('peerread/acl_2017/dev')}")
    for name in ("173", "352"):
        source = suite.case(name).source
        assert len(source) > 20_000
        assert "\n101\n102\n" not in source
