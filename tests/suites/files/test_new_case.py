"""A case added to a file: it is read back, and everything that was there is still there, in its order."""

import json
import stat

import pytest

from trivium.errors import SuiteError
from trivium.records.documents import parse_json, parse_yaml
from trivium.suites.files.new_case import add_case
from trivium.suites.suite import Suite

NEW = {"id": "new", "input": 'Line 1\nsaid "ä", \u2028 # no comment: {x}', "metadata": {"trace": "new"}}
REMARKS = ("What is expected is yours to say:", "references: [yes]")

BLOCK = """\
# A suite.
name: s          # its name
cases:
  # the first
  - id: "1"
    input: |
      A text of lines

      # that is no comment
    references: [a]    # one
    # references: [b]
  - {id: "2", input: c}
  # - {id: "3", input: taken out}

# the limits
limits: {seconds: 30}
"""
FILES = {
    "in the middle.yaml": BLOCK,
    "at the end.yaml": "name: s\ncases:\n- id: a\n  input: b   # last",
    "without indentation.yaml": "cases:\n- id: a\n  input: b\n\n# more\nname: s\n",
    "a text of lines at the end.yaml": "name: s\ncases:\n  - id: a\n    input: |\n      x\n\n      # y\n\n",
    "a list.yaml": "# cases\n- id: a\n  input: b\n# end\n",
    "in brackets.yaml": "name: s\ncases: [{id: a, input: b}]  # few\nlimits: {seconds: 3}\n",
    "in brackets over lines.yaml": "cases: [\n  {id: a, input: b},  # one\n  {id: c, input: d},\n ]\n",
    "of another system.yaml": "name: s\r\ncases:\r\n  - id: a\r\n    input: b\r\nlimits: {seconds: 3}\r\n",
    "marked.yaml": "\ufeffname: s\ncases:\n  - {id: a, input: b}\n",
    "a suite.json": '{\n\t"name": "s",\n\t"cases": [\n\t\t{"id": "a", "input": "b"}\n\t],\n\t"seed": 3\n}\n',
    "one line.json": '[{"id": "a", "input": "b"}]',
    "lines.jsonl": '{"id": "a", "input": "b"}\n{"id": "c", "input": "d"}',
}


def cases_of(text, name):
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    raw = (parse_json if name.endswith(".json") else parse_yaml)(text.removeprefix("\ufeff"))
    return raw if isinstance(raw, list) else [*raw.pop("cases"), raw]


@pytest.mark.parametrize("name", FILES)
def test_the_case_is_the_last_and_nothing_else_changes(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[name].encode())
    changed = add_case(path, NEW, REMARKS)
    assert path.read_bytes().decode() == FILES[name]  # nothing is written yet
    changed.write()
    after = path.read_bytes().decode()
    before, now = cases_of(FILES[name], name), cases_of(after, name)
    place = next(index for index, case in enumerate(now) if case == NEW)
    assert now[:place] + now[place + 1 :] == before
    assert Suite.load(path).case("new").input == NEW["input"]
    there = iter(after)
    assert all(letter in there for letter in FILES[name])  # every letter, in its order
    assert ("\r\n" in after) == ("\r\n" in FILES[name])
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in after


def test_a_diff_shows_what_is_written_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(BLOCK)
    lines = add_case("suite.yaml", {"id": "new", "input": "q"}, REMARKS).diff().splitlines()
    assert lines[:3] == ["--- suite.yaml", "+++ suite.yaml", "@@ -11,6 +11,10 @@"]
    assert [line for line in lines[3:] if line[0] != " "] == [
        '+  - id: "new"',
        '+    input: "q"',
        "+    # What is expected is yours to say:",
        "+    # references: [yes]",
    ]


def test_remarks_become_expectations_when_their_signs_are_taken_out(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(BLOCK)
    add_case(path, NEW, ("references: [yes]", "expect:", "  tools:", '    - {"name": "t"}')).write()
    head, _, rest = path.read_text().partition('  - id: "new"\n')
    path.write_text(f'{head}  - id: "new"\n{rest.replace("    # ", "    ", 4)}')
    case = Suite.load(path).case("new")
    assert (case.references, case.expect.tools[0].name) == (("yes",), "t")


def test_the_file_that_a_suite_names_gets_the_case(tmp_path):
    (tmp_path / "suite.yaml").write_text("name: s\ncases: cases.jsonl\n")
    (tmp_path / "cases.jsonl").write_text('{"id": "a", "input": "b"}\n')
    (tmp_path / "cases.jsonl").chmod(0o600)
    changed = add_case(tmp_path / "suite.yaml", NEW)
    changed.write()
    assert changed.path == tmp_path / "cases.jsonl"
    assert Suite.load(tmp_path / "suite.yaml").case("new").metadata == {"trace": "new"}
    assert stat.S_IMODE((tmp_path / "cases.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("s.csv", "id,input\n1,a\n", "can be added to a file that ends in .yaml, .json or .jsonl"),
        ("s.toml", "name = 's'\n", "can be added to a file that ends in .yaml, .json or .jsonl"),
        ("s.yaml", "name: s\ncases: 'many/*.jsonl'\n", "which is not one file"),
        ("s.yaml", "name: s\ncases: s.yaml\n", "which is not one file"),
        ("s.yaml", "name: s\npeerread: folder\n", "no list of cases of its own"),
        ("s.yaml", "name: [s\n", "s.yaml: line 2"),
        ("s.yaml", "common: &c [{id: a, input: b}]\ncases: *c\n", "without changing other parts"),
        ("s.yaml", "cases:\n  - {id: a, input: b}\n  - id: c\n    input: |+\n      d\n\n", "by hand"),
        ("none.jsonl", None, "there is no such file"),
    ],
)
def test_what_cannot_be_changed_is_refused_with_the_reason(name, text, says, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SuiteError, match=says.replace(".", r"\.").replace("*", r"\*")):
        add_case(tmp_path / name, NEW)


def test_a_file_that_was_changed_in_the_meantime_is_not_replaced(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(BLOCK)
    changed = add_case(path, NEW)
    path.write_text(BLOCK + "seed: 3\n")
    with pytest.raises(SuiteError, match="was changed in the meantime"):
        changed.write()
    assert path.read_text() == BLOCK + "seed: 3\n"
