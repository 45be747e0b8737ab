"""A certificate is applied: judgements are accepted or go to people, and it expires with its judge."""

import json
import random
from pathlib import Path

import pytest

from tests.cli.trust.trust_commands import run_trust
from trivium.cli.main import run_command

CASES = 120


def lines(name: str, rows) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def output_of(capsys, *arguments: str, code: int = 0) -> str:
    assert run_command(list(arguments)) == code
    return capsys.readouterr().out


def judgements(name: str, **changes) -> list[dict]:
    """Verdicts that are wrong only where the judge is not confident; and the labels, in labels.jsonl."""
    draw = random.Random(2)
    rows, labels = [], []
    for number in range(CASES):
        sure, truth = round(draw.random(), 2), float(draw.random() < 0.5)
        right = draw.random() < 0.5 or sure > 0.4
        row = {
            "case": f"c{number}",
            "dimension": "ok",
            "value": truth if right else 1 - truth,
            "reason": "so it seems",
            "model": "judge-a",
            "prompt": "p1",
            "confidence": sure,
            "signals": {"verbalized_confidence": 1 + round(4 * sure), "llm_evidence_count": number % 3},
        }
        rows.append(row | changes)
        labels.append({"case": f"c{number}", "dimension": "ok", "value": truth})
    lines(name, rows)
    lines("labels.jsonl", labels)
    return rows


@pytest.fixture
def judged(capsys):
    """An unjudged run, its judgements, and what was certified of them, in cert.json."""
    lines("cases.jsonl", ({"id": f"c{n}", "input": "q", "references": ["a"]} for n in range(CASES)))
    lines("outputs.jsonl", ({"case": f"c{n}", "output": "a"} for n in range(CASES)))
    score = ("score", "cases.jsonl", "--outputs", "outputs.jsonl", "--metrics", "jaccard", "--json")
    run = json.loads(output_of(capsys, *score))["run"]
    rows = judgements("j.jsonl")
    output_of(capsys, "trust", "import", run, "j.jsonl", "--quiet")
    certify = ("trust", "certify", "--dimension", "ok", "--labels", "labels.jsonl", "--output", "cert.json")
    found = json.loads(output_of(capsys, *certify, "--json"))
    assert found["threshold"] is not None
    return run, rows, found


def applied(capsys, run: str, name: str = "j.jsonl", code: int = 0) -> dict:
    return json.loads(
        output_of(capsys, "trust", "import", run, name, "--certificate", "cert.json", "--json", code=code)
    )


def test_each_judgement_is_accepted_or_goes_to_people(capsys, judged):
    run, rows, certified = judged
    assert certified["judged_by"]["models"] == ["judge-a"]
    assert certified["dimension"] == "ok"
    summary = applied(capsys, run)
    sure = [row["case"] for row in rows if row["confidence"] >= certified["threshold"]]
    found = summary["acceptance"]["ok"]
    assert (found["accepted"], found["to_people"]) == (len(sure), CASES - len(sure))
    assert found["certificate"] == "cert.json"
    assert 0 < len(sure) < CASES
    detail = {
        row["case"]: row["detail"]["acceptance"]
        for row in map(json.loads, output_of(capsys, "export").splitlines())
        if row["metric"] == "ok"
    }
    assert [case for case, mark in detail.items() if mark["answer"] == "accepted"] == sure
    assert f"accepted {len(sure)} of {CASES} · {CASES - len(sure)} to people" in output_of(capsys, "show")
    output_of(capsys, "show", "--markdown", "m.md", "--html", "p.html")
    for page in ("m.md", "p.html"):
        assert f"accepted {len(sure)} of {CASES}" in Path(page).read_text()
    assert "to people, confidence " in Path("p.html").read_text()


def test_those_that_go_to_people_are_listed(capsys, judged):
    run, rows, certified = judged
    expected = [
        (row["case"], row["value"], row["confidence"])
        for row in rows
        if row["confidence"] < certified["threshold"]
    ]
    # On a run that applied no certificate, and on one that did.
    on_the_fly = output_of(capsys, "export", "--what", "review", "--certificate", "cert.json")
    applied(capsys, run)
    for text in (on_the_fly, output_of(capsys, "export", "--what", "review")):
        review = [json.loads(line) for line in text.splitlines()]
        assert [(row["case"], row["verdict"], row["confidence"]) for row in review] == expected
        assert review[0]["dimension"] == "ok"
        assert review[0]["why"].startswith("confidence is under the threshold 0.")
        assert review[0]["reason"] == "so it seems"
    header = output_of(capsys, "export", "--what", "review", "--format", "csv").splitlines()[0]
    assert header == "case,repeat,dimension,verdict,confidence,why,reason"


def test_without_a_certificate_there_is_no_review(capsys, judged):
    assert run_command(["export", "--what", "review"]) == 2
    assert "applied no certificate: --certificate FILE says which" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model": "judge-b"}, "judged by judge-b, and the certificate is of judge-a"),
        ({"prompt": "p2"}, "prompt or rubric differ (p2, certified: p1)"),
    ],
)
def test_it_expires_with_model_and_prompt(capsys, judged, change, why):
    run, _, _ = judged
    judgements("other.jsonl", **change)
    summary = applied(capsys, run, "other.jsonl")
    found = summary["acceptance"]["ok"]
    assert (found["accepted"], found["to_people"]) == (0, CASES)
    assert any(
        f"cert.json does not apply to {CASES} judgements, and they go to people: {why}" in line
        for line in summary["warnings"]
    )
    assert len(output_of(capsys, "export", "--what", "review").splitlines()) == CASES


def test_abstentions_and_signals_that_lack_go_to_people(capsys, judged):
    run, rows, _ = judged
    rows[0] |= {"value": None}
    rows[1] = {key: value for key, value in rows[1].items() if key != "confidence"}
    lines("gaps.jsonl", rows)
    found = applied(capsys, run, "gaps.jsonl")["acceptance"]["ok"]
    assert found["why"]["the judge abstained"] == 1
    assert found["why"]["its confidence cannot be computed: the judgement states none"] == 1


def test_a_calibrated_confidence_is_applied_with_its_calibrator(capsys, judged):
    run, rows, _ = judged
    joined = ("--dimension", "ok", "--labels", "labels.jsonl")
    output_of(
        capsys,
        "trust",
        "calibrate",
        *joined,
        "--method",
        "isotonic",
        "--features",
        "verbalized_confidence",
        "--output",
        "cal.json",
    )
    calibrated = ("--confidence", "calibrated", "--calibration", "cal.json", "--output", "cert.json")
    found = json.loads(output_of(capsys, "trust", "certify", *joined, *calibrated, "--json"))
    assert found["calibration"]["models"] == "out of fold"
    Path("cal.json").unlink()  # the certificate holds what it takes
    summary = applied(capsys, run)["acceptance"]["ok"]
    # The run is the one it was fitted on: each judgement has the model without its group, as was certified.
    assert summary["accepted"] == found["n_accepted"]
    exported = [json.loads(line) for line in output_of(capsys, "export", "--what", "judgements").splitlines()]
    assert [row["confidence"] for row in exported] == [row["confidence"] for row in rows]  # as it was stated


def test_the_exported_confidence_is_that_of_the_certificate_where_none_is_stated(capsys, judged):
    run, rows, _ = judged
    lines("unstated.jsonl", ({key: row[key] for key in row if key != "confidence"} for row in rows))
    output_of(capsys, "trust", "import", run, "unstated.jsonl", "--quiet")
    joined = ("--dimension", "ok", "--labels", "labels.jsonl")
    found = json.loads(
        output_of(capsys, "trust", "certify", *joined, "--epsilon", "0.2", "--output", "cert.json", "--json")
    )
    assert (found["confidence"], found["confidence_choice"]["among"]) == ("verbalized", 2)
    applied(capsys, run, "unstated.jsonl")
    exported = [json.loads(line) for line in output_of(capsys, "export", "--what", "judgements").splitlines()]
    words = [(row["signals"]["verbalized_confidence"] - 1) / 4 for row in rows]
    assert [row["confidence"] for row in exported] == words
    items = output_of(capsys, "export", "--what", "items", "--labels", "labels.jsonl")
    assert [json.loads(line)["confidence"] for line in items.splitlines()] == words


def test_the_exported_confidence_may_be_named(capsys, judged):
    _, rows, _ = judged
    for what, more in (("judgements", ()), ("items", ("--labels", "labels.jsonl"))):
        text = output_of(capsys, "export", "--what", what, "--confidence", "verbalized", *more)
        words = [(row["signals"]["verbalized_confidence"] - 1) / 4 for row in rows]
        assert [json.loads(line)["confidence"] for line in text.splitlines()] == words
        lacking = output_of(capsys, "export", "--what", what, "--confidence", "token_msp", *more)
        assert {json.loads(line)["confidence"] for line in lacking.splitlines()} == {None}
    for arguments, why in (
        (("--what", "judgements", "--confidence", "verbalised"), 'Did you mean "verbalized"'),
        (("--what", "judgements", "--confidence", "calibrated"), "needs a calibrator"),
        (("--confidence", "verbalized"), "goes only with --what judgements and items"),
    ):
        assert run_command(["export", *arguments]) == 2
        assert why in capsys.readouterr().err


def test_a_suite_names_it_and_gates_ask_for_a_share(capsys, judged):
    run, _, _ = judged
    Path("suite.yaml").write_text(
        "cases: cases.jsonl\nmetrics: [jaccard]\njudge: {certificate: cert.json}\n"
        "gates: {accepted: {at_least: 0.3}, ok.accepted: {at_least: 0.95}}\n"
    )
    run = json.loads(
        output_of(capsys, "score", "suite.yaml", "--outputs", "outputs.jsonl", "--json", code=4)
    )["run"]
    summary = json.loads(output_of(capsys, "trust", "import", run, "j.jsonl", "--json"))
    gates = {gate["gate"]: gate for gate in summary["gates"]}
    share = summary["acceptance"]["ok"]["accepted"] / CASES
    assert gates["accepted ≥ 0.3"]["answer"] == "pass"
    assert gates["accepted ≥ 0.3"]["value"] == pytest.approx(share)
    assert gates["ok.accepted ≥ 0.95"]["answer"] == "fail"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"threshold": 0.5, "epsilon": 0.1, "delta": 0.1, "confidence": "x"}', "made from a file of items"),
        ('{"some": "thing"}', "is no certificate"),
        ("[1]", "is no certificate"),
        (
            '{"threshold": "x", "epsilon": 1, "dimension": "ok", "judged_by": {"models": [], "prompts": []}}',
            "cert",
        ),
    ],
)
def test_what_is_no_certificate_is_refused(capsys, judged, text, why):
    run, _, _ = judged
    Path("cert.json").write_text(text)
    code, _, err = run_trust(capsys, "import", run, "j.jsonl", "--certificate", "cert.json")
    assert (code, why in err) == (2, True)
    assert run_command(["export", "--what", "review", "--certificate", "cert.json"]) == 2
    assert why in capsys.readouterr().err
    Path("suite.yaml").write_text("cases: cases.jsonl\njudge: {certificate: cert.json}\n")
    assert run_command(["score", "suite.yaml", "--outputs", "outputs.jsonl"]) == 2


def test_two_certificates_of_one_dimension_are_refused(capsys, judged):
    run, _, _ = judged
    code, _, err = run_trust(
        capsys, "import", run, "j.jsonl", "--certificate", "cert.json", "--certificate", "cert.json"
    )
    assert (code, 'two certificates are of "ok"' in err) == (2, True)


@pytest.mark.parametrize("gate", ["accepted", "clarity.accepted"])
def test_a_gate_on_the_share_accepted_needs_a_certificate(capsys, judged, gate):
    Path("suite.yaml").write_text(f"cases: cases.jsonl\ngates: {{{gate}: {{at_least: 0.3}}}}\n")
    assert run_command(["score", "suite.yaml", "--outputs", "outputs.jsonl"]) == 2
    assert f"gates.{gate}: no certificate says what is accepted" in capsys.readouterr().err
    Path("suite.yaml").write_text("cases: cases.jsonl\ngates: {clarty.accepted: {at_least: 0.3}}\n")
    assert run_command(["score", "suite.yaml", "--outputs", "outputs.jsonl"]) == 2
    assert 'Did you mean "clarity"' in capsys.readouterr().err


def test_the_largest_group_is_that_of_the_run_and_a_larger_one_of_a_later_run_is_noticed(capsys, judged):
    _, rows, certified = judged
    assert (certified["group_size"], certified["group_size_from"]) == (1, "run")
    # The last thirty answers are of one document, and nobody has labelled them.
    group = {f"c{n}": "large" if n >= 90 else f"d{n}" for n in range(CASES)}
    lines("cases.jsonl", ({"id": c, "input": "q", "references": ["a"], "group": g} for c, g in group.items()))
    score = ("score", "cases.jsonl", "--outputs", "outputs.jsonl", "--metrics", "jaccard", "--json")
    run = json.loads(output_of(capsys, *score))["run"]
    accepted = sum(row["confidence"] >= certified["threshold"] for row in rows[90:])
    assert accepted > 1
    assert any(
        "ok: 1 group has more accepted judgements than cert.json holds for" in warning
        for warning in applied(capsys, run)["warnings"]
    )
    labels = [json.loads(line) for line in Path("labels.jsonl").read_text().splitlines()]
    lines("few.jsonl", labels[:90])
    certify = ("certify", "--dimension", "ok", "--labels", "few.jsonl", "--epsilon", "0.3")
    code, out, _ = run_trust(capsys, *certify, "--json")
    found = json.loads(out)
    assert (found["group_size"], found["group_size_from"], found["groups"]) == (30, "run", 90)
    assert (found["method"], code) == ("betting", 1)
    code, _, err = run_trust(capsys, *certify, "--group-size", "29")
    assert (code, "group_size is 29, and a group of the run has 30 verdicts" in err) == (2, True)
