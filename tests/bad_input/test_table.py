"""Bad input, a table: what a user gives to the commands, how they end and what they say.

Every row runs the real command line beside a store that holds a finished run, and that run is the same
afterwards. What can be wrong in a suite's text alone is a table of its own in ``tests/suites``.
"""

import json

import pytest

from tests.bad_input.given import CASE, NESTED_BOMB, OUTPUT, Row, of_suite, outputs

WRONG = {
    # the suite
    "empty suite": Row(
        {"bad.jsonl": ""}, "score bad.jsonl --outputs good.jsonl", ("bad.jsonl: holds no case",)
    ),
    "duplicate ids": Row(
        {"bad.jsonl": CASE + "\n" + CASE},
        "score bad.jsonl --outputs good.jsonl",
        ('bad.jsonl: line 3: duplicate id "1" (first in line 1)',),
    ),
    "no suite": Row(
        {},
        "score case.jsonl --outputs good.jsonl",
        ('case.jsonl: there is no such file. Did you mean "cases.jsonl"?',),
    ),
    "broken YAML": Row(
        {"s.yaml": "cases: [\n"},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: line 2, column 1: broken YAML",),
    ),
    "an item's key left of its neighbours in YAML": Row(
        {"s.yaml": "name: s\ncases:\n  - id: a\n    input: x\n   references: [b]\n"},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: line 5, column 4: broken YAML: wrong indentation: the entries that begin in line 3",),
    ),
    "a key right of its neighbours in YAML": Row(
        {"s.yaml": "name: s\n  metrics: [jaccard]\n"},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: line 2, column 10: broken YAML: a key where none is expected: begin it in",),
    ),
    "a colon within a YAML value": Row(
        {"s.yaml": "name: s\ncases:\n  - id: a\n    input: why: not\n"},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: line 4, column 15: broken YAML: a value holds a colon and a space: put it in quotes",),
    ),
    "YAML that runs code": Row(
        {"s.yaml": "cases: !!python/object/apply:os.system [touch pwned]"},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: line 1, column 8: broken YAML",),
    ),
    "YAML bomb": Row(
        {"s.yaml": NESTED_BOMB},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: its aliases expand to", "that is too many"),
    ),
    "broken TOML": Row({"s.toml": "x = "}, "score s.toml --outputs good.jsonl", ("s.toml: broken TOML",)),
    "broken CSV": Row(
        {"s.csv": 'id,input\n1,"q\n'}, "score s.csv --outputs good.jsonl", ("s.csv: line 2: broken CSV",)
    ),
    "an Excel workbook renamed": Row(
        {"s.csv": b"PK\x03\x04\x14\x00rest"},
        "score s.csv --outputs good.jsonl",
        ("s.csv: is a ZIP archive, such as an Excel workbook; expected text: save it as CSV",),
    ),
    "Latin-1": Row(
        {"s.csv": "id,input\n1,caf\xe9\n".encode("latin-1")},
        "score s.csv --outputs good.jsonl",
        ("s.csv: line 2: byte 0xe9 at offset 14 is not valid UTF-8: save the file as UTF-8", "`iconv -f"),
    ),
    "a tab in YAML": Row(
        {"s.yaml": "name: s\ncases:\n\t- {id: a, input: x}\n"},
        "score s.yaml --outputs good.jsonl",
        ("s.yaml: line 3, column 1: broken YAML: a tab where YAML expects spaces",),
    ),
    "a list in JSONL": Row(
        {"s.jsonl": '[{"id": "1", "input": "q"}]'},
        "score s.jsonl --outputs good.jsonl",
        ("s.jsonl: line 1: found a list, expected one case a line; a JSON list goes into a .json file",),
    ),
    "suite and outputs swapped": Row(
        {},
        "score good.jsonl --outputs cases.jsonl",
        ("good.jsonl: line 1: is an output, expected a case: are SUITE and --outputs swapped?",),
    ),
    "two columns that could be the input": Row(
        {"s.csv": "question,prompt,answer\nq,p,a\n"},
        "score s.csv --outputs good.jsonl",
        ('s.csv: "question" and "prompt" could each be the input: rename the right one to input',),
    ),
    "a column that could be the reference or the output": Row(
        {"s.csv": "question,output\nq,a\n"},
        "score s.csv --outputs good.jsonl",
        ('s.csv: "output" could be the reference or what the agent answered: rename',),
    ),
    "a typo beside columns of another tool": Row(
        {"s.csv": "question,answer,grup\nq,a,g\n"},
        "score s.csv --outputs good.jsonl",
        ('s.csv: unknown column "grup". Did you mean "group"?',),
    ),
    "keys of another tool, none the input": Row(
        {"s.jsonl": '{"id": "1", "expected": "a"}'},
        "score s.jsonl --outputs good.jsonl",
        ("s.jsonl: no column has a usual name of the input; rename it to input. There are: id, expected",),
    ),
    "an Excel workbook": Row(
        {"s.xlsx": b"PK\x03\x04\x14\x00rest"},
        "score s.xlsx --outputs good.jsonl",
        ("s.xlsx: is a workbook, which Trivium does not read: save the sheet as CSV (UTF-8)",),
    ),
    "outputs in an Excel workbook": Row(
        {"o.xlsx": b"PK\x03\x04\x14\x00rest"},
        "score cases.jsonl --outputs o.xlsx",
        ("o.xlsx: is a workbook, which Trivium does not read: save the sheet as CSV (UTF-8)",),
    ),
    "outputs in an Excel workbook renamed": Row(
        {"o.csv": b"PK\x03\x04\x14\x00rest"},
        "score cases.jsonl --outputs o.csv",
        ("o.csv: is a ZIP archive, such as an Excel workbook; expected text: save it as CSV",),
    ),
    "outputs in Latin-1": Row(
        {"o.csv": "case,output\n1,caf\xe9\n".encode("latin-1")},
        "score cases.jsonl --outputs o.csv",
        ("o.csv: line 2: byte 0xe9 at offset 17 is not valid UTF-8: save the file as UTF-8", "`iconv -f"),
    ),
    "outputs between semicolons": Row(
        {"o.csv": "case;output\n1;x;y\n"},
        "score cases.jsonl --outputs o.csv",
        ("o.csv: line 2: has 3 cells, expected 2 as in the first line",),
    ),
    "a typo in a column of outputs": Row(
        {"o.csv": "case,ouput\n1,x\n"},
        "score cases.jsonl --outputs o.csv",
        ('o.csv: unknown column "ouput". Did you mean "output"?',),
    ),
    "a list of outputs in JSONL": Row(
        {"o.jsonl": '[\n{"case": "1", "output": "x"}\n]'},
        "score cases.jsonl --outputs o.jsonl",
        ("o.jsonl: line 1: found a list, expected one output a line; a JSON list goes into a .json file",),
    ),
    "a list of cases over several lines in JSONL": Row(
        {"s.jsonl": '[\n{"id": "1", "input": "q"}\n]'},
        "score s.jsonl --outputs good.jsonl",
        ("s.jsonl: line 1: found a list, expected one case a line; a JSON list goes into a .json file",),
    ),
    "cases where outputs should be": Row(
        {},
        "score cases.jsonl --outputs cases.jsonl",
        ("cases.jsonl: no column is the output", "Are these cases? Then they are the SUITE, not --outputs"),
    ),
    "outputs of which case": Row(
        {"o.csv": "answer\nx\n"},
        "score cases.jsonl --outputs o.csv",
        ("o.csv: no column names the case: add one called case. There are: answer",),
    ),
    "outputs without one": Row(
        {"o.csv": "id,expected\n1,x\n"},
        "score cases.jsonl --outputs o.csv",
        ("o.csv: no column is the output: rename it to output. There are: id, expected",),
    ),
    "two columns that could be the output": Row(
        {"o.csv": "id,response,prediction\n1,x,y\n"},
        "score cases.jsonl --outputs o.csv",
        ('o.csv: "response" and "prediction" could each be the output: rename the right one to output',),
    ),
    "an output for an input that no case has": Row(
        {"o.csv": "question,answer\nwho,x\n"},
        "score cases.jsonl --outputs o.csv",
        ('o.csv: line 2: no case has this input: the text "who"',),
    ),
    "a row of outputs that is wrong": Row(
        {"o.csv": "case,output,seconds\n1,x,soon\n2,y,1\n1,z,2\n"},
        "score cases.jsonl --outputs o.csv",
        (
            'o.csv: line 2: seconds: found the text "soon", expected a number of at least 0',
            'o.csv: line 3: the suite has no case "2".',
        ),
    ),
    "broken Parquet": Row(
        {"s.parquet": "PAR1"}, "score s.parquet --outputs good.jsonl", ("s.parquet: is no Parquet file",)
    ),
    "number beyond the store's": of_suite(
        "repeats: found the number 123456789012", repeats=123456789012345678901234
    ),
    "more resamples than anybody waits for": of_suite("resamples: found the number 10", resamples=10**12),
    # names of metrics, wherever they stand
    "unknown metric": of_suite(
        's.json: metrics[1]: no metric is called "cosin". Did you mean "cosine"?',
        metrics=["jaccard", "cosin"],
    ),
    "unknown metrics": of_suite(
        'metrics[0]: no metric is called "cosin"',
        "gates.jacard: no metric is called",
        metrics=["cosin"],
        gates={"jacard": {"at_least": 0.5}},
    ),
    "unknown gate": of_suite(
        'gates.jacard: no metric is called "jacard". Did you mean "jaccard"?',
        gates={"jacard": {"at_least": 0.5}},
    ),
    "unknown bar": of_suite(
        'pass.metric: no metric is called "jacard". Did you mean "jaccard"?',
        **{"pass": {"metric": "jacard", "at_least": 0.5}},
    ),
    "unknown success": of_suite(
        'success.metric: no metric is called "jacard"',
        metrics=["success"],
        success={"metric": "jacard", "at_least": 0.5},
    ),
    "unknown part": of_suite(
        'composite.weights.succes: no metric is called "succes". Did you mean "success"?',
        composite={"weights": {"succes": 1}},
    ),
    "unknown part of similarity": of_suite(
        'similarity.cosin: no metric is called "cosin". Did you mean "cosine"?', similarity={"cosin": 1}
    ),
    "no metric": Row({}, "score cases.jsonl --outputs good.jsonl --metrics ,", ("metrics: names no metric",)),
    "unknown metric on the line": Row(
        {},
        "score cases.jsonl --outputs good.jsonl --metrics jacard,tme",
        (
            'metrics[0]: no metric is called "jacard". Did you mean "jaccard"?',
            'metrics[1]: no metric is called "tme". Did you mean "time"?',
        ),
    ),
    "metric of no module": Row(
        {},
        "score cases.jsonl --outputs good.jsonl --metrics no_module:Metric",
        ('"no_module:Metric" cannot be loaded',),
    ),
    # the outputs
    "no output": outputs("\n\n", "holds no output"),
    "unknown case": outputs('{"case": "2", "output": ""}', 'line 1: the suite has no case "2"'),
    "output twice": outputs(OUTPUT + OUTPUT, 'line 2: duplicate of line 1: case "1", repeat 0'),
    "broken JSON in line 4711": outputs(
        "".join(f'{{"case": "1", "repeat": {i}}}\n' for i in range(4710)) + '{"case": ', "line 4711"
    ),
    "invalid UTF-8": outputs(
        b'{"case": "1", "output": "\xff"}', "line 1: byte 0xff at offset 25 is not valid"
    ),
    "UTF-16": outputs(OUTPUT.encode("utf-16"), "line 1: is UTF-16, expected UTF-8"),
    "wrong types": outputs(
        '{"case": ["1"]}\n{"case": "1", "repeat": "x", "seconds": -1}\n[1]\n',
        "line 1: case: found a list of 1, expected a text",
        'line 2: repeat: found the text "x", expected a whole',
        "line 2: seconds: found the number -1, expected a number of at least 0",
        "line 3: found a list of 1",
    ),
    "misspelt key": outputs(
        '{"case": "1", "ouput": ""}', 'line 1: unknown key "ouput". Did you mean "output"?'
    ),
    "NaN": outputs('{"case": "1", "reward": NaN}', "line 1: broken JSON: NaN is no JSON number"),
    "deep output": outputs(
        '{"case": "1", "output": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 1: is nested too deeply"
    ),
    "trace of wrong types": outputs(
        '{"case": "1", "trace": {"spans": [{"id": "a", "kind": "agnt", "name": "x"}], "mesages": []}}',
        'line 1: trace: spans[0].kind: found the text "agnt", expected "agent" or "llm" or "other" or "tool".'
        ' Did you mean "agent"?',
        'line 1: trace: unknown key "mesages". Did you mean "messages"?',
    ),
    "messages that are none": outputs(
        '{"case": "1", "messages": [{"role": "user", "content": "a"}, {"content": "b"}]}\n'
        '{"case": "1", "repeat": 1, "messages": [7]}\n',
        "line 1: messages[1]: the message has no role: expected system, user, assistant or tool",
        "line 2: messages[0]: is no message: expected an object",
    ),
    "turns of a chat in disorder": outputs(
        '{"case": "1", "messages": [{"role": "user", "turn": 2}, {"role": "assistant", "turn": 1}]}\n'
        '{"case": "1", "repeat": 1, "messages": [{"role": "user", "turn": 1}, {"role": "assistant"}, '
        '{"role": "user", "turn": 1}]}\n'
        '{"case": "1", "repeat": 2, "messages": [{"role": "user", "turn": "1"}]}\n',
        "line 1: messages[1].turn: turn 1 comes after turn 2",
        "line 2: messages[2].turn: there are two turns 1: a user has spoken and was answered in it",
        'line 3: messages[0].turn: found the text "1", expected the number of a turn',
    ),
    "trace in no file": outputs(
        '{"case": "1", "trace": {"file": "no.json"}}', 'line 1: trace.file: there is no file "no.json"'
    ),
    "trace in a file that cannot be": outputs(
        json.dumps({"case": "1", "trace": {"file": "a" * 5000}}), "line 1: trace.file:"
    ),
    "trace in no format": outputs(
        '{"case": "1", "trace": {"file": "good.jsonl", "format": "otpl"}}',
        'line 1: trace.format: no trace format is called "otpl"',
    ),
    "outputs nowhere": Row(
        {},
        "score cases.jsonl --outputs god.jsonl",
        ('god.jsonl: there is no such file. Did you mean "good.jsonl"?',),
    ),
    "outputs are a folder": Row({}, "score cases.jsonl --outputs .", (".: is a folder: expected a file",)),
    # sources that are suite and outputs at once
    "broken trajectories": Row(
        {"t.json": "[{]"}, "score tau-bench:t.json", ("t.json: line 1, column 3: broken JSON",)
    ),
    "no trajectories": Row(
        {"t.json": "{}"}, "score tau-bench:t.json", ("t.json: expected a list of trajectories",)
    ),
    "no runs": Row({}, "score agents-eval:.", ("holds no run: expected folders with a trace.json",)),
    "no reviews": Row(
        {}, "score peerread:. --leave-one-out", (".: holds no reviews: expected PeerRead's layout",)
    ),
    "misspelt prefix": Row({}, "score tau_bench:t.json", ('Did you mean "tau-bench"?',)),
    # the agent
    "no agent": Row({}, "run cases.jsonl --agent nowhere", ("nowhere: names no agent; expected",)),
    "no module": Row({}, "run cases.jsonl --agent no_module:f", ('there is no module "no_module" here',)),
    "no function": Row(
        {"a.py": "def answer(q): ..."},
        "run cases.jsonl --agent a.py:anser",
        ("a.py:anser", 'has no "anser". Did you mean "answer"?'),
    ),
    "agent that cannot be imported": Row(
        {"a.py": "\n1 / 0"},
        "run cases.jsonl --agent a.py:f",
        ("importing a.py failed (a.py, line 2): ZeroDivisionError",),
    ),
    "agent of wrong shape": Row(
        {"a.py": "def f(a, b): ..."},
        "run cases.jsonl --agent a.py:f",
        ("the function needs b, which Trivium does not provide",),
    ),
    "address without a host": Row({}, "run cases.jsonl --agent http://", ("http://: names no host",)),
    "wrong address": Row({}, "run cases.jsonl --agent http://a:port/", ("http://a:port/: is no address",)),
    "no program": Row(
        {}, "run cases.jsonl --agent cmd:no_such_program", ('there is no program "no_such_program"',)
    ),
    # runs and stores
    "unknown run": Row({}, "show nope", ('no run is called "nope"', "`trivium list` names them")),
    "the newest run by a word": Row(
        {},
        "trust import latest good.jsonl",
        ('no run is called "latest". The newest is 2',),
    ),
    "unknown run to resume": Row(
        {}, "score cases.jsonl --outputs good.jsonl --resume nope", ('no run is called "nope"',)
    ),
    "run of other cases": Row(
        {"other.jsonl": CASE.replace("q", "z")},
        "score other.jsonl --outputs good.jsonl --resume RUN",
        ("its cases or their ids have changed",),
    ),
    "run of other settings": Row(
        {},
        "score cases.jsonl --outputs good.jsonl --metrics cosine --resume RUN",
        ("its settings have changed",),
    ),
    "run of something else": Row(
        {}, "run cases.jsonl --agent json:dumps --metrics jaccard --resume RUN", ("is of good.jsonl",)
    ),
    "no store of that kind": Row(
        {},
        "list --store mysql://u:secret@h/x",
        ("mysql://u:***@h/x: expected sqlite:///FILE or postgresql://",),
    ),
    "store that is a folder": Row({}, "list --store .", (".: is not a file",)),
    "store that is a text": Row(
        {"t.db": "text\n" * 999}, "list --store t.db", ("t.db: is not an SQLite database",)
    ),
    "store in a file": Row(
        {"t": "x"}, "score cases.jsonl --outputs good.jsonl --store t/x.db", ("t/x.db: cannot be made",)
    ),
    "store in no folder of ours": Row(
        {}, "score cases.jsonl --outputs good.jsonl --store /proc/x/x.db", ("/proc/x/x.db: cannot be made",)
    ),
    # what is written
    "report where none can be": Row({}, "show --html /proc/x.html", ("/proc/x.html: cannot be written",)),
    "export where none can be": Row({}, "export --output /proc/x.csv", ("/proc/x.csv: cannot be written",)),
    "log where none can be": Row(
        {}, "--log-file /proc/x.log list", ("/proc/x.log: the log cannot be written",)
    ),
    # the line itself
    "a command of another tool": Row({}, "eval", ('there is no command "eval". Did you mean "run"?',)),
    "a command of nobody": Row({}, "xyz", ('there is no command "xyz". Commands: init, run, score,',)),
    "nothing to score": Row({}, "score cases.jsonl", ("say what to score: --outputs FILE (SUITE again, if",)),
    "unknown command": Row({}, "scroe", ('there is no command "scroe". Did you mean "score"?',)),
    "unknown option": Row({}, "show --jsn", ("No such option '--jsn'", "'--json'")),
    "unknown word for an option": Row(
        {},
        "export --format jsnl",
        ("'--format': found \"jsnl\", expected one of jsonl", 'Did you mean "jsonl"?'),
    ),
    "run that is no text": Row({}, "show \udcff", ('no run is called "\ufffd"',)),
    "run to resume that is no text": Row(
        {}, "score cases.jsonl --outputs good.jsonl --resume \udcff", ('no run is called "\ufffd"',)
    ),
    "store that is no text": Row(
        {}, "list --store a\udcff.db", ("a\ufffd.db: SQLite opens only files whose names are UTF-8",)
    ),
    "address that is no text": Row(
        {}, "run cases.jsonl --agent http://h/\udcff", ("http://h/\ufffd: is no address",)
    ),
    "endpoint that is no text": Row(
        {}, "export --to http://h/\udcff", ("http://h/\ufffd: cannot be reached",)
    ),
    "unknown schema": Row({}, "schema cases", ('found "cases"', 'Did you mean "case"?')),
    "no file behind a prefix": Row({}, "score tau-bench:", ("tau-bench: names no file or folder",)),
    "no tag": Row({}, "run cases.jsonl --agent json:dumps --tag x", ("no case meets the filter",)),
}


@pytest.mark.parametrize("row", WRONG.values(), ids=WRONG.keys())
def test_wrong_input_ends_with_2_and_says_what_is_wrong_where(folder, row):
    for name, content in row.files.items():
        (folder.path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    code, out, err = folder.call(row.command)
    assert code == 2
    for words in row.messages:
        assert words in err
    assert "Error: " in err
    if not row.command.startswith("show --html"):
        assert out == "", "nothing is shown as if it were a result"
    assert folder.stored() == folder.first_run
    assert not (folder.path / "pwned").exists()
