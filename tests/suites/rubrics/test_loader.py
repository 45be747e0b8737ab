"""Rubrics as files: read, put together of what is built in, and refused with every mistake."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

import trivium as tv
from trivium.errors import SuiteError
from trivium.metrics.evaluation import JUDGED
from trivium.metrics.judge.prompts.answer import has_level
from trivium.suites.json_schema import record_schema, suite_schema
from trivium.suites.rubrics import built_in
from trivium.suites.rubrics.built_in import NAMES, built_in_rubrics
from trivium.suites.rubrics.loader import OVERALL, load_judge_rubrics
from trivium.suites.rubrics.rubric import ANCHORS, LEVELS
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

TONE = {
    "name": "tone",
    "dimensions": [
        "review.clarity",
        {"extends": "agent.completeness", "weight": 0.5},
        {
            "name": "kindness",
            "asks": "Whether nobody is hurt by it.",
            "criteria": [
                {"name": "respect", "asks": "It speaks of the work.", "weight": 0.6},
                {
                    "name": "warmth",
                    "asks": "It says what is good.",
                    "weight": 0.4,
                    "anchors": {
                        "1": "It is cold.",
                        "3": "It is polite.",
                        "4.5": "Nearly.",
                        "5": "It is warm.",
                    },
                },
            ],
            "sees": "output",
        },
        {"name": "length", "asks": "Whether it is short.", "levels": {"short": 1, "long": 0}},
        {
            "name": "depth",
            "asks": "Whether it is deep.",
            "levels": {
                "deep": {"value": 1, "means": "It goes to the ground."},
                "flat": {"value": 0.1, "means": "It stays above."},
            },
        },
    ],
    "pass_mark": 0.5,
    "step": 0.5,
    "scale": "minmax",
    "examples": [
        {
            "shows": {"output": "Rubbish."},
            "scores": {"kindness": {"respect": 1, "warmth": 1.5}, "length": "short"},
            "reason": "It insults.",
        }
    ],
    "instructions": "Be fair.\n{rubric}{examples}",
    "material": "Read this: {output} {material}",
}
CASES = [{"id": "1", "input": "q"}]


def written(path, raw):
    if path.suffix == ".toml":
        from trivium.records.documents import dump_toml

        path.write_text(dump_toml(raw, source=str(path)))
    else:
        path.write_text(yaml.safe_dump(raw, sort_keys=False) if path.suffix == ".yaml" else json.dumps(raw))
    return path


def mistakes(tmp_path, **changes):
    raw = {key: value for key, value in (TONE | changes).items() if value is not None}
    with pytest.raises(SuiteError) as caught:
        tv.Rubric.load(written(tmp_path / "tone.yaml", raw))
    assert caught.value.source == str(tmp_path / "tone.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".toml"])
def test_a_rubric_is_read_from_any_document(tmp_path, suffix):
    rubric = tv.Rubric.load(written(tmp_path / f"tone{suffix}", TONE))
    clarity, completeness, kindness, length, depth = rubric.dimensions
    assert clarity == next(each for each in built_in_rubrics()["review"].dimensions if each.name == "clarity")
    assert (completeness.name, completeness.aspects, completeness.weight) == ("completeness", True, 0.5)
    assert [criterion.weight for criterion in kindness.criteria] == [0.6, 0.4]
    assert kindness.sees == ("output",)
    assert length.levels == length.level_values == {"short": 1, "long": 0}
    assert depth.level_values == {"deep": 1, "flat": 0.1}
    assert depth.levels["flat"].means == "It stays above."
    assert [set(each.anchors) for each in kindness.criteria] == [{"1", "3", "5"}, {"1", "3", "4.5", "5"}]
    assert (rubric.pass_mark, rubric.step, rubric.scale) == (0.5, 0.5, "minmax")


def test_the_schema_holds_what_can_be_read(tmp_path):
    jsonschema.validate(TONE, record_schema(tv.Rubric))
    jsonschema.validate({"cases": "c.jsonl", "judge": {"rubric": ["review", TONE]}}, suite_schema())
    wrong = TONE | {"dimensions": ["review.clrity"]}
    assert not jsonschema.Draft202012Validator(record_schema(tv.Rubric)).is_valid(wrong)


def test_a_whole_rubric_may_be_taken_in():
    suite = Suite.from_dict(
        {
            "cases": CASES,
            "judge": {"rubric": [{"name": "mine", "dimensions": ["review", "agent.completeness"]}]},
        }
    )
    (rubric,) = suite.settings.judge.rubric
    assert len(rubric.dimensions) == len(built_in_rubrics()["review"].dimensions) + 1


def test_every_mistake_of_a_file_is_reported_at_once(tmp_path):
    messages = mistakes(
        tmp_path,
        name="1 tone",
        pass_mark=7,
        dimensions=[
            "review.clrity",
            {"extends": "agent.completness", "wight": 2},
            {"name": "kindness", "criteria": [{"name": "respect", "asks": "a", "weight": 0}]},
        ],
        material="{trace} {outptu}",
    )
    bounds = "expected a number of more than 0 and at most 1,000,000"
    expected, near = "expected a built-in dimension such as review.clarity", '"agent.completeness"'
    assert messages == [
        f'dimensions[0]: found the text "review.clrity", {expected}. Did you mean "review.clarity"?',
        f'dimensions[1].extends: found the text "agent.completness", {expected}. Did you mean {near}?',
        'name: found the text "1 tone", expected a name of letters, digits and _, a letter first',
        'dimensions[1]: unknown key "wight". Did you mean "weight"?',
        f"dimensions[2].criteria[0].weight: found the number 0, {bounds}",
        'dimensions[2]: "asks" is missing',
        "pass_mark: found the number 7, expected a number of at least 0 and at most 1",
        'material: line 1: unknown placeholder "{outptu}". Did you mean "output"?',
    ]


DIMENSION = {"name": "d", "asks": "x"}
CRITERIA = [{"name": "c", "asks": "y"}]


@pytest.mark.parametrize(
    ("dimension", "messages"),
    [
        ({"criteria": CRITERIA, "claims": True}, "dimensions[1]: is scored by criteria and claims"),
        ({"criteria": CRITERIA, "levels": {"a": 1, "b": 0}}, "dimensions[1]: has criteria and levels"),
        ({"levels": {"a": 1}}, "dimensions[1].levels: found a mapping (a), expected two at least"),
        ({"criteria": CRITERIA * 2}, 'dimensions[1].criteria: "c" occurs 2 times'),
        ({"needs": "trace"}, 'dimensions[1].needs: "trace" is not among what it sees'),
        ({"name": "overall"}, 'dimensions[1].name: "overall" is the rubric\'s score as a whole'),
        ({"name": "kindness"}, 'dimensions[1]: "kindness" occurs 2 times'),
        ({"sees": ["outptu"]}, 'dimensions[1].sees[0]: found the text "outptu", expected "aspects" or'),
        ({"sees": []}, "dimensions[1].sees: found an empty list, expected a list that is not empty"),
        ({"levels": {"a": 2, "b": 0}}, "dimensions[1].levels.a: found the number 2"),
        ({"levels": {"a": {"value": 1, "means": "x"}, "b": 0}}, 'dimensions[1].levels.b: has no "means"'),
        (
            {"levels": {"a": {"value": 1, "asks": "x"}, "b": 0}},
            'dimensions[1].levels.a: unknown key "asks". Known: value, means',
        ),
        ({"levels": {"a": {"value": 2, "means": "x"}}}, "dimensions[1].levels.a.value: found the number 2"),
        ({"levels": {"a": [], "b": 0}}, "dimensions[1].levels.a: found an empty list, expected a number"),
        (
            {"criteria": [CRITERIA[0] | {"anchors": {1: "x", 6: "y", 5: "z"}}]},
            "dimensions[1].criteria[0].anchors: found 6, expected 1 to 5 in steps of 0.5",
        ),
        (
            {"criteria": [CRITERIA[0] | {"anchors": {1: "x", 6: "y", 5: "z"}}]},
            "dimensions[1].criteria[0].anchors: 3 is missing, expected 1, 3 and 5 at least",
        ),
        (
            {"criteria": [CRITERIA[0] | {"anchors": {"1": "x", "1.0": "y", "3": "z"}}]},
            "dimensions[1].criteria[0].anchors: 1 occurs 2 times",
        ),
        (
            {"criteria": [CRITERIA[0] | {"anchors": {"low": "x"}}]},
            'dimensions[1].criteria[0].anchors: found the text "low", expected a value of the scale',
        ),
        (
            {"criteria": [CRITERIA[0] | {"anchors": {"1": ""}}]},
            'dimensions[1].criteria[0].anchors["1"]: found the text "", expected a text that is not empty',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path, dimension, messages):
    found = mistakes(
        tmp_path, dimensions=[TONE["dimensions"][2], DIMENSION | dimension], examples=None, material=None
    )
    assert any(each.startswith(messages) for each in found), found


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"name": "review"}, 'name: "review" is built in'),
        ({"step": 0.3}, "step: 1 to 5 is no whole number of steps of 0.3"),
        ({"dimensions": []}, "dimensions: found an empty list"),
        (
            {"instructions": "{rubrc}"},
            'instructions: line 1: unknown placeholder "{rubrc}". Did you mean "rubric"?',
        ),
        ({"material": "{sources}"}, 'material: line 1: no dimension sees "sources"'),
    ],
)
def test_what_is_wrong_with_the_whole_is_refused(tmp_path, changes, messages):
    assert any(each.startswith(messages) for each in mistakes(tmp_path, **changes))


@pytest.mark.parametrize(
    ("scores", "messages"),
    [
        ({"kindnes": "good"}, 'kindnes: no dimension of the rubric is called that. Did you mean "kindness"?'),
        ({"kindness": "good"}, 'kindness: found the text "good", expected values of respect, warmth'),
        (
            {"kindness": {"respct": 1}},
            'kindness.respct: no criterion is called that. Did you mean "respect"?',
        ),
        ({"kindness": {"respect": 5.5}}, "kindness.respect: found the number 5.5, expected 1 to 5"),
        (
            {"kindness": {"respect": 1.2}},
            "kindness.respect: found the number 1.2, expected 1 to 5 in steps of 0.5",
        ),
        (
            {"length": "shrt"},
            'length: found the text "shrt", expected one of short, long. Did you mean "short"?',
        ),
        ({"completeness": "good"}, "completeness: is scored by aspects, which an example cannot show"),
    ],
)
def test_an_example_must_fit_its_rubric(tmp_path, scores, messages):
    example = {"shows": {"output": "x"}, "scores": scores, "reason": "so"}
    (found,) = mistakes(tmp_path, examples=[example])
    assert found.startswith(f"examples[0].scores.{messages}")


def test_anchors_may_have_numbers_for_keys_and_mistakes_beside_them(tmp_path):
    text = """
name: mine
dimensions:
  - name: tone
    asks: Whether it is kind.
    criteria:
      - {name: warmth, asks: It is warm., anchors: {1: cold, 3: cool, 5: warm}}
"""
    (tmp_path / "mine.yaml").write_text(text)
    (criterion,) = tv.Rubric.load(tmp_path / "mine.yaml").dimensions[0].criteria
    assert {float(point): words for point, words in criterion.anchors.items()} == {
        1: "cold",
        3: "cool",
        5: "warm",
    }
    (tmp_path / "mine.yaml").write_text(text + "pass_mark: 7\n")
    with pytest.raises(SuiteError) as caught:
        tv.Rubric.load(tmp_path / "mine.yaml")
    assert [problem.where for problem in caught.value.problems] == ["pass_mark"]


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_rubric_is_a_file_as_users_write_theirs(name, tmp_path):
    text = Path(built_in.__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")
    (tmp_path / "own.yaml").write_text(text.replace(f"name: {name}\n", "name: own\n", 1), encoding="utf-8")
    own = tv.Rubric.load(tmp_path / "own.yaml")
    assert own.dimensions == built_in_rubrics()[name].dimensions


def test_an_attempt_passes_at_the_mark_of_the_rubric_of_agents():
    agent = built_in_rubrics()["agent"]
    assert (JUDGED.metric, JUDGED.at_least) == (f"{agent.name}.{OVERALL}", agent.pass_mark)


@pytest.mark.parametrize("name", NAMES)
def test_every_built_in_level_and_criterion_has_anchors_of_its_own(name):
    for dimension in built_in_rubrics()[name].dimensions:
        for criterion in dimension.criteria:
            assert set(criterion.anchors) == {"1", "3", "5"}
            assert criterion.anchors != ANCHORS
        if has_level(dimension):
            own = ["none", "slip", "mistake"] if name == "simulated_user" else list(LEVELS)
            assert list(dimension.level_values) == own
            general = {level.means for level in LEVELS.values()}
            assert not general & {level.means for level in dimension.levels.values()}


def test_a_rubric_path_is_relative_to_the_suite_that_names_it(tmp_path):
    (tmp_path / "rubrics").mkdir()
    written(tmp_path / "rubrics" / "tone.yaml", TONE)
    raw = {"cases": CASES, "judge": {"models": "m", "rubric": ["review", "rubrics/tone.yaml"]}}
    suite = Suite.load(written(tmp_path / "suite.yaml", raw))
    assert suite.settings.judge.rubric == ("review", tv.Rubric.load(tmp_path / "rubrics" / "tone.yaml"))


def test_a_saved_suite_holds_its_rubrics_itself(tmp_path):
    written(tmp_path / "tone.yaml", TONE)
    suite = Suite.load(written(tmp_path / "suite.yaml", {"cases": CASES, "judge": {"rubric": "tone.yaml"}}))
    (tmp_path / "away").mkdir()
    for name in ("s.yaml", "s.json", "s.toml"):
        suite.save(tmp_path / "away" / name)
        assert Suite.load(tmp_path / "away" / name) == suite


def test_mistakes_of_rubric_files_are_reported_with_those_of_the_suite(tmp_path):
    one = written(tmp_path / "one.yaml", TONE | {"pass_mark": 2})
    (tmp_path / "two.yaml").write_text("name: [")
    raw = {
        "cases": CASES,
        "repeats": 0,
        "judge": {
            "rubric": ["reviw", "one.yaml", "two.yaml", "thre.yaml", "review", "review", {"name": "x"}, 3]
        },
    }
    with pytest.raises(SuiteError) as caught:
        Suite.load(written(tmp_path / "suite.json", raw))
    messages = "\n".join(str(problem) for problem in caught.value.problems)
    assert 'judge.rubric: no rubric is called "reviw". Did you mean "review"?' in messages
    assert f"{one}: pass_mark: found the number 2" in messages
    assert f"{tmp_path / 'two.yaml'}: line" in messages
    assert f"{tmp_path / 'thre.yaml'}: there is no such file" in messages
    assert 'judge.rubric: two rubrics are called "review"' in messages
    assert 'judge.rubric[6]: "dimensions" is missing' in messages
    assert "judge.rubric[7]: found the number 3, expected a mapping" in messages
    assert "repeats: found the number 0" in messages


def test_a_built_in_rubric_is_had_by_its_name():
    assert tv.Rubric.load("agent") == built_in_rubrics()["agent"]
    with pytest.raises(SuiteError, match='no rubric is called "agnt". Did you mean "agent"?'):
        tv.Rubric.load("agnt")


def test_a_rubric_made_in_python_is_checked_when_a_suite_takes_it():
    suite = Suite(name="s", cases=CASES)
    rubric = tv.Rubric(name="mine", dimensions=(tv.Dimension(name="tone", asks="Whether it is kind."),))
    assert suite.with_settings(judge={"rubric": [rubric]}).settings.judge.rubric == (rubric,)
    wrong = msgspec.structs.replace(rubric, name="agent")
    with pytest.raises(SuiteError, match="built in"):
        suite.with_settings(judge={"rubric": [wrong]})


def test_a_digest_changes_with_anything_in_a_rubric():
    rubric = tv.Rubric.load("review")
    others = [
        msgspec.structs.replace(rubric, pass_mark=0.1),
        msgspec.structs.replace(rubric, dimensions=rubric.dimensions[::-1]),
        msgspec.structs.replace(rubric, instructions="{rubric}"),
        msgspec.structs.replace(rubric, material="{material}"),
        msgspec.structs.replace(rubric, scale="minmax"),
        msgspec.structs.replace(rubric, step=0.5),
    ]
    assert len({each.digest for each in (rubric, *others)}) == len(others) + 1


def test_a_step_that_does_not_reach_the_top_is_refused():
    with pytest.raises(SuiteError, match="judge.step: 1 to 5 is no whole number of steps of 0.7"):
        Suite.from_dict({"cases": CASES, "judge": {"step": 0.7}})


def test_what_a_run_stores_of_its_settings_is_what_was_read(tmp_path):
    written(tmp_path / "tone.yaml", TONE)
    suite = Suite.load(written(tmp_path / "suite.yaml", {"cases": CASES, "judge": {"rubric": "tone.yaml"}}))
    stored = json.loads(json.dumps(msgspec.to_builtins(suite.settings)))
    assert msgspec.convert(stored, Settings) == suite.settings


def test_one_rubric_need_not_be_in_a_list():
    rubric = msgspec.structs.replace(tv.Rubric.load("review"), name="mine")
    alone, listed = (load_judge_rubrics(given, Path(), step=1) for given in (rubric, [rubric]))
    assert alone == listed
    assert [each["name"] for each in alone[0]] == ["mine"]
