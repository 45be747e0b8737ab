"""The JSON interface: what it answers, that its description is right, and that nothing breaks it."""

import json
import time
from itertools import product
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans
from litestar.testing import TestClient
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

import trivium as tv
from tests.labels.labelled import judged, label_all
from tests.otlp_requests import agent_trace, body
from tests.web.conftest import LOOPBACK
from trivium.errors import InputError, StoreError
from trivium.labels.queue import LabelQueues
from trivium.store.audit import audit_log
from trivium.store.live_alerts import add_mark
from trivium.store.tokens import Tokens
from trivium.web.app import create_app
from trivium.web.security import Access
from trivium.web.services import Services

DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"
TRACE = bytes(range(16))


@pytest.fixture
def scored(client):
    return after_three(client)


@pytest.fixture(scope="module")
def read(shared_client):
    """A client of a server that has scored three interactions, for tests that only read."""
    return after_three(shared_client)


def after_three(client):
    """The client, after its server has scored three interactions."""
    for number in range(3):
        client.services.intake.receive(
            body(agent_trace(TRACE[:15] + bytes([number]), start=time.time_ns())), "protobuf"
        )
    now = time.time() + 1
    client.services.completer.complete(now)
    client.services.scorers[0].score_all(now)
    return client


def test_monitors_are_named(scored, store):
    add_mark(store, "other", now=0)
    assert scored.get("/api/v1/monitors").json() == {"monitors": ["support"], "scoring": ["support"]}


def test_the_status_is_that_of_the_command_line(read):
    status = read.get("/api/v1/monitors/support/status").json()
    assert status["monitor"] == "support"
    assert (status["sample_count"], status["pass_rate"]) == (3, 1.0)


def test_samples_come_in_pages_newest_first(read):
    first = read.get("/api/v1/monitors/support/samples", params={"limit": 2}).json()
    second = read.get("/api/v1/monitors/support/samples", params={"limit": 2, "before": first["next"]}).json()
    numbers = [sample["number"] for page in (first, second) for sample in page["samples"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 3
    assert second["next"] is None


def test_a_deployment_is_marked_and_audited(scored, store):
    made = scored.post("/api/v1/monitors/support/marks", json={"version": "1.2", "note": ""})
    assert made.status_code == 201
    assert (made.json()["kind"], made.json()["version"], made.json()["note"]) == ("deployment", "1.2", None)
    assert scored.get("/api/v1/monitors/support/marks").json()["marks"] == [made.json()]
    (entry,) = audit_log(store)
    assert (entry.action, entry.actor) == ("deployment marked", "unknown")


def test_the_audit_log_names_the_token(connect, store):
    token, secret = Tokens(store).create("ci", ["admin"], now=time.time(), actor="tests")
    client = connect(Access(tokens=True))
    client.headers["authorization"] = f"Bearer {secret}"
    client.post("/api/v1/monitors/support/marks", json={"version": "1.2"})
    page = client.get("/api/v1/audit", params={"limit": 1}).json()
    assert page["entries"][0]["actor"] == f"token {token.id} ci"
    rest = client.get("/api/v1/audit", params={"limit": 1, "before": page["next"]}).json()
    assert rest["entries"][0]["action"] == "token created"


def test_counts_of_the_intake_are_by_reason(read):
    counts = read.get("/api/v1/intake").json()["counts"]
    assert {"monitor": "", "event": "received", "reason": "", "number": 9} in counts
    assert read.get("/api/v1/intake", params={"since": time.time() + 7200}).json()["counts"] == []


def test_it_says_why_a_trace_has_a_score_or_none(read):
    (reason,) = read.get(f"/api/v1/traces/{TRACE.hex()[:-2]}00").json()["reasons"]
    assert (reason["state"], reason["monitor"]) == ("scored", "support")
    (reason,) = read.get("/api/v1/traces/unknown").json()["reasons"]
    assert reason["state"] == "unknown"


def test_alerts_are_listed(read):
    assert read.get("/api/v1/monitors/support/alerts", params={"firing": True}).json() == {"alerts": []}


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("monitors/suport/status", 404, 'Did you mean "support"'),
        ("monitors/support/samples?limit=0", 400, "limit"),
        ("monitors/support/samples?before=x", 400, "before"),
    ],
)
def test_mistakes_are_said(read, path, status, said):
    response = read.get(f"/api/v1/{path}")
    assert response.status_code == status
    assert said in response.json()["message"]


def test_a_body_that_is_wrong_or_too_large_is_refused(client):
    path = "/api/v1/monitors/support/marks"
    assert client.post(path, json={"versoin": "1"}).status_code == 400
    assert client.post(path, content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert client.post(path, json={"note": "x" * 70_000}).status_code == 413


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (StoreError("it is locked"), 503, "unavailable"),
        (InputError("", "odd"), 400, "bad_request"),
        (ValueError("trv_secret"), 500, "internal"),
    ],
)
def test_failures_have_the_same_shape_and_tell_no_secret(client, monkeypatch, error, status, word):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("trivium.web.api_monitors.status_of", fail)
    response = client.get("/api/v1/monitors/support/status")
    assert (response.status_code, response.json()["error"]) == (status, word)
    assert "trv_secret" not in response.text
    assert ("retry-after" in response.headers) == (status == 503)


def test_the_description_is_the_one_in_the_docs(client):
    served, written = client.get("/api/v1/openapi.json").json(), json.loads(DESCRIPTION.read_text())
    assert served == written, "python -m tests.web.test_api writes it anew"


CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def answers(operation, mode, checks, known_ids) -> set[tuple[str, int]]:
    """Statuses that an operation answers made-up requests with, each of which is checked."""
    found = set()

    @settings(
        max_examples=5,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=booleans())
    def examples(case, known) -> None:
        if known and "monitor" in case.path_parameters:
            case.path_parameters["monitor"] = "support"
        if known:
            take_known(case, known_ids)
        found.add((operation.label, case.call_and_validate(checks=checks).status_code))

    examples()
    return found


def take_known(case, ids: dict[str, str]) -> None:
    """Ask for a run, a case, and a queue with an item or with labels, that are there."""
    if case.path.endswith(("/agreement", "/certificate")):
        case.path_parameters = {name: ids[f"labelled {name}"] for name in case.path_parameters}
        if "dimension" in case.query:
            case.query["dimension"] = "clarity"
        return
    if "queue" in case.path_parameters and isinstance(case.body, dict):
        case.path_parameters["queue"] = ids["queue"]
        case.body["by"] = "ann"
        if "place" in case.body:
            case.body |= {"place": 1, "answer": "skip"}
    for name in {"run", "base", "head"} & set(case.path_parameters):
        case.path_parameters[name] = "live"
    if case.path.endswith("/attempts"):
        case.query.pop("after", None)
    if "id" in case.query:
        case.query["id"] = TRACE[:15].hex() + "00"
        case.query.pop("repeat", None)


def ids_of(store) -> dict[str, str]:
    """A queue that has given out its first item, a queue that is labelled, and its run."""
    suite = {"name": "s", "cases": [{"id": "a", "input": "q", "references": ["r"]}], "metrics": ["success"]}
    run = tv.evaluate(suite, agent=lambda q: "r", store=store)
    queues = LabelQueues(store)
    queue = queues.create(run.record, "success", by="test")
    queues.next(queue.id, "ann")
    record = judged(store, 20)
    labelled = queues.create(record, "clarity", by="ann", seed=3)
    label_all(queues, labelled, "ann", lambda case: float(int(case[1:]) % 2))
    return {"queue": queue.id, "labelled run": record.id, "labelled queue": labelled.id}


@pytest.mark.cpu(12, "schemathesis tries every address")
def test_nothing_breaks_it_and_every_answer_is_described(scored, store):
    load_all_checks()
    checks = [CHECKS.get_one(name) for name in CHECKED]
    app = create_app(scored.services, Access(names=frozenset({"testserver"})))
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 20
    answered, ids = set(), ids_of(store)
    for operation, mode in product(operations, GenerationMode):
        can_be_wrong = bool(operation.query.items or operation.body)
        if mode is GenerationMode.POSITIVE or can_be_wrong:
            answered |= answers(operation, mode, checks, ids)
    succeeded = {label for label, status in answered if status < 300}
    assert succeeded == {operation.label for operation in operations}
    assert {status for _, status in answered} == {200, 201, 400, 404, 431}


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    from trivium.store.store import Store

    with TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/store.db") as empty:
        services = Services(empty)
        with TestClient(create_app(services), base_url=LOOPBACK) as client:
            document = client.get("/api/v1/openapi.json").json()
        services.stop()
    DESCRIPTION.write_text(json.dumps(document, indent=1) + "\n")
