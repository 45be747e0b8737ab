"""The setting user: what the simulated users of a suite have in common, and which models play them."""

import pickle

import pytest

import trivium as tv
from trivium.errors import SuiteError
from trivium.suites.case import SimulatedUser

ORDER = {"id": "order", "user": {"goal": "Know when it arrives."}}
REFUND = {
    "id": "refund",
    "group": "money",
    "user": {"goal": "Money back.", "model": "own", "persona": "Angry.", "stops": "never", "turns": 15},
}
CHAT = {"id": "chat", "turns": ["Hello."]}
CASES = [ORDER, REFUND, CHAT]


def suite(cases=CASES, **user):
    return tv.Suite.load({"name": "s", "cases": cases, "user": user})


@pytest.mark.parametrize(
    ("key", "value"), [("model", "m"), ("persona", "Polite."), ("stops", "at once"), ("turns", 3)]
)
def test_a_case_takes_from_the_suite_what_it_does_not_say_itself(key, value):
    order, refund, chat = suite(**{key: value})
    assert order.user == SimulatedUser(goal="Know when it arrives.", **{key: value})
    assert (refund, chat) == tuple(tv.Suite.load([REFUND, CHAT]))


def test_of_several_models_each_plays_every_case_that_names_none():
    loaded = suite(model=["a", "b"])
    assert [(case.id, case.base_id) for case in loaded] == [
        ("order@a", "order"),
        ("order@b", "order"),
        ("refund", "refund"),
        ("chat", "chat"),
    ]
    assert [case.user.model for case in loaded if case.user] == ["a", "b", "own"]
    assert [loaded.position(case.id) for case in loaded] == [0, 1, 2, 3]
    assert [loaded.position(other) for other in ("order", "refund@a", "chat@b", "order@c")] == [None] * 4
    assert list(pickle.loads(pickle.dumps(loaded.cases))) == list(loaded)
    assert loaded.cases[1:3] == (loaded.cases[1], loaded.cases[2])


@pytest.mark.parametrize("key", [None, "group", "id"])
def test_the_conversations_of_a_case_are_one_group(key):
    loaded = suite(model=["a", "b"]).with_settings(group=key)
    ids = ["order", "order", "refund" if key == "id" else "money", "chat"]
    assert [loaded.group_of(case) for case in loaded] == ids


def test_a_file_gives_them_back(tmp_path):
    loaded = suite(model=["a", "b"], turns=3)
    for name in ("s.yaml", "s.json", "s.toml"):
        loaded.save(tmp_path / name)
        assert tv.Suite.load(tmp_path / name) == loaded
    loaded.save(tmp_path / "s.jsonl")
    assert list(tv.Suite.load(tmp_path / "s.jsonl")) == list(loaded)


def test_models_change_with_the_settings_but_not_after_cases_were_chosen_by_them(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"id": "order", "user": {"goal": "x"}}\n')
    loaded = tv.Suite.load(tmp_path / "c.jsonl").with_settings(user={"model": ["a", "b"]})
    assert [case.id for case in loaded.with_settings(user={"turns": 3})] == ["order@a", "order@b"]
    assert [case.id for case in loaded.with_settings(user=None)] == ["order"]
    chosen = loaded.filter(user__model="b")
    assert [case.id for case in chosen.with_settings(seed=3)] == ["order@b"]
    with pytest.raises(SuiteError, match="these cases were chosen by their users: set it before that"):
        chosen.with_settings(user={"model": "c"})


@pytest.mark.parametrize(
    ("cases", "user", "message"),
    [
        (CASES, {"model": ["a", "a"]}, 'user.model: names "a" twice'),
        (CASES, {"model": ["a", " "]}, r"user.model\[1\]: is empty, expected the name of a model"),
        (CASES, {"modle": "a"}, 'user: unknown key "modle". Did you mean "model"'),
        (CASES, {"turns": 0}, "user.turns: found the number 0, expected a whole number of at least 1"),
        (CASES, {"goal": "x"}, 'user: unknown key "goal"'),
        (
            [ORDER, {"id": "order@b", "input": "x"}],
            {"model": ["a", "b"]},
            'case "order": the id "order@b" is',
        ),
        (
            [ORDER | {"expect": {"turns": {"7": {"contains": "x"}}}}],
            {"turns": 4},
            'case "order": with the setting user, expect.turns has a turn 7, but the case has at most 4',
        ),
    ],
)
def test_mistakes_are_named(cases, user, message):
    with pytest.raises(SuiteError, match=message):
        suite(cases, **user)


def test_the_model_of_a_user_may_have_a_server():
    settings = {"servers": {"openai:local": {"base_url": "http://localhost:8000/v1"}}}
    keys = {"name": "s", "cases": CASES, "judge": settings}
    assert tv.Suite.load(keys | {"user": {"model": "openai:local"}})
    with pytest.raises(SuiteError, match="no model of this judge has this name"):
        tv.Suite.load(keys)
