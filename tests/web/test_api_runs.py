"""The JSON interface to runs."""

import pytest

import trivium as tv
from trivium.labels.queue import LabelQueues

CASES = [{"id": f"c/{n}", "input": f"Question {n}?", "references": [f"answer {n}"]} for n in range(8)]


@pytest.fixture(scope="module")
def runs(shared_store):
    return two_runs(shared_store)


def two_runs(store):
    """Two runs of one suite; in the first, half of the cases fail."""
    ids = []
    for good in (4, 8):

        def agent(question: str, good: int = good) -> str:
            number = int(question.split()[1][:-1])
            return f"answer {number}" if number < good else "no idea"

        suite = {"name": "facts", "cases": CASES, "metrics": ["success"], "success": {"contains": "any"}}
        ids.append(tv.evaluate(suite, agent=agent, store=store).id)
    return ids


def test_runs_are_listed_filtered_and_paged(shared_client, runs):
    first = shared_client.get("/api/v1/runs", params={"limit": 1, "sort": "pass_rate"}).json()
    assert [(run["run"], run["pass_rate"]) for run in first["runs"]] == [(runs[0], 0.5)]
    assert first["total"] == 2
    second = shared_client.get("/api/v1/runs", params={"limit": 1, "sort": "pass_rate", "start": 1}).json()
    assert [run["run"] for run in second["runs"]] == [runs[1]]
    assert shared_client.get("/api/v1/runs", params={"state": "running"}).json()["runs"] == []


def test_a_run_has_its_summary_and_its_attempts_the_worst_first(shared_client, runs):
    assert shared_client.get(f"/api/v1/runs/{runs[0]}").json()["summary"]["passed"] == 4
    first = shared_client.get(f"/api/v1/runs/{runs[0]}/attempts", params={"limit": 5}).json()
    assert [each["verdict"] for each in first["attempts"]] == ["failed"] * 4 + ["passed"]
    rest = shared_client.get(f"/api/v1/runs/{runs[0]}/attempts", params={"after": first["next"]}).json()
    assert len(rest["attempts"]) == 3
    assert rest["next"] is None


def test_an_attempt_is_answered_whole(shared_client, runs):
    found = shared_client.get(f"/api/v1/runs/{runs[0]}/attempt", params={"id": "c/5"}).json()
    assert found["case"]["references"] == ["answer 5"]
    assert found["attempt"]["output"] == "no idea"
    assert found["evaluation"]["passed"] is False


def test_a_comparison_is_that_of_the_command_line(shared_client, runs, shared_store):
    found = shared_client.get(f"/api/v1/compare/{runs[0]}/{runs[1]}").json()
    compared = tv.compare(*(tv.Run.load(each, store=shared_store) for each in runs))
    assert found["answer"] == compared.answer
    assert found["metrics"]["pass_rate"]["delta"] == compared.metrics["pass_rate"].delta == 0.5


def test_queues_of_labels_are_listed(client, store):
    runs = two_runs(store)
    queue = LabelQueues(store).create(store.run(runs[0]), "success", by="ann")
    (found,) = client.get("/api/v1/labels/queues").json()["queues"]
    assert (found["id"], found["population"]) == (queue.id, 8)


@pytest.mark.parametrize(
    "address", ["runs/none", "runs/none/attempts", "runs/{}/attempt?id=none", "compare/{}/none"]
)
def test_what_is_unknown_is_not_found(shared_client, runs, address):
    answer = shared_client.get("/api/v1/" + address.format(runs[0]))
    assert answer.status_code == 404
    assert answer.json()["error"] == "not_found"
