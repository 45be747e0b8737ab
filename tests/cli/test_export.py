"""``trivium export`` of traces and graphs: every score is an event, traces are read back as they were."""

import csv
import gc
import io
import json
from contextlib import suppress
from pathlib import Path

import jsonschema
import msgspec
import networkx as nx
import pytest

from tests.store.test_sending import endpoint
from trivium.agents.attempt import Attempt
from trivium.cli.main import run_command
from trivium.errors import StoreError
from trivium.metrics.evaluation import evaluation
from trivium.metrics.metric import Score
from trivium.runs.items.files import Labels
from trivium.store.export.otlp import traces_of_run
from trivium.store.export.tables import WRITERS, escape_formula, unescape_formula
from trivium.store.records import Provenance
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.traces.opentelemetry.evaluations import recorded_scores
from trivium.traces.readers.collection import read_path
from trivium.traces.trace import Span, Trace
from trivium.traces.writers.otlp import TraceToExport, request, resource_spans

__all__ = ["endpoint"]

SPANS = (
    Span(id="1", kind="agent", name="boss", start=0.0, end=9.0),
    Span(id="2", kind="agent", name="aide", parent="1", start=1.0, end=5.0),
    Span(id="3", kind="tool", name="look", parent="2", start=2.0, end=3.0),
)


@pytest.fixture(autouse=True)
def _run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    suite = {
        "name": "small",
        "repeats": 2,
        "metrics": ["jaccard", "tool_success", "success"],
        "cases": [
            {"id": "a", "input": "?", "references": ["x"]},
            {"id": "b", "input": "!", "references": ["y"]},
        ],
    }
    Path("suite.json").write_text(json.dumps(suite))
    attempts = [
        Attempt(case="a", output="x y", trace=Trace(spans=SPANS)),
        Attempt(case="a", repeat=1, output="x", trace=Trace(spans=SPANS)),
        Attempt(case="b", output="y", seconds=1.0),
        Attempt(case="b", repeat=1, error="no answer"),
    ]
    Path("outputs.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, attempts)))
    outcome(capsys, "score", "suite.json", "--outputs", "outputs.jsonl", "--quiet")


def outcome(capsys, *arguments):
    code = run_command(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def events(line):
    (resource,) = json.loads(line)["resourceSpans"]
    root = resource["scopeSpans"][0]["spans"][0]
    about = {
        each["key"]: each["value"] for each in (*resource["resource"]["attributes"], *root["attributes"])
    }
    found = {}
    for event in root.get("events", []):
        if event["name"] == "gen_ai.evaluation.result":
            fields = {each["key"]: next(iter(each["value"].values())) for each in event["attributes"]}
            found[fields.pop("gen_ai.evaluation.name")] = fields
    return about, found


def test_every_score_of_every_attempt_is_an_event_on_its_first_span(capsys):
    rows = [json.loads(line) for line in outcome(capsys, "export")[1].splitlines()]
    code, out, _ = outcome(capsys, "export", "--format", "otlp")
    lines = out.splitlines()
    assert (code, len(lines)) == (0, 4)
    for line in lines:
        about, found = events(line)
        case, repeat = about["trivium.case.id"]["stringValue"], int(about["trivium.repeat"]["intValue"])
        mine = [row for row in rows if (row["case"], row["repeat"]) == (case, repeat)]
        assert set(found) - {"passed"} == {row["metric"] for row in mine}
        for row in mine:
            fields = found[row["metric"]]
            assert fields.get("gen_ai.evaluation.score.value") == row["value"]
            assert fields.get("gen_ai.evaluation.explanation") == row["reason"]
            if row["metric"] != "composite":
                assert fields["gen_ai.evaluation.score.label"] == row["status"]
        assert about["service.name"] == {"stringValue": "trivium"}
        assert about["trivium.run.id"] == {"stringValue": rows[0]["run"]}
        assert about["trivium.suite"] == {"stringValue": "small"}
        assert about["trivium.clock"] == {"stringValue": "run"}


@pytest.mark.parametrize("format_", ["otlp", "otlp-protobuf"])
def test_the_traces_of_a_run_are_read_back_as_they_were(capsys, format_):
    outcome(capsys, "export", "--format", format_, "--output", "spans.out")
    found, traces = read_path("spans.out")
    assert (found, len(traces)) == ("otlp", 4)
    for trace in traces[:2]:
        assert [(span.name, span.agent, span.start, span.end) for span in trace.spans] == [
            ("boss", None, 0.0, 9.0), ("aide", None, 1.0, 5.0), ("look", "aide", 2.0, 3.0),
        ]  # fmt: skip
        assert [(each.sender, each.receiver) for each in trace.messages] == [
            ("boss", "aide"),
            ("aide", "boss"),
        ]
    assert [trace.spans for trace in traces[2:]] == [(), ()]


def test_equal_runs_are_exported_alike(capsys):
    one = outcome(capsys, "export", "--format", "otlp")[1]
    assert outcome(capsys, "export", "--format", "otlp")[1] == one


def test_graphs_pool_the_attempts_of_a_run(capsys):
    outcome(capsys, "export", "--format", "graphml", "--output", "g.graphml")
    graph = nx.read_graphml("g.graphml")
    assert {(a, b, data["count"], data["traces"]) for a, b, data in graph.edges(data=True)} == {
        ("boss", "aide", 2, 2), ("aide", "boss", 2, 2),
    }  # fmt: skip
    assert json.loads(graph["boss"]["aide"]["types"]) == {"task_request": 2}
    code, out, _ = outcome(capsys, "export", "--format", "dot", "--graph", "tools")
    assert code == 0
    assert 'label="look"' in out
    lines = [
        json.loads(line) for line in outcome(capsys, "export", "--format", "edges-jsonl")[1].splitlines()
    ]
    assert {(line["case"], line["repeat"]) for line in lines} == {("a", 0), ("a", 1)}


def test_a_run_is_sent_to_an_endpoint(capsys, endpoint):
    code, _, err = outcome(capsys, "export", "--to", endpoint.url)
    assert (code, err.strip()) == (0, f"sent 8 spans to {endpoint.url}")
    assert outcome(capsys, "export", "--to", "http://127.0.0.1:9/")[0] == 2


@pytest.mark.parametrize("arguments", [("--what", "attempts"), ("--stable",)])
def test_options_of_tables_go_with_tables_alone(capsys, arguments):
    code, _, err = outcome(capsys, "export", "--format", "otlp", *arguments)
    assert code == 2
    assert f"{arguments[0]}: can only be used with --format jsonl, csv, parquet" in err


def test_files_of_traces_are_exported_too(capsys, endpoint):
    Path("trace.json").write_bytes(msgspec.json.encode(Trace(spans=SPANS, trace_id="T")))
    outcome(capsys, "traces", "export", "trace.json", "-o", "spans.json")
    ((back,), native) = (read_path("spans.json")[1], read_path("trace.json")[1][0])
    assert (back.trace_id, back.spans, back.messages) == ("T", native.spans, native.messages)
    code, out, _ = outcome(
        capsys, "traces", "export", "trace.json", "--format", "edges-jsonl", "--from", "native"
    )
    assert code == 0
    assert {"trace": "T", "graph": "agents", "node": "aide"} in map(json.loads, out.splitlines())
    assert outcome(capsys, "traces", "export", "trace.json", "--to", endpoint.url)[0] == 0
    assert len(endpoint.got) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "--format", "csv", "--output"),
        ("export", "--format", "otlp", "--output"),
        ("traces", "export", "trace.json", "-o"),
        ("traces", "export", "trace.json", "--format", "dot", "-o"),
        ("traces", "import", "trace.json", "-o"),
    ],
)
def test_a_dash_as_output_means_standard_output(capsys, arguments):
    Path("trace.json").write_bytes(msgspec.json.encode(Trace(spans=SPANS, trace_id="T")))
    code, out, _ = outcome(capsys, *arguments, "-")
    assert (code, out) == (0, outcome(capsys, *arguments[:-1])[1])
    assert out
    assert not Path("-").exists()


def test_a_file_that_cannot_be_written_is_reported(capsys):
    code, _, err = outcome(capsys, "export", "--format", "otlp", "--output", "no/where")
    assert code == 2
    assert "no/where: cannot be written" in err


def test_attempts_are_read_as_they_are_written():
    """Of many attempts few are at hand: the next is not read before the last one went."""
    with Store(".trivium/store.db") as store:
        exported = traces_of_run(store, store.run())
        assert next(exported).attributes["trivium.case.id"] == "a"
        exported.close()


def test_evaluations_are_read_back_with_who_gave_them_and_can_be_metrics(capsys, tmp_path):
    outcome(capsys, "export", "--format", "otlp", "--output", "spans.jsonl")
    outcome(capsys, "export", "--format", "otlp-protobuf", "--output", "spans.bin")
    rows = [json.loads(line) for line in outcome(capsys, "export")[1].splitlines()]
    rows = [row for row in rows if row["repeat"] is not None]  # not those of a case
    for name in ("spans.jsonl", "spans.bin"):
        _, traces = read_path(Path(name))
        assert len(traces) == 4
        found = [each for trace in traces for each in trace.metadata["evaluations"]]
        values = sorted((each["name"], each.get("value", -1)) for each in found if each["name"] != "passed")
        assert values == sorted((r["metric"], -1 if r["value"] is None else r["value"]) for r in rows)
        of_jaccard = next(each for each in found if each["name"] == "jaccard")
        assert [of_jaccard[key] for key in ("evaluator", "version", "type")] == [
            *("trivium.jaccard", "1", "deterministic")
        ]
    suite = json.loads(Path("suite.json").read_text()) | {"metrics": ["otel.jaccard"]}
    Path("again.json").write_text(json.dumps(suite))
    assert outcome(capsys, "score", "again.json", "--outputs", "spans.jsonl", "--quiet")[0] in {0, 3}
    again = [json.loads(line) for line in outcome(capsys, "export")[1].splitlines()]
    of = lambda rows, metric: [(r["case"], r["value"]) for r in rows if r["metric"] == metric]  # noqa: E731
    written = [pair for pair in of(rows, "jaccard") if pair[1] is not None]
    assert [pair for pair in of(again, "otel.jaccard") if pair[1] is not None] == written


def test_what_other_evaluators_say_is_read():
    attributes = {
        "gen_ai.evaluation.name": "Relevance",
        "gen_ai.evaluation.score.value": 4.0,
        "gen_ai.evaluation.score.label": "relevant",
        "gen_ai.evaluation.evaluator.version": "v2",
        "trivium.evaluator.models": '["m"]',
    }
    unnamed = {"gen_ai.evaluation.score.value": 1.0}
    failed = {"gen_ai.evaluation.name": "Safety", "error.type": "timeout"}
    events = [("gen_ai.evaluation.result", each) for each in (attributes, unnamed, failed)]
    export = TraceToExport(trace=Trace(trace_id="t", spans=SPANS), key="k", events=events)
    Path("others.jsonl").write_bytes(request(list(resource_spans([export]))))
    _, (trace,) = read_path(Path("others.jsonl"))
    assert trace.metadata["evaluations"] == [
        {"name": "Relevance", "value": 4.0, "label": "relevant", "version": "v2", "models": ["m"]},
        {"name": "Safety", "error": "timeout"},
    ]
    assert recorded_scores(trace)["scores"] == {
        "otel.Relevance": {"raw": 4.0, "version": "v2", "models": ["m"]},
        "otel.Safety": {"raw": None, "unscored": "timeout"},
    }


def test_a_score_in_error_says_so_and_its_method_goes_along():
    from trivium.store.export.otlp import results

    scores = {
        "one": Score(name="one", tier="judge", status="error", reason="no model"),
        "two": Score(name="two", tier="judge", status="fallback", value=0.5, method="cosine"),
    }
    with Store(".trivium/store.db") as store:
        run = msgspec.structs.replace(
            store.run(), provenance=Provenance(metrics={"one": "d1g3st", "two": "d1g3st"}, judges=["m"])
        )
    scores["inspect.three"] = Score(name="inspect.three", tier="text", value=1.0)
    one, two, three, *_ = results(
        run, evaluation(Attempt(case=Case(id="c", input=None).id), scores, Settings())
    )
    assert (one["error.type"], one["gen_ai.evaluation.explanation"]) == ("_OTHER", "no model")
    assert "gen_ai.evaluation.score.value" not in one
    assert (two["trivium.score.method"], two["gen_ai.evaluation.score.label"]) == ("cosine", "fallback")
    evaluator = "gen_ai.evaluation.evaluator"
    assert [one[f"{evaluator}.{part}"] for part in ("id", "version", "type")] == [
        *("trivium.one", "d1g3st", "llm_judge")
    ]
    assert (one["trivium.evaluator.models"], two[f"{evaluator}.type"]) == (["m"], "deterministic")
    assert not any(key.startswith(evaluator) for key in three)  # another tool gave it


def test_every_row_of_scores_has_every_column_and_every_attempt_says_which_it_is(capsys):
    rows = [json.loads(line) for line in outcome(capsys, "export")[1].splitlines()]
    columns = [
        "run",
        "case",
        "repeat",
        "metric",
        "tier",
        "value",
        "status",
        "raw",
        "method",
        "reason",
        "detail",
    ]
    assert {tuple(row) for row in rows} == {tuple(columns)}
    assert {row["metric"] for row in rows} >= {"jaccard", "composite", "pass^2"}
    attempts = [json.loads(line) for line in outcome(capsys, "export", "--what", "attempts")[1].splitlines()]
    assert [(each["case"], each["repeat"]) for each in attempts] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    table = outcome(capsys, "export", "--what", "attempts", "--format", "csv")[1].splitlines()
    assert [line.split(",")[1] for line in table if line[:2] in {"a,", "b,"}] == ["0", "1", "0", "1"]


def test_stable_rows_of_a_composite_with_times_are_equal_bytes(capsys):
    suite = json.loads(Path("suite.json").read_text())
    suite |= {"metrics": ["jaccard", "success", "time"], "composite": {"weights": {"time": 1, "success": 1}}}
    Path("timed.json").write_text(json.dumps(suite))
    written = []
    for seconds in (0.5, 90.0):
        lines = [{"case": case, "repeat": repeat, "output": "x", "seconds": seconds}
                 for case in "ab" for repeat in (0, 1)]  # fmt: skip
        Path("timed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        outcome(capsys, "score", "timed.json", "--outputs", "timed.jsonl", "--quiet")
        written.append(outcome(capsys, "export", "--format", "jsonl", "--stable")[1])
    assert written[0] == written[1]
    composites = [row for row in map(json.loads, written[0].splitlines()) if row["metric"] == "composite"]
    assert {row["case"]: row["value"] for row in composites} == {"a": 1.0, "b": 0.0}


def test_no_output_shows_a_password_of_the_endpoint(capsys, endpoint):
    url = endpoint.url.replace("http://", "http://user:hunter2@")
    code, out, err = outcome(capsys, "export", "--to", url)
    assert (code, "[masked]@127.0.0.1" in err) == (0, True)
    endpoint.answers = [(301, {"location": "http://127.0.0.1:1/"}, b"")]
    refused = outcome(capsys, "export", "--to", url)
    unreachable = outcome(capsys, "export", "--to", "http://user:hunter2@127.0.0.1:1/v1/traces")
    assert (refused[0], unreachable[0]) == (2, 2)
    for text in (out, err, *refused[1:], *unreachable[1:]):
        assert "hunter2" not in text


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "'=1", "''=1"]


def test_no_cell_of_a_table_is_run_by_a_spreadsheet_and_each_can_be_read_back(capsys):
    cases = [{"id": formula, "input": "?"} for formula in FORMULAS]
    Path("formulas.json").write_text(json.dumps({"name": "s", "metrics": ["time"], "cases": cases}))
    lines = [{"case": formula, "output": formula, "error": formula, "seconds": 1} for formula in FORMULAS]
    Path("formulas.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run_command(["score", "formulas.json", "--outputs", "formulas.jsonl", "--quiet", "--store", "f.db"])
    export = ["export", "--what", "attempts", "--format", "csv", "--output", "f.csv", "--store", "f.db"]
    assert run_command(export) == 0
    with Path("f.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("case", "output"):
        assert [row[name] for row in rows] == [f"'{formula}" for formula in FORMULAS]
        assert [unescape_formula(row[name]) for row in rows] == FORMULAS
    for row in rows:
        assert not any(cell.startswith(tuple("=+-@\t\r\n")) for cell in row.values() if not _is_number(cell))


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_what_a_spreadsheet_does_not_run_is_written_as_it_is():
    for text in ("", "a=b", "'", "'quoted'", " =1", "1-2", "it's"):
        assert escape_formula(text) == unescape_formula(text) == text


def test_labels_of_a_table_name_cases_as_they_were():
    Path("labels.csv").write_text("case,repeat,dimension,value\n'=1+1,0,d,0.5\n'plain,0,d,1\n")
    assert [label.case for label in Labels("labels.csv").records()] == ["=1+1", "'plain"]


def test_labels_name_cases_as_the_run_does():
    Path("labels.jsonl").write_text('{"case": "a\\u0000b", "dimension": "d", "value": 1}\n')
    labels = Labels("labels.jsonl")
    assert [label.case for label in labels.records()] == ["a\u2400b"]
    labels.check_attempts({("a\u2400b", 0)})


@pytest.mark.parametrize("format_", sorted(WRITERS))
def test_a_table_that_cannot_be_completed_leaves_standard_output_open(format_):
    def rows():
        yield {"case": "a"}
        raise StoreError("a partition is lost")

    file = io.BytesIO()
    with suppress(StoreError):
        WRITERS[format_](rows(), ["case"], file)
    gc.collect()
    assert not file.closed


def test_an_export_that_fails_leaves_the_earlier_file(tmp_path, monkeypatch, capsys):
    def failing(rows, columns, file):
        file.write(b"half")
        raise StoreError("a partition is lost")

    Path("scores.jsonl").write_text("earlier")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setitem(WRITERS, "jsonl", failing)
    code, _, said = outcome(capsys, "export", "--output", "scores.jsonl")
    assert (code, said) == (2, "Error: a partition is lost\n")
    assert Path("scores.jsonl").read_text() == "earlier"
    assert sorted(tmp_path.iterdir()) == before


def test_an_export_is_written_through_a_link_and_to_a_device(tmp_path, capsys):
    (tmp_path / "there").mkdir()
    Path("link.jsonl").symlink_to("there/scores.jsonl")
    assert outcome(capsys, "export", "--output", "link.jsonl")[0] == 0
    assert Path("link.jsonl").is_symlink()
    assert (tmp_path / "there" / "scores.jsonl").stat().st_size
    assert outcome(capsys, "export", "--output", "/dev/null")[0] == 0
    assert not Path("/dev/null").is_file()


def test_trajectories_have_case_and_scores_and_are_read_back(capsys):
    outcome(capsys, "export", "--format", "atif", "--output", "run.jsonl")
    format_, traces = read_path(Path("run.jsonl"))
    assert (format_, [trace.metadata["case"] for trace in traces]) == ("atif", ["a", "a", "b", "b"])
    assert [(span.id, span.start, span.end) for span in traces[0].spans] == [
        (span.id, span.start, span.end) for span in SPANS
    ]
    first, *_ = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert first["final_metrics"]["extra"]["scores"]["jaccard"] == 0.5
    assert outcome(capsys, "score", "suite.json", "--outputs", "run.jsonl", "--quiet")[0] in {0, 3}


def test_means_have_the_form_of_every_eval_ever(capsys):
    text = {"type": "string"}

    def record(**fields):
        return {"type": "object", "required": list(fields), "properties": fields}

    number = {"type": "number"}
    interval = record(lower=number, upper=number, confidence_level=number)
    uncertain = record(num_samples={"type": "integer"})
    uncertain["properties"]["confidence_interval"] = interval  # one group has none
    result = record(
        evaluation_name=text,
        source_data=record(dataset_name=text, source_type={"const": "other"}),
        metric_config=record(
            lower_is_better={"const": False}, min_score={"const": 0}, max_score={"const": 1}
        ),
        score_details=record(
            score={"type": "number"},
            uncertainty=uncertain,
            details={"type": "object", "additionalProperties": text},
        ),
    )
    schema = record(
        schema_version=text,
        evaluation_id=text,
        retrieved_timestamp=text,
        source_metadata=record(
            source_type={"const": "evaluation_run"},
            source_organization_name=text,
            evaluator_relationship=text,
        ),
        model_info=record(
            name=text, id=text, additional_details=record(deployment_type=text, model_availability=text)
        ),
        eval_library=record(name={"const": "trivium"}, version=text),
        evaluation_results={"type": "array", "minItems": 1, "items": result},
    )
    code, printed, _ = outcome(capsys, "export", "--format", "every-eval-ever")
    jsonschema.validate(json.loads(printed), schema)
    rows = [json.loads(line) for line in outcome(capsys, "export", "--what", "summary")[1].splitlines()]
    means = {row["metric"]: (row["mean"], row["ci95"], row["n"]) for row in rows if row["mean"] is not None}
    found = {}
    for each in json.loads(printed)["evaluation_results"]:
        uncertainty = each["score_details"]["uncertainty"]
        bounds = uncertainty.get("confidence_interval")
        found[each["metric_config"]["metric_name"]] = (
            each["score_details"]["score"],
            bounds and [bounds["lower"], bounds["upper"]],
            uncertainty["num_samples"],
        )
    assert (code, found) == (0, means)
    assert outcome(capsys, "export", "--format", "every-eval-ever", "--what", "attempts")[0] == 2
