"""A certificate expires by its conditions, by labels that contradict it, or by other confidences."""

import json

import pytest

from tests.labels.labelled import label_all
from tests.runs.judged_runs import judged_run, judgement
from trivium.cli.main import run_command
from trivium.errors import InputError
from trivium.labels.drift import check_certificate
from trivium.labels.queue import LabelQueues
from trivium.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def judged(store, *, cases=60, sure=0.5, model="m"):
    """A judge that says 1.0 of everything, and is confident in a share of the cases."""
    scores = {
        f"c{place}": [
            judgement(
                1.0,
                detail={"confidence": 0.9 if place < sure * cases else 0.1, "model": model, "prompt": "p"},
            )
        ]
        for place in range(cases)
    }
    return judged_run(store, scores).record


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "certificate.json"
    judged_by = {"models": ["m"], "prompts": ["p"], "rubrics": {}, "scale": None, "step": None}
    found.write_text(
        json.dumps(
            {
                "dimension": "clarity", "confidence": "confidence", "threshold": 0.5, "epsilon": 0.1,
                "delta": 0.1, "judged_by": judged_by | {"samples": None}, "coverage": 0.5, "groups": 100,
            }
        )
    )  # fmt: skip
    return found


def label(store, run, wrong):
    """Label everything; this many of the accepted judgements are wrong."""
    queues = LabelQueues(store)
    queue = queues.create(run, "clarity", by="ann")
    label_all(queues, queue, "ann", lambda case: float(int(case[1:]) >= wrong))


def test_a_certificate_that_labels_and_confidences_confirm_holds(store, path):
    run = judged(store)
    label(store, run, wrong=3)
    found = check_certificate(store, path, run)
    assert found.expired == ()
    assert (found.judgements, found.accepted, found.labelled, found.wrong) == (60, 30, 30, 3)


def test_labels_that_contradict_it_end_it(store, path):
    """P(at least 9 of 30 wrong | 10 %) is 0.2 %; of 6 it is 7 %."""
    run = judged(store)
    label(store, run, wrong=9)
    (why,) = check_certificate(store, path, run).expired
    assert why == "9 of 30 accepted judgements are wrong by people's labels; it promises at most 10 %"
    other = judged(store)
    label(store, other, wrong=6)
    assert check_certificate(store, path, other).expired == ()


def test_other_confidences_end_it(store, path):
    (why,) = check_certificate(store, path, judged(store, sure=0.2)).expired
    assert why.startswith("it accepts 20 % of the judgements, and accepted 50 % of 100")
    assert check_certificate(store, path, judged(store, sure=0.45)).expired == ()


def test_another_model_ends_it_and_says_so(store, path):
    (why,) = check_certificate(store, path, judged(store, model="other")).expired
    assert why == "60 judgements: judged by other, and the certificate is of m"


def test_without_labels_it_says_how_to_get_some(store, path):
    (note,) = check_certificate(store, path, judged(store)).notes
    assert "trivium label run-" in note


def test_a_run_without_such_judgements_is_refused(store, path):
    run = judged_run(store, {"c0": [judgement(1.0, name="tone")]}).record
    with pytest.raises(InputError, match='no judgement of "clarity"'):
        check_certificate(store, path, run)


def test_the_exit_code_says_whether_it_holds(store, path, capsys, tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    for sure, code in ((0.5, 0), (0.1, 1)):
        run = judged(store, sure=sure)
        assert run_command(["label", "check", str(path), run.id, "--store", url]) == code
        out = capsys.readouterr().out
        assert ("has expired" in out) == bool(code)
        assert run_command(["label", "check", str(path), run.id, "--store", url, "--json"]) == code
        assert bool(json.loads(capsys.readouterr().out)["expired"]) == bool(code)
