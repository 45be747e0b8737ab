from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import comparison_samples, moved_case_samples, samples
from tests.reports.hostile_samples import hostile_summary, hostile_view
from trivium.reports.junit import comparison_junit, junit_parts

ALLOWED = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def parsed(summary=None, views=None):
    views = samples.views() if views is None else views
    return ET.fromstring("".join(junit_parts(summary or samples.summary(views), views)).encode())


def compared():
    comparison = comparison_samples.comparison(moved_cases=moved_case_samples.calm())
    return ET.fromstring("".join(comparison_junit(comparison)).encode())


@pytest.mark.parametrize("written", [parsed, compared])
def test_counts_at_the_head_are_those_of_the_tests_below(written):
    root = written()
    assert int(root.get("tests")) == len(root.findall(".//testcase")) > 2
    for counted in (root, *root):
        assert int(counted.get("tests")) == len(list(counted.iter("testcase")))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(counted.get(attribute)) == len(list(counted.iter(tag)))


def test_elements_stand_where_junit_has_them():
    for element in parsed(hostile_summary(), [hostile_view(n) for n in range(20)]).iter():
        assert {child.tag for child in element} <= ALLOWED.get(element.tag, set())


def test_every_test_has_name_class_and_time():
    for case in parsed().iter("testcase"):
        assert case.get("name")
        assert case.get("classname")
        assert float(case.get("time")) >= 0


def test_an_attempt_that_failed_is_an_error_and_one_that_did_not_pass_a_failure():
    views = [
        samples.view(0),
        msgspec.structs.replace(samples.view(1), passed=True),
        msgspec.structs.replace(samples.view(2), passed=None),
        msgspec.structs.replace(samples.view(3), passed=False, why="similarity 0.2, 0.8 is needed"),
        samples.view(6),
    ]
    root = parsed(samples.summary(views, missing=0), views)
    cases = {
        name_of(case): [child.tag for child in case if child.tag != "system-out"]
        for case in root[0].iter("testcase")
    }
    assert cases["paper-101 #1"] == []
    assert cases["paper-102"] == ["skipped"]
    assert cases["paper-102 #1"] == ["failure"]
    assert cases["paper-104"] == ["error"]
    assert "similarity 0.2, 0.8 is needed" in [failure.get("message") for failure in root[0].iter("failure")]


def name_of(case):
    """Case and repeat of a test, without the beginning of the input."""
    return case.get("name").partition(": ")[0]


def test_a_test_is_named_by_its_case_and_the_beginning_of_the_question():
    view = samples.view(1)
    asked = msgspec.structs.replace(view, case=msgspec.structs.replace(view.case, input="Why <b>\nnow?"))
    chat = msgspec.structs.replace(view, case=msgspec.structs.replace(view.case, input={"text": "w" * 999}))
    names = [case.get("name") for case in parsed(views=[asked, chat]).iter("testcase")]
    assert names[0] == "paper-101 #1: Why <b> now?"
    assert names[1].startswith('paper-101 #1: {"text": "www')
    assert len(names[1]) == len("paper-101 #1: ") + 100


def test_a_suite_prints_the_report_of_the_run():
    (report,) = parsed()[0].findall("system-out")
    words = " ".join(report.text.split())
    assert "95 % interval" in words
    assert "pass_rate at least 0.85" in words
    assert "cosine" in words


def test_input_and_output_are_listed_with_the_scores():
    view = samples.view(1)
    root = parsed(views=[view])
    system_out = root.find(".//testcase/system-out").text
    assert f"input: {view.case.input}\n" in system_out
    assert system_out.endswith(f"output: {view.attempt.output}")
    assert "cosine: " in system_out


def test_missing_attempts_are_an_error_of_their_own():
    found = parsed(samples.summary(missing=3, total_tests=27)).find(
        ".//testcase[@name='missing attempts']/error"
    )
    assert found.get("message") == "3 of 27 expected attempts are missing"


def test_an_inconclusive_gate_is_skipped_with_its_reason():
    gates = parsed()[1]
    assert [child.tag for case in gates for child in case] == ["system-out", "failure", "skipped"]
    assert "160 more cases" in gates[2][0].get("message")


def test_without_gates_there_is_no_suite_of_gates():
    assert len(parsed(samples.summary(gates=()))) == 1


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=60))
def test_any_text_gives_well_formed_xml_that_says_it(text):
    view = samples.view(0)
    view = msgspec.structs.replace(
        view, attempt=msgspec.structs.replace(view.attempt, error=text), passed=False
    )
    root = parsed(samples.summary([view], suite=text, missing=0), [view])
    message = root.find(".//error").get("message")
    if text.isprintable():
        assert message == text


def test_an_endless_reason_is_cut_with_a_count():
    view = msgspec.structs.replace(samples.view(1), passed=False, why="w" * 1_000_000)
    message = parsed(samples.summary([view]), [view]).find(".//failure").get("message")
    assert message.endswith("… (996,000 further characters)")


def test_the_output_of_a_test_has_input_expected_and_actual_text():
    view = samples.view(0)
    case = msgspec.structs.replace(
        view.case, input="What?", references=("<b>one</b>", "\x1b[31mtwo", "3", "4")
    )
    shown = msgspec.structs.replace(
        view, case=case, attempt=msgspec.structs.replace(view.attempt, output="z" * 10_000), passed=False
    )
    text = parsed(samples.summary([shown]), [shown]).find(".//testcase/system-out").text
    order = [
        "input: What?",
        "expected: <b>one</b>",
        "expected: \N{SYMBOL FOR ESCAPE}[31mtwo",
        "and 1 more",
        "output: zzz",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert len(text) < 6_000


def test_an_expected_output_goes_before_references():
    view = samples.view(0)
    case = msgspec.structs.replace(view.case, expect=msgspec.structs.replace(view.case.expect, output="only"))
    shown = msgspec.structs.replace(view, case=case)
    text = parsed(samples.summary([shown]), [shown]).find(".//testcase/system-out").text
    assert text.count("expected: ") == 1
    assert "expected: only" in text


def test_a_metric_that_does_not_apply_has_no_line():
    view = samples.view(4)
    skipped = {name for name, score in view.scores.items() if score.value is None}
    text = parsed(samples.summary([view]), [view]).find(".//testcase/system-out").text
    assert skipped
    assert not skipped & {line.partition(": ")[0] for line in text.splitlines()}
    assert "time: " in text
