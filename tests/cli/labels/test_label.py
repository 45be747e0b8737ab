"""``trivium label``: asking in the terminal, queues, several people, files, and the trust commands."""

import json

import pytest
from click.testing import CliRunner

from tests.labels.labelled import judged
from trivium.cli.main import run_command, trivium
from trivium.labels.queue import LabelQueues
from trivium.store.labels import queue_transaction
from trivium.store.store import Store


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store() as opened:
        yield opened


@pytest.fixture
def run(store):
    return judged(store)


def call(*arguments, keys=None):
    return CliRunner().invoke(trivium, ["label", *arguments], input=keys, prog_name="trivium")


def printed(capsys, *arguments):
    code = run_command(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def labels(store):
    found = []
    for queue in LabelQueues(store).all():
        with queue_transaction(store, queue.id) as stored:
            found += stored.labels()
    return found


def test_keys_and_numbers_become_labels(store, run):
    answer = call(run.id, "--dimension", "clarity", "--labeller", "ann", keys="5\n0.8\n0,25\nc\ns\nq\n")
    assert answer.exit_code == 0, answer.output
    given = labels(store)
    assert [(label.answer, label.value) for label in given] == [
        ("label", 1.0),
        ("label", 0.8),
        ("label", 0.25),
        ("cannot_tell", None),
        ("skip", None),
    ]
    assert {label.by for label in given} == {"ann"}
    assert "4 answers now, 4 of 12 items in all" in answer.output
    assert "output of c" in answer.output
    assert "confidence" not in answer.output.split("──", 1)[1].split("People's mean")[0]


def test_what_was_taken_back_is_asked_again_with_a_note_and_nothing_is_misread(store, run):
    answer = call("--dimension", "clarity", keys="u\n1\nu\nhm\n7\n-0.5\nn looks odd\n5\nt\nv\n")
    assert "there is nothing to take back" in answer.output
    assert answer.output.count("is no answer") == 3
    assert "there is no trace" in answer.output
    (label,) = labels(store)
    assert (label.value, label.note) == (1.0, "looks odd")


def test_the_newest_open_queue_is_continued(store, run):
    call("--dimension", "clarity", "--labeller", "ann", keys="5\n")
    call("--dimension", "clarity", "--labeller", "ann", keys="5\n")
    (queue,) = LabelQueues(store).all()
    assert len(labels(store)) == 2
    call("close", queue.id)
    call("--dimension", "clarity", keys="5\n")
    assert len(LabelQueues(store).all()) == 2


def test_the_options_of_a_queue_reach_it(store, run):
    given = ("--overlap", "0.5", "--people", "3", "--lease-minutes", "2", "--seed", "9", "--uniform")
    answer = call("queue", run.id, "--dimension", "clarity", *given, "--uncertainty", "verbalized", "--json")
    made = json.loads(answer.output)
    assert made["seed"] == 9
    settings = made["settings"]
    assert (settings["overlap"], settings["people"], settings["lease_seconds"]) == (0.5, 3, 120.0)
    assert settings["uniform"] is True
    assert settings["uncertainty"] == "verbalized"


def test_several_people_agree_or_somebody_decides(store, run):
    made = call("queue", "--dimension", "clarity", "--overlap", "1")
    queue = made.output.split()[0]
    assert f"each person: trivium label --queue {queue} --labeller NAME" in made.output
    call("--queue", queue, "--labeller", "ann", keys="5\n" * 12)
    call("--queue", queue, "--labeller", "ben", keys="5\n" * 11 + "1\n")
    found = call("agree", queue)
    assert "2 people gave the same label in 92 %" in found.output
    place = json.loads(call("agree", queue, "--json", "--label-step", "0.5").output)["disagreements"][0][
        "place"
    ]
    decided = call("adjudicate", queue, str(place), "0.75", "--labeller", "dora", "--note", "so")
    assert "decided by dora" in decided.output
    assert "0.75 by dora" in call("agree", queue).output
    assert labels(store)[-1].note == "so"


def test_queues_are_listed_and_shown(run):
    queue = call("queue", "--dimension", "clarity").output.split()[0]
    call("--queue", queue, "--labeller", "ann", keys="5\n" * 12)
    assert queue in call("list").output
    assert call("list", "--dimension", "other").output.startswith("no queue yet")
    shown = call("show", queue).output
    assert "People's mean score is about 1.000" in shown
    assert json.loads(call("show", queue, "--json").output)["answered"] == 12


def test_exported_labels_are_read_by_trust_as_those_of_the_store_are(run, tmp_path, capsys):
    call("--dimension", "clarity", "--labeller", "ann", "--seed", "1", keys="5\n1\n" * 6)
    written = call("export", run.id, "--dimension", "clarity", "--output", "labels.csv")
    assert written.exit_code == 0
    common = ("trust", "agree", run.id, "--dimension", "clarity", "--bootstrap-resamples", "50", "--json")
    code, of_store, _ = printed(capsys, *common)
    assert code == 0
    _, of_file, _ = printed(capsys, *common, "--labels", "labels.csv")
    ours, theirs = json.loads(of_store), json.loads(of_file)
    assert ours["n"] == 12
    for name in ("judge_mean", "people_mean", "exact", "kappa", "corrected"):
        assert ours[name] == theirs[name]


def test_labels_are_imported_once(run, tmp_path):
    (tmp_path / "labels.csv").write_text("case,dimension,value,by\nc1,clarity,0.5,eve\n")
    assert "1 labels imported" in call("import", run.id, "labels.csv").output
    assert json.loads(call("import", run.id, "labels.csv", "--json").output) == {"stored": 0, "known": 1}
    assert '"how":"imported"' in call("export", "--format", "jsonl").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("label", "ask"), "say what to label"),
        (("label", "nothing", "--dimension", "clarity"), 'no run is called "nothing"'),
        (("label", "--dimension", "clarty"), 'Did you mean "clarity"'),
        (("label", "show", "labels-x"), "no queue of labels is called"),
        (("trust", "certify", "--dimension", "clarity"), "trivium label run-"),
    ],
)
def test_what_is_wrong_is_said_on_one_line(run, capsys, arguments, message):
    code, out, err = printed(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_queue_of_live_traffic_is_made_by_monitor_days_or_alert(store, run, capsys):
    import time

    from sqlalchemy import update

    from tests.monitor.samples import open_alert, sample, store_samples
    from trivium.store import schema

    now = time.time()
    with store.engine.begin() as connection:
        connection.execute(update(schema.runs).values(kind="live", suite_name="support"))
    number = open_alert(store, now=now)
    store_samples(store, [sample(at, run=run.number, time=now - 86_400 * at) for at in range(12)])
    common = ("queue", "--dimension", "clarity", "--json")
    assert json.loads(call(*common, "--monitor", "support").output)["population"] == 7
    assert json.loads(call(*common, "--monitor", "support", "--days", "2.5").output)["population"] == 3
    made = json.loads(call(*common, "--alert", str(number)).output)
    assert made["settings"]["volunteered"].startswith("its items are the worst samples")
    code, _, err = printed(capsys, "label", *common, "--alert", "1", "--monitor", "support")
    assert code == 2
    assert "name one of RUN, --monitor and --alert" in err


def test_names_and_texts_never_become_markup_or_control_the_terminal(store):
    from tests.runs.judged_runs import judged_run, judgement

    hostile = "\x1b[2Jgone [bold red]x[/bold red] [/nothing]"
    run = judged_run(store, {"c [/x]": [judgement(1.0)]}, outputs={"c [/x]": hostile}).record
    queue = call("queue", run.id, "--dimension", "clarity", "--overlap", "1").output.split()[0]
    for name, key in (("[/ann]", "1"), ("[red]ben", "3")):
        answer = call("--queue", queue, "--labeller", name, keys=f"{key}\n")
        assert "\x1b[2J" not in answer.output
        assert "[bold red]x[/bold red]" in answer.output
    for command in ("agree", "show"):
        assert "[/ann]" in call(command, queue).output


def test_the_trace_of_an_item_can_be_read(store):
    from tests.runs.judged_runs import judgement
    from trivium.agents.attempt import Attempt
    from trivium.metrics.evaluation import Composite, Evaluation
    from trivium.store.records import StoredAttempt, StoredEvaluation
    from trivium.suites.case import Case
    from trivium.traces.trace import Span, Trace

    fields = {"suite_name": "s", "suite": "d", "kind": "recorded", "settings": {}}
    record = store.new_run(id="traced", **fields)
    store.save_cases("d", [Case(id="c", input={"q": 1})])
    spans = (Span(id="1", kind="tool", name="search", ok=False), Span(id="2", kind="llm", name="m"))
    attempt = Attempt(case="c", output="x" * 4_000, trace=Trace(spans=spans))
    scored = Evaluation(
        case="c", repeat=0, scores={"clarity": judgement(1.0)}, composite=Composite(value=None, parts={})
    )
    store.save(
        record,
        attempts=[StoredAttempt(position=0, attempt=attempt)],
        evaluations=[StoredEvaluation(position=0, evaluation=scored)],
    )
    output = call("traced", "--dimension", "clarity", keys="t\nv\n").output
    assert "trace: 2 spans: t" in output
    assert "tool   search  failed" in output
    assert "… 1,000 more characters: v" in output
    assert "x" * 4_000 in output


def test_only_answers_that_were_taken_back_leave_the_count(store, run):
    answer = call("--dimension", "clarity", keys="1\ns\nu\nq\n")
    assert "1 answers now, 1 of 12 items in all" in answer.output
    again = call("--dimension", "clarity", keys="1\nu\nu\nq\n")
    assert "0 answers now, 0 of 12 items in all" in again.output


def test_an_answer_that_is_not_taken_ends_nothing(store, run, monkeypatch):
    stored = LabelQueues.answer

    def answered_elsewhere(queues, id, place, by, *rest, key, **named):
        monkeypatch.setattr(LabelQueues, "answer", stored)
        stored(queues, id, place, by, "label", 0.5, key="of another window")
        return stored(queues, id, place, by, *rest, key=key, **named)

    monkeypatch.setattr(LabelQueues, "answer", answered_elsewhere)
    answer = call("--dimension", "clarity", keys="1\n5\nq\n")
    assert answer.exit_code == 0
    assert "not stored: queue labels-" in answer.output
    assert "1 answers now, 2 of 12 items in all" in answer.output
    assert sorted(label.value for label in labels(store)) == [0.5, 1.0]
