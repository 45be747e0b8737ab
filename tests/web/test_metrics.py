"""What Prometheus reads: valid text format, and numbers that are those of the store."""

import re
import time

from tests.monitor.samples import open_alert
from tests.otlp_requests import agent_trace, body, span
from trivium.store.live_counts import keep_spent
from trivium.web.metrics import Exposition

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'({NAME})="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Reads the text format, version 0.0.4, as strictly as its description allows."""
    assert text.endswith("\n")
    types, helps, found, family = {}, set(), {}, None
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word in {"HELP", "TYPE"}
            assert re.fullmatch(NAME, name)
            if word == "HELP":
                assert name not in helps  # all of a family are in one group
                helps.add(name)
            else:
                assert rest in {"counter", "gauge"}
                types[name] = rest
                family = name
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert match[1] == family
        assert types[family] != "counter" or family.endswith("_total")
        labels = tuple(
            (name, re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), value))
            for name, value in re.findall(LABEL, match[2] or "")
        )
        assert (match[1], labels) not in found
        found[match[1], labels] = float(match[7])
    assert set(types) == helps
    return found


def test_numbers_are_those_of_the_store(client, store):
    intake = client.services.intake
    spans = agent_trace()
    intake.receive(body(spans), "protobuf")
    intake.receive(body(spans), "protobuf")
    intake.receive(body([span(b"")]), "protobuf")
    client.post("/v1/traces", content=b"\xff", headers={"content-type": "application/x-protobuf"})
    client.get("/healthz", headers={"host": "evil.example"})
    client.services.completer.complete(time.time() + 1)
    open_alert(store, now=time.time())
    response = client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(response.text)
    support = ("monitor", "support")
    assert found["trivium_spans_received_total", ()] == 3
    assert found["trivium_spans_again_total", ()] == 3
    assert found["trivium_spans_refused_total", (("reason", "bad_id"),)] == 1
    assert found["trivium_requests_refused_total", (("reason", "unreadable"),)] == 1
    assert found["trivium_requests_refused_total", (("reason", "host"),)] == 1
    assert found["trivium_open_traces", ()] == 0
    assert found["trivium_interactions_complete_total", (support,)] == 1
    assert found["trivium_interactions_sampled_total", (support, ("rule", ""))] == 1
    assert found["trivium_samples_scored_total", (support,)] == 0
    assert found["trivium_backlog", (support,)] == 1
    assert found["trivium_backlog_age_seconds", (support,)] >= 0
    assert found["trivium_alerts_firing", (support,)] == 1
    assert found["trivium_judge_cost_usd_total", (support,)] == 0
    assert found["trivium_deliveries", (("state", "waiting"),)] == 0
    client.services.scorers[0].score_all(time.time() + 1)
    found = parsed(client.get("/metrics").text)
    assert found["trivium_samples_scored_total", (support,)] == 1
    assert found["trivium_backlog", (support,)] == 0


def test_the_cost_of_judges_counts_runs_that_are_deleted(client, store):
    with store.engine.begin() as connection:
        keep_spent(connection, "support", 1.5)
    found = parsed(client.get("/metrics").text)
    assert found["trivium_judge_cost_usd_total", (("monitor", "support"),)] == 1.5
    assert "spent" not in client.get("/api/v1/intake").text


def test_hostile_names_are_escaped():
    made = Exposition()
    name = 'a"}\n\\evil 1'
    made.add("gauge", "trivium_x", "Help.", 1.5, monitor=name)
    assert parsed(made.text()) == {("trivium_x", (("monitor", name),)): 1.5}
