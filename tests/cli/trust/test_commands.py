"""The trust commands as a user types them: what they list, print and write."""

import csv
import json
import random
import re
from html import unescape
from pathlib import Path

import click
import pytest

from tests.cli.trust.trust_commands import answer, items, run_trust
from trivium.cli.main import run_command
from trivium.cli.trust import COMMANDS, trust


def test_every_trust_command_says_in_the_overview_what_it_does():
    context = click.Context(trust)
    for name, (_, line) in COMMANDS.items():
        command = trust.get_command(context, name)
        assert command is not None
        assert command.help
        assert line.endswith(".")
    assert trust.get_command(context, "nothing") is None


def test_every_option_of_theirs_has_an_environment_variable():
    context = click.Context(trust)
    for name in COMMANDS:
        for parameter in trust.get_command(context, name).params:
            if isinstance(parameter, click.Option):
                assert str(parameter.envvar).startswith("TRIVIUM_"), (name, parameter.name)


def test_equal_inputs_give_equal_bytes(capsys):
    made = [run_trust(capsys, "curve", items(), "--created-at", "now", "--json")[1] for _ in range(2)]
    assert made[0] == made[1]


def test_no_number_in_json_is_not_finite(capsys):
    text = run_trust(capsys, "curve", items(3), "--json")[1]
    assert not re.search(r"\b(NaN|Infinity)\b", text)


def test_tables_say_what_a_reader_must_know(capsys):
    _, out, _ = run_trust(capsys, "curve", items(8))
    assert "8 groups: an interval of so few does not hold" in out
    assert "95 % interval" not in out
    assert "the range 0 to 1 was seen" in out
    _, out, _ = run_trust(capsys, "curve", items(1), "--range", "0:1")
    assert "one group" in out
    assert "none" in out
    _, out, _ = run_trust(capsys, "curve", items(15), "--range", "0:1")
    assert "15 groups: intervals of fewer than 20" in out


def test_one_confidence_for_all_ranks_nothing(capsys):
    found = answer(capsys, "curve", items(30, confidence=0.5), "--range", "0:1")
    assert any("every prediction has the same confidence" in warning for warning in found["warnings"])
    entry = found["confidence_variants"]["confidence"]
    assert entry["aurc_full"] == pytest.approx(
        entry["curve"]["selective_risk"][0]
    )  # a flat curve over [0, 1]


def test_nothing_predicted_is_null_with_a_reason(capsys):
    found = answer(capsys, "curve", items(5, pred=None), "--range", "0:1", "--confidence", "llm")
    entry = found["confidence_variants"]["llm"]
    assert (entry["aurc_full"], entry["augrc_full"], entry["cmax"]) == (None, None, 0.0)
    assert entry["bootstrap"]["ci95"]["aurc_full"] is None
    assert entry["reason"] == "no item has a prediction"
    assert any("no item has a prediction" in warning for warning in found["warnings"])
    _, out, _ = run_trust(capsys, "curve", "items.jsonl", "--confidence", "llm")
    assert "–" in out


def test_no_error_at_all_has_no_gap_to_speak_of(capsys):
    found = answer(capsys, "curve", items(30, pred=1, gt=1), "--range", "0:1")
    assert found["confidence_variants"]["confidence"]["interpretation"]["aurc_gap_pct"] is None


def test_a_coverage_far_beyond_the_requested_one_is_reported(capsys):
    lines = [
        {"group": f"g{i}", "item": "x", "pred": 1, "gt": i % 2, "confidence": i // 13} for i in range(30)
    ]
    Path("ties.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = answer(capsys, "curve", "ties.jsonl", "--range", "0:1", "--coverage-grid", "0.1,0.2,0.9")
    # 4 of 30 are surest, then 17, then all: 20 % asked for is 56.7 % answered.
    assert any(
        "of the most confident 20 % is that of the most confident 56.7 %" in line
        for line in found["warnings"]
    )
    assert "ties make" not in run_trust(capsys, "curve", items(), "--range", "0:1")[1]


def test_coverages_that_round_alike_are_distinguished(capsys):
    found = answer(capsys, "curve", items(), "--range", "0:1", "--coverage-grid", "0.12,0.125,0.5")
    assert list(found["confidence_variants"]["confidence"]["mae_at_coverage"]) == ["0.12", "0.125", "0.50"]


@pytest.mark.parametrize("method", ["percentile", "bca", "expanded"])
def test_intervals_are_made_as_asked(capsys, method):
    found = answer(
        capsys, "curve", items(), "--range", "0:1", "--interval", method, "--bootstrap-resamples", "400"
    )
    entry = found["confidence_variants"]["confidence"]
    assert method in entry["bootstrap"]["method"]
    low, high = entry["bootstrap"]["ci95"]["aurc_full"]
    assert low < entry["aurc_full"] < high


@pytest.mark.parametrize("loss", ["abs", "abs_norm", "zero_one"])
def test_losses_are_named_with_their_unit(capsys, loss):
    lines = [
        {"group": str(i), "item": "x", "pred": 3 - i % 4, "gt": i % 4, "confidence": i / 40}
        for i in range(40)
    ]
    Path("wide.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = answer(capsys, "curve", "wide.jsonl", "--range", "0:3", "--loss", loss)
    assert found["loss"]["name"] == loss
    mean = found["confidence_variants"]["confidence"]["curve"]["selective_risk"][-1]
    assert mean == pytest.approx({"abs": 2.0, "abs_norm": 2 / 3, "zero_one": 1.0}[loss])


def test_failed_groups_are_reported_with_the_coverage_without_them(capsys):
    name = items(30, pred=1)
    with Path(name).open("a") as file:
        file.writelines(json.dumps({"group": f"f{i}", "success": False}) + "\n" for i in range(10))
    found = answer(capsys, "curve", name, "--range", "0:1")
    assert found["population"]["cmax"] == 1.0
    assert found["population"]["cmax_failed_abstained"] == 30 / 40
    assert any("10 of 40 groups failed" in line and "75.0 %" in line for line in found["warnings"])
    found = answer(capsys, "curve", "--input", name, "--input", name, "--range", "0:1")
    assert found["population"]["cmax_failed_abstained"] == [30 / 40] * 2


def test_json_answers_have_the_documented_keys(capsys):
    name = items(40)
    certified = {"threshold", "n_accepted", "coverage", "error_bound", "epsilon", "delta", "method"}
    assert answer(capsys, "certify", name).keys() >= certified
    found = answer(capsys, "agree", name)
    assert found["n"] == 40
    for figure in ("exact", "within_one", "kappa", "kappa_quadratic", "alpha_ordinal", "spearman", "kendall"):
        assert found[figure].keys() >= {"value", "ci95"}
    fitted = {"schema_version", "method", "features", "target", "training_metadata", "model", "metrics"}
    assert answer(capsys, "calibrate", name).keys() >= fitted


def test_from_a_run_to_a_certificate(capsys):
    draw = random.Random(2)
    numbers = range(80)
    Path("cases.jsonl").write_text(
        "".join(json.dumps({"id": f"c{i}", "input": "q", "references": ["a"]}) + "\n" for i in numbers)
    )
    Path("outputs.jsonl").write_text(
        "".join(json.dumps({"case": f"c{i}", "output": "a"}) + "\n" for i in numbers)
    )
    truths = [float(draw.random() < 0.5) for _ in numbers]
    judgements = [
        {
            "case": f"c{i}",
            "dimension": "ok",
            "value": truths[i] if i % 10 else 1 - truths[i],
            "confidence": i % 10 / 10,
        }
        for i in numbers
    ]
    Path("j.jsonl").write_text("".join(json.dumps(line) + "\n" for line in judgements))
    labels = [{"case": f"c{i}", "dimension": "ok", "value": truths[i]} for i in numbers if i < 60]
    with Path("l.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["case", "dimension", "value"])
        writer.writeheader()
        writer.writerows(labels)
    assert (
        run_command(["score", "cases.jsonl", "--outputs", "outputs.jsonl", "--metrics", "jaccard", "--json"])
        == 0
    )
    run = json.loads(capsys.readouterr().out)["run"]
    code, out, _ = run_trust(capsys, "import", run, "j.jsonl", "--json")
    assert (code, json.loads(out)["metrics"]["ok"]["n"]) == (0, 80)
    joined = ("--dimension", "ok", "--labels", "l.csv")
    assert answer(capsys, "certify", *joined)["threshold"] == pytest.approx(0.1)
    agreed = answer(capsys, "agree", *joined)
    assert agreed["corrected"]["labelled"] == 60
    assert agreed["corrected"]["unlabelled"] == 20
    assert agreed["corrected_rate"]["sensitivity"] is not None
    assert "Over all 80 judged" in run_trust(capsys, "agree", *joined)[1]
    assert "Rogan–Gladen" in run_trust(capsys, "agree", *joined)[1]
    assert (
        run_command(
            ["export", "--what", "items", "--labels", "l.csv", "--output", "i.csv", "--format", "csv"]
        )
        == 0
    )
    assert answer(capsys, "curve", "i.csv", "--range", "0:1")["population"]["items_total"] == 60


def test_pictures_and_a_page_are_written(capsys):
    name = items(30)
    files = ("--chart", "c.svg", "--html", "p.html")
    code, _, err = run_trust(capsys, "curve", name, *files)
    assert (code, err) == (0, "wrote c.svg\nwrote p.html\n")
    assert run_trust(capsys, "curve", name, "--chart", "c.png")[0] == 0
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_agree_and_certify_write_pages_that_begin_with_their_conclusion(capsys):
    name = items(60)
    for command in ("agree", "certify"):
        code, out, err = run_trust(capsys, command, name, "--html", f"{command}.html")
        assert (code, err) == (0, f"wrote {command}.html\n")
        page = Path(f"{command}.html").read_text(encoding="utf-8")
        conclusion = page.split('aria-label="Conclusion"')[1].split("</section>")[0]
        said = " ".join(out.split())
        first = unescape(re.findall(r"<bdi>(.+?)</bdi>", conclusion)[0])
        assert said.startswith(first)
        assert page.index("Conclusion") < page.index("<h2>")
    assert "decide without a person" in Path("agree.html").read_text(encoding="utf-8")


def test_duplicate_items_are_reported_and_each_is_counted(capsys):
    once = Path(items(20)).read_text()
    Path("twice.jsonl").write_text(once + once.splitlines()[3] + "\n")
    message = (
        "twice.jsonl: 1 of 21 items have the group and the name of an earlier one (the first in line 21)"
    )
    found = answer(capsys, "curve", "twice.jsonl", "--range", "0:1")
    assert [each for each in found["warnings"] if each.startswith(message)]
    assert found["population"]["items_total"] == 21
    for command in (("agree",), ("certify",), ("calibrate", "--output", "c.json")):
        found = json.loads(run_trust(capsys, command[0], "twice.jsonl", *command[1:], "--json")[1])
        assert any("1 of 21 items have the group and the name" in each for each in found["warnings"])
    Path("apart.jsonl").write_text(once + once.replace('"x"', '"y"'))
    assert not any("an earlier one" in each for each in answer(capsys, "curve", "apart.jsonl")["warnings"])


def test_one_group_is_a_group(capsys):
    path = items(1)
    for command in ("curve", "agree", "certify"):
        out = " ".join(run_trust(capsys, command, path)[1].split())
        assert "1 group" in out
        assert "1 groups" not in out
        assert "1 items" not in out


@pytest.mark.parametrize("command", ["curve", "calibrate", "certify", "agree"])
def test_items_are_named_by_the_argument_or_by_input(capsys, command):
    path = items(40)
    more = (
        ["--bootstrap-resamples", "20", "--created-at", "2026-01-01T00:00:00Z"] if command == "curve" else []
    )
    assert answer(capsys, command, "--input", path, *more) == answer(capsys, command, path, *more)
    code, _, err = run_trust(capsys, command, path, "--input", path)
    assert (code, "either as ITEMS or with --input" in err) == (2, True)
