"""Bad input, a table: what stands in a file, and the message a user reads."""

import json
import os

import pytest

from trivium.errors import SuiteError
from trivium.suites.suite import Suite

CASE = '{"id": "1", "input": "q"}'
CASES = f'"cases": [{CASE}]'

BAD = {
    # a suite file
    "empty suite": ("s.yaml", "name: s\ncases: []", "s.yaml: holds no case"),
    "nothing asked": ("s.yaml", "name: s", "has no cases: expected one of cases, peerread"),
    "asked twice": ("s.yaml", "cases: []\npeerread: x", "has cases and peerread"),
    "nothing at all": ("s.yaml", "", "found nothing (null), expected a suite (a mapping) or a list of cases"),
    "a word": ("s.json", '"x"', 'found the text "x", expected a suite'),
    "unknown key": ("s.yaml", "metrcs: [cosine]\ncases: []", 'unknown key "metrcs". Did you mean "metrics"?'),
    "wrong name": ("s.json", f'{{"name": 3, {CASES}}}', "name: found the number 3, expected text"),
    "wrong cases": ("s.json", '{"cases": 3}', "cases: found the number 3, expected a list of cases or"),
    "wrong folder": ("s.json", '{"peerread": 3}', "peerread: found the number 3, expected a path"),
    "cases file absent": ("s.yaml", "cases: no.jsonl", "no.jsonl: there is no such file"),
    "cases file misspelt": ("s.yaml", "cases: s.yml", 's.yml: there is no such file. Did you mean "s.yaml"?'),
    "cases file and key": ("s.yaml", "cases: no.jsonl\nrepets: 3",
                           'unknown key "repets". Did you mean "repeats"?'),
    # cases
    "wrong type": ("s.json", '{"cases": [{"id": "1", "input": "q", "references": [3]}]}',
                   "s.json: cases[0].references[0]: found the number 3, expected text"),
    "unknown case key": ("s.json", '{"cases": [{"id": "1", "input": "q", "refrences": []}]}',
                         'cases[0]: unknown key "refrences". Did you mean "references"?'),
    "turns with a text before them": (
        "c.json",
        '[{"id": "1", "input": "Hi", "turns": ["a"]}]',
        "cases[0]: with turns, the input is the list of messages before the first, each with a role",
    ),
    "a message without a role before turns": (
        "c.json",
        '[{"id": "1", "input": [{"content": "Hi"}], "turns": ["a"]}]',
        "cases[0]: input[0]: the message has no role: expected system, user, assistant or tool",
    ),
    "a message without a role in a chat": (
        "c.jsonl",
        '\n{"id": "2", "input": [{"role": "user", "content": "a"}, {"content": "b"}]}',
        "c.jsonl: line 2: input[1]: the message has no role",
    ),
    "a text between the messages of a chat": (
        "c.jsonl",
        '{"messages": [{"role": "user", "content": "a"}, "b", {"role": "assistant", "content": "c"}]}',
        "c.jsonl: line 1: input[1]: is no message",
    ),
    "a turn with two expectations": (
        "c.yaml",
        "- {id: 1, turns: [a, {user: b, expect: {contains: x}}], expect: {turns: {2: {contains: y}}}}",
        "cases[0]: turn 2 has an expect of its own and one in expect.turns: keep one",
    ),
    "two turns with one number": (
        "c.yaml",
        '- {id: 1, turns: [a], expect: {turns: {1: {contains: x}, "1": {contains: y}}}}',
        'duplicate key "1" in one mapping',
    ),
    "a turn beyond the last": (
        "c.json",
        '[{"id": "1", "turns": ["a"], "expect": {"turns": {"3": {"contains": "x"}}}}]',
        "cases[0]: expect.turns has a turn 3, but the case has 1 turn (the first is 1)",
    ),
    "a turn 0": (
        "c.json",
        '[{"id": "1", "turns": ["a"], "expect": {"turns": {"0": {"contains": "x"}}}}]',
        'cases[0].expect.turns: found the text "0", expected the number of a turn, from 1',
    ),
    "no input": ("c.json", '[{"id": "1"}]', 'cases[0]: "input" is missing'),
    "wrong complexity": ("c.json", '[{"id": "1", "input": "q", "complexity": "hard"}]',
                         'cases[0].complexity: found the text "hard", expected "complex" or'),
    "duplicate ids": ("c.json", f"[{CASE}, {CASE}]",
                      'c.json: cases[1]: duplicate id "1" (first in cases[0])'),
    # settings
    "two ways": ("s.json", f'{{{CASES}, "success": {{"exact": true, "reward": 1}}}}',
                 "success: names exact and reward: expected one of metric, exact, contains, number,"),
    "no way": ("s.json", f'{{{CASES}, "success": {{}}}}', "success: names no criterion"),
    "no bar": ("s.json", f'{{{CASES}, "success": {{"metric": "cosine"}}}}', 'success: "at_least" is missing'),
    "bar of nothing": ("s.json", f'{{{CASES}, "success": {{"exact": true, "at_least": 1}}}}',
                       "success.at_least: is the threshold of a metric, and no metric is named"),
    "high bar": ("s.json", f'{{{CASES}, "success": {{"metric": "cosine", "at_least": 80}}}}',
                 "success.at_least: found the number 80, expected a number of at least 0"),
    "wrong regex": ("s.json", f'{{{CASES}, "success": {{"regex": "("}}}}', "is no regular expression"),
    "wrong predicate": ("s.json", f'{{{CASES}, "success": {{"predicate": "f"}}}}',
                        'success.predicate: found the text "f", expected package.module:function'),
    "gate without bar": ("s.json", f'{{{CASES}, "gates": {{"cosine": {{}}}}}}',
                         "gates.cosine: names no threshold: expected at_least or at_most"),
    "gate without room": ("s.json", f'{{{CASES}, "gates": {{"cosine": {{"at_least": 1, "at_most": 0}}}}}}',
                          "gates.cosine: 1.0 to 0.0 holds no value"),
    "gate out of reach": ("s.json", f'{{{CASES}, "gates": {{"pass_rate": {{"at_least": 1.5}}}}}}',
                          "gates.pass_rate.at_least: found 1.5, expected a score from 0 to 1"),
    "gate below all": ("s.json", f'{{{CASES}, "gates": {{"cosine": {{"at_most": -0.1}}}}}}',
                       "gates.cosine.at_most: found -0.1, expected a score from 0 to 1"),
    "no weight": ("s.json", f'{{{CASES}, "composite": {{"weights": {{"time": 0}}}}}}',
                  "composite.weights: gives no part a weight above 0"),
    "negative weight": ("s.json", f'{{{CASES}, "similarity": {{"cosine": -1}}}}',
                        "similarity.cosine: found the number -1, expected a number of at least 0"),
    "bars out of order": ("s.json", f'{{{CASES}, "composite": {{"thresholds": {{"accept": 0.1}}}}}}',
                          "composite.thresholds: expected accept ≥ weak_accept ≥ weak_reject"),
    "both kinds of message": ("s.json", f'{{{CASES}, "messages": {{"productive": ["handoff"]}}}}',
                              'messages: "handoff" is both coordination and productive'),
    "no metric": ("s.json", f'{{{CASES}, "metrics": []}}', "metrics: names no metric"),
    "no encoder": ("s.json", f'{{{CASES}, "encoder": " "}}', "encoder: is empty"),
    "unknown judge key": ("s.json", f'{{{CASES}, "judge": {{"model": "x"}}}}',
                          'judge: unknown key "model". Did you mean "models"?'),
    "no group": ("s.json", f'{{{CASES}, "group": "paper"}}', 'case "1": has no "paper"'),
    # the old keys
    "old and new": ("s.json", f'{{{CASES}, "confidence_threshold": 0.5, "success": {{"exact": true}}}}',
                    'confidence_threshold: is the old name of "success", which is given, too'),
    "wrong old list": ("s.json", f'{{{CASES}, "similarity_metrics": ["rouge"]}}',
                       "similarity_metrics: found a list of 1, expected a list of some of semantic, cosine"),
    "wrong old bar": ("s.json", f'{{{CASES}, "confidence_threshold": 80}}',
                      "confidence_threshold: found the number"),
    "weights twice": ("s.json", f'{{{CASES}, "metrics_and_weights": {{"time": 1, "time_taken": 1}}}}',
                      'composite.weights: "time" is named twice, also by its old name'),
    # syntax
    "broken JSON": ("s.json", '{"name": "s",\n  "cases": ]}',
                    "s.json: line 2, column 12: broken JSON: Expecting value"),
    "NaN": ("s.json", f'{{{CASES}, "margin": NaN}}', "broken JSON: NaN is no JSON number"),
    "huge": ("s.json", f'{{{CASES}, "margin": 1e999}}', "broken JSON: 1e999 is too large a number"),
    "key twice": ("s.json", '{"cases": [], "cases": []}', 'duplicate key "cases" in one mapping'),
    "deep JSON": ("s.json", "[" * 200_000, "is nested too deeply"),
    "broken YAML": ("s.yaml", "name: s\ncases: [", "s.yaml: line 3, column 1: broken YAML: "),
    "YAML key twice": ("s.yaml", "cases: []\ncases: []", 'line 2, column 1: duplicate key "cases"'),
    "YAML object": ("s.yaml", "cases: !!python/object:os.system x",
                    "line 1, column 8: broken YAML: could not"),
    "YAML cycle": ("s.yaml", "cases: &c [*c]",
                   "line 1, column 8: an alias refers to a value that contains it"),
    "YAML list as key": ("s.yaml", "? [a]\n: b", "line 1, column 3: a key must be text"),
    "YAML huge": ("s.yaml", "margin: 1e999", "line 1, column 9: broken YAML: the number is too large"),
    "YAML control": ("s.yaml", "name: \x01", "broken YAML: unacceptable character"),
    "deep YAML": ("s.yaml", "cases: " + "[" * 50_000, "is nested more than 100 levels deep"),
    "YAML bomb": ("s.yaml", "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{now}: &{now} [{', '.join([f'*{last}'] * 10)}]\n"
        for last, now in zip("abcdefghi", "bcdefghij", strict=True)
    ), "that is too many"),
    "broken TOML": ("s.toml", "name = ", "s.toml: broken TOML: Invalid value (at end of document)"),
    "TOML infinity": ("s.toml", "margin = inf", "broken TOML: inf is no finite number"),
    "deep TOML": ("s.toml", "a = " + "[" * 50_000, "is nested too deeply"),
    # lines
    "empty lines": ("c.jsonl", "\n\n", "c.jsonl: holds no case"),
    "broken line": ("c.jsonl", CASE + '\n\n{"id": "2", "input": }',
                    "c.jsonl: line 3, column 22: broken JSON: "),
    "cut line": ("c.jsonl", '{"id": "1", "inp',
                 "c.jsonl: line 1, column 13: broken JSON: Unterminated string"),
    "deep line": ("c.jsonl", '{"id": "1", "input": ' + "[" * 200_000,
                  "c.jsonl: line 1: is nested too deeply"),
    "line of a list": ("c.jsonl", "[1]", "line 1: found a list, expected one case a line"),
    "line with mistakes": ("c.jsonl", '{"id": [], "inptu": 1}',
                           'line 1: unknown key "inptu". Did you mean "input"?'),
    "ids twice": ("c.jsonl", f"{CASE}\n\n{CASE}", 'c.jsonl: line 3: duplicate id "1" (first in line 1)'),
    # tables
    "empty table": ("c.csv", "", "c.csv: holds no case"),
    "table without rows": ("c.csv", "id,input\n", "c.csv: holds no case"),
    "unknown column": ("c.csv", "id,input,refernces\n",
                       'unknown column "refernces". Did you mean "references"?'),
    "wrong dots": ("c.csv", "id,input.text\n", 'unknown column "input.text"'),
    "column twice": ("c.csv", "id,id\n", 'duplicate column "id"'),
    "short row": ("c.csv", "id,input\n1,q\n2\n", "line 3: has 1 cells, expected 2 as in the first line"),
    "open quote": ("c.csv", 'id,input\n1,"q\n', "line 2: broken CSV: unexpected end of data"),
    "cell of no JSON": ("c.csv", "id,input,metadata\n1,q,{\n", "c.csv: line 2: metadata: broken JSON: "),
    "cell of wrong JSON": ("c.csv", 'id,input,expect\n1,q,"{""tool"": []}"\n',
                           'c.csv: line 2: expect: unknown key "tool". Did you mean "tools"?'),
    "no cell": ("c.csv", "id,input\n1,\n", 'c.csv: line 2: "input" is missing'),
    "ids twice in rows": ("c.csv", 'id,input\n1,"a\nb"\n1,q\n',
                          'c.csv: line 4: duplicate id "1" (first in line 2)'),
    "no Parquet": ("c.parquet", "PAR1", "c.parquet: is no Parquet file that can be read"),
    # formats
    "unknown ending": ("c.txt", CASE,
                       'cannot tell the format from ".txt": expected .jsonl, .csv, .tsv, .parquet, .yaml'),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), BAD.values(), ids=BAD.keys())
def test_each_mistake_is_reported(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        Suite.load(tmp_path / name)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("s.yaml", b"name: s\ncases: \xff", "s.yaml: line 2: byte 0xff at offset 15 is not valid UTF-8"),
        (
            "c.csv",
            b"\xef\xbb\xbfid,input\n1,\xe9t\xe9",
            "c.csv: line 2: byte 0xe9 at offset 14 is not valid UTF-8",
        ),
        ("c.jsonl", b'\n{"id": "\xe9"}', "c.jsonl: line 2: byte 0xe9 at offset 9 is not valid UTF-8"),
        ("s.json", "{}".encode("utf-16"), "s.json: is UTF-16, expected UTF-8"),
    ],
)
def test_invalid_utf8_is_named_by_line_and_byte(tmp_path, name, raw, expected):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(SuiteError) as caught:
        Suite.load(tmp_path / name)
    assert expected in str(caught.value)


def test_the_mistakes_of_a_suite_and_of_its_cases_are_reported_at_once(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"id": "1"}\n{"id": "2"}\n')
    (tmp_path / "s.yaml").write_text("cases: c.jsonl\nrepeats: 0\nmargin: x\n")
    with pytest.raises(SuiteError) as caught:
        Suite.load(tmp_path / "s.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert "s.yaml: repeats: found the number 0, expected a whole number of at least 1" in lines[0]
    assert lines[3].endswith('c.jsonl: line 2: "input" is missing')


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_the_first_twenty_mistakes_are_shown_and_the_others_counted(tmp_path, ending):
    path = tmp_path / f"c.{ending}"
    rows = [{"id": str(i)} for i in range(50)]
    path.write_text(
        {"jsonl": "\n".join(map(json.dumps, rows)), "json": json.dumps(rows), "csv": "id\n" + "1\n" * 50}[
            ending
        ]
    )
    with pytest.raises(SuiteError) as caught:
        Suite.load(path)
    assert len(caught.value.problems) == 20
    assert caught.value.left_out == 30
    assert str(caught.value).endswith("… and 30 more")


def test_line_4711_is_named(tmp_path):
    lines = [json.dumps({"id": i, "input": "q"}) for i in range(5000)]
    lines[4710] = lines[4710][:-3]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    with pytest.raises(SuiteError, match=r"c\.jsonl: line 4711, column \d+: broken JSON: "):
        Suite.load(tmp_path / "c.jsonl")


def test_many_duplicate_ids_are_counted(tmp_path):
    (tmp_path / "c.jsonl").write_text(f"{CASE}\n" * 30)
    with pytest.raises(SuiteError) as caught:
        Suite.load(tmp_path / "c.jsonl")
    assert (len(caught.value.problems), caught.value.left_out) == (20, 9)


def test_a_folder_asks_for_a_prefix(tmp_path):
    with pytest.raises(SuiteError, match="is a folder: expected a file, or the folder with what it holds"):
        Suite.load(tmp_path)
    (tmp_path / "s.yaml").write_text("cases: .")
    with pytest.raises(SuiteError, match="cannot tell the format"):
        Suite.load(tmp_path / "s.yaml")
    (tmp_path / "d.json").mkdir()
    (tmp_path / "s.yaml").write_text("cases: d.json")
    with pytest.raises(SuiteError, match=r"d\.json: is a folder: expected a file"):
        Suite.load(tmp_path / "s.yaml")


def test_a_missing_file_is_reported_plainly(tmp_path):
    with pytest.raises(SuiteError, match=r"no\.yaml: there is no such file\.$"):
        Suite.load(tmp_path / "no.yaml")
    with pytest.raises(SuiteError, match=r"there is no such file\.$"):
        Suite.load(tmp_path / "nowhere" / "no.yaml")


def test_a_misspelt_prefix_is_suggested():
    with pytest.raises(SuiteError, match='"peer-read:" is not a known prefix. Did you mean "peerread"'):
        Suite.load("peer-read:folder")


def test_a_file_of_cases_must_hold_a_list(tmp_path):
    (tmp_path / "c.json").write_text('{"a": 1}')
    (tmp_path / "s.yaml").write_text("cases: c.json")
    with pytest.raises(SuiteError, match=r"c\.json: found a mapping \(a\), expected a list of cases"):
        Suite.load(tmp_path / "s.yaml")


def test_a_document_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "s.json"
    with path.open("wb") as file:
        file.truncate(2 * 1024**3)  # a hole: 2 GB that take no room
    with pytest.raises(
        SuiteError, match=r"2,147,483,648 bytes are more than .* use \.jsonl, which is read line"
    ):
        Suite.load(path)


def test_a_line_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("trivium.records.lines.LONGEST_LINE", 30)
    (tmp_path / "c.jsonl").write_text(f'{CASE}\n{{"id": "2", "input": "{"x" * 100}"}}')
    with pytest.raises(SuiteError, match="line 2: is longer than 30 bytes: one record a line"):
        Suite.load(tmp_path / "c.jsonl")


@pytest.mark.parametrize("name", ["s.yaml", "c.jsonl"])
def test_what_may_not_be_read_says_so(tmp_path, name):
    path = tmp_path / name
    path.write_text(CASE)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(SuiteError, match="cannot be read: Permission denied"):
        Suite.load(path)


def test_a_name_that_no_file_can_have_says_so(tmp_path):
    with pytest.raises(SuiteError, match="cannot be read: File name too long"):
        Suite.load(tmp_path / ("x" * 300 + ".yaml"))


@pytest.mark.parametrize(
    ("where", "expected"),
    [("s.txt", 'cannot write ".txt": expected .yaml'), ("nowhere/s.yaml", "cannot be written: No such file")],
)
def test_what_cannot_be_written_says_so_and_leaves_nothing(tmp_path, where, expected):
    suite = Suite(name="s", cases=[{"id": "1", "input": "q"}])
    with pytest.raises(SuiteError, match=expected):
        suite.save(tmp_path / where)
    assert not list(tmp_path.iterdir())


def test_a_mistake_that_many_cases_share_is_told_once(tmp_path):
    cases = [{"id": f"c{number}", "input": "q", "expect": {"equals": "x"}} for number in range(30)]
    cases[2] = {"id": "c2", "input": "q", "repeat": 2}
    (tmp_path / "suite.json").write_text(json.dumps({"cases": cases}))
    with pytest.raises(SuiteError) as raised:
        Suite.load(tmp_path / "suite.json")
    shared, other, rest = str(raised.value).splitlines()
    assert 'cases[0].expect: unknown key "equals"' in shared
    assert shared.endswith(" (and in 18 other places, the last cases[19].expect)")
    assert 'cases[2]: unknown key "repeat"' in other
    assert rest == "… and 10 more"
    assert len(raised.value.problems) == 20
