"""``trivium monitor`` answers first, and says with its exit code whether somebody should look."""

import json
import time
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests.monitor.samples import sample, store_samples, store_traffic
from trivium.cli.main import run_command
from trivium.cli.monitoring.screens import LiveScreen
from trivium.monitor.monitored import Monitored
from trivium.monitor.status import STATE, status_of, watched_of
from trivium.monitor.watcher import Watcher
from trivium.store import schema
from trivium.store.audit import audit_log
from trivium.store.live_alerts import locked_state
from trivium.store.live_counts import add_counts
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings
from trivium.suites.settings import Settings


def fill(url: str, *, good: bool, **texts: str) -> None:
    """A day of traffic; in its second half the tool "refund" fails unless it is good."""
    now = time.time()
    with Store(url) as store:
        store_traffic(store, now - 5)
        samples = []
        for n in range(300):
            tool = ("search", "refund", "book")[n % 3]
            passed = good or tool != "refund" or n < 150
            fields = {"time": now - 86_000 + 285 * n, "tool": tool, "agent": "helper", **texts}
            fields["cost_usd"] = None if n % 2 else 0.002
            samples.append(sample(n, passed, **fields))
        store_samples(store, samples)
        with store.engine.begin() as connection:
            counts = {("support", "complete", ""): 30_000, ("support", "scored", ""): 300}
            add_counts(connection, counts, now)
        Watcher(store, [Monitored(name="support", settings=Settings(monitor=MonitorSettings()))]).look(now)


def screen(capsys, *words: str, code: int = 0) -> str:
    assert run_command(["monitor", *words]) == code
    return capsys.readouterr().out


def test_a_healthy_status_is_answered_first(url, capsys):
    fill(url, good=True)
    shown = screen(capsys, "status", "--store", url)
    assert shown.startswith("support\n✓ healthy. 100 % of the traffic passes")
    assert "below 85 % with a probability of under 1 %" in " ".join(shown.split())
    assert "30,000 interactions" in shown


@pytest.mark.parametrize(("scores", "shown"), [((1.0, 0.0), False), ((0.9, 0.2), True)])
def test_a_composite_that_is_the_pass_rate_has_no_row_beside_it(url, capsys, scores, shown):
    now = time.time()
    samples = [sample(n, n % 2 == 0, score=scores[n % 2], time=now - 600 + n) for n in range(40)]
    with Store(url) as store:
        store_traffic(store, now)
        store_samples(store, samples)
        Watcher(store, [Monitored(name="support", settings=Settings(monitor=MonitorSettings()))]).look(now)
    run_command(["monitor", "status", "--store", url])
    found = capsys.readouterr().out
    assert "pass rate" in found
    assert ("composite" in found) is shown


def test_a_status_shows_where_it_is_bad_and_its_alert(url, capsys):
    fill(url, good=False)
    shown = screen(capsys, "status", "--store", url, code=1)
    assert shown.startswith("support\n! warning (sure). ")
    assert "tool refund" in " ".join(shown.split())
    rows = [line for line in shown.splitlines() if line.startswith(("refund", "search", "book"))]
    assert rows[0].startswith("refund")
    assert all(row.endswith(" $0.0020") for row in rows)
    assert "$0.0020, mean of an interaction (150 of 300 samples)" in shown
    assert "p50 1.0 s, p95 1.0 s" in shown


def test_a_status_says_how_many_samples_have_no_verdict(url, capsys):
    now = time.time()
    with Store(url) as store:
        store_traffic(store, now - 5)
        store_samples(store, [sample(n, None if n < 7 else True, time=now - 60) for n in range(20)])
        with store.engine.begin() as connection:
            add_counts(connection, {("support", "scored", ""): 20}, now)
    shown = " ".join(screen(capsys, "status", "--store", url).split())
    assert "7 of 20 samples neither passed nor failed, so the pass rate lacks them" in shown


def test_a_status_as_json_holds_every_figure(url, capsys):
    fill(url, good=False)
    (found,) = json.loads(screen(capsys, "status", "support", "--json", "--store", url, code=1))
    assert found["monitor"] == "support"
    assert found["sample_count"] == 300
    assert {"pass_rate", "average_score", "status", "sure", "window", "alerts"} <= set(found)


def test_alerts_name_origin_numbers_and_examples(url, capsys):
    fill(url, good=False)
    shown = " ".join(screen(capsys, "alerts", "--store", url, code=1).split())
    assert "pass rate is critical in tool refund" in shown
    assert "explains" in shown
    assert "question" in shown
    (alert,) = json.loads(screen(capsys, "alerts", "--json", "--store", url, code=1))
    assert alert["body"]["origin"]["value"] == "refund"


def test_an_example_without_input_and_output_says_so(url, capsys):
    fill(url, good=False, query="", output="")
    assert "no input or output is recorded" in screen(capsys, "alerts", "--store", url, code=1)


def test_without_alerts_it_says_so(url, capsys):
    fill(url, good=True)
    assert screen(capsys, "alerts", "--store", url) == "no alert is firing\n"
    assert screen(capsys, "alerts", "--all", "--store", url) == "no alert\n"


def test_all_alerts_are_at_most_as_many_as_asked(url, capsys):
    fill(url, good=False)
    assert (
        len(json.loads(screen(capsys, "alerts", "--all", "--last", "1", "--json", "--store", url, code=1)))
        == 1
    )


def test_hostile_texts_cannot_steer_the_terminal(url, capsys):
    fill(url, good=True)
    with Store(url) as store:
        store_samples(
            store, [sample(900, False, time=time.time() - 5, tool="\x1b[31mred\nline", agent="helper")]
        )
    shown = screen(capsys, "status", "--store", url)
    assert "\x1b" not in shown
    assert "red" in shown


def test_top_shows_the_status_once_without_a_terminal(url, capsys):
    fill(url, good=True)
    assert screen(capsys, "top", "--store", url).startswith("support\n✓ healthy")


def live_lines(url: str, *, height: int, problem: str = "") -> list[str]:

    console = Console(file=StringIO(), width=80, height=height)
    with Store(url) as store:
        found = status_of(store, "support", now=time.time())
    console.print(LiveScreen([found], every=2, problem=problem), end="")
    return console.file.getvalue().split("\n")


def test_top_fits_the_height_of_the_terminal(url):
    fill(url, good=False)
    high = live_lines(url, height=60)
    assert sum(line.startswith(("refund", "search", "book")) for line in high) == 3
    assert high[-1].endswith("every 2 s · Ctrl-C: end")
    low = live_lines(url, height=len(high) - 1)
    assert len(low) < len(high)
    assert sum(line.startswith(("refund", "search", "book")) for line in low) < 3
    lowest = live_lines(url, height=6)
    assert len(lowest) == 6
    assert lowest[0] == "support"
    assert lowest[1].startswith("! warning (sure). ")
    assert "further lines: trivium monitor status" in lowest[-1]


def test_top_goes_on_when_the_store_cannot_be_read(url, capsys, monkeypatch):
    fill(url, good=True)
    file = Path(url.removeprefix("sqlite:///"))
    looks = []

    def sleep(seconds: float) -> None:
        assert seconds == 2
        looks.append(seconds)
        if len(looks) == 1:
            for each in file.parent.glob(f"{file.name}*"):
                each.write_bytes(b"no database")
        else:
            raise KeyboardInterrupt

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("trivium.cli.monitoring.monitor.time.sleep", sleep)
    shown = screen(capsys, "top", "--store", url)
    assert len(looks) == 2
    assert "Ctrl-C: end" in shown
    assert "not up to date since" in shown


def test_a_mark_records_a_deployment(url, capsys):
    fill(url, good=True)
    shown = screen(capsys, "mark", "support", "--deployed", "2.1", "--note", "new prompt", "--store", url)
    assert shown.startswith("support: deployment 2.1 recorded at")
    with Store(url) as store, store.engine.connect() as connection:
        (row,) = connection.execute(schema.live_marks.select()).mappings()
    assert (row["kind"], row["version"], row["note"]) == ("deployment", "2.1", "new prompt")


def test_a_reset_is_a_mark_without_a_version(url, capsys):
    fill(url, good=True)
    assert (
        json.loads(screen(capsys, "mark", "support", "--reset", "--json", "--store", url))["kind"] == "reset"
    )
    assert run_command(["monitor", "mark", "support", "--reset", "--deployed", "1", "--store", url]) == 2


@pytest.mark.parametrize("words", [["status", "suport"], ["alerts", "suport"], ["mark", "suport"]])
def test_an_unknown_monitor_is_answered_with_the_nearest_name(url, capsys, words):
    fill(url, good=True)
    assert run_command(["monitor", *words, "--store", url]) == 2
    assert 'Did you mean "support"?' in capsys.readouterr().err


def test_an_empty_store_says_what_to_do(url, capsys):
    Store(url).close()
    assert run_command(["monitor", "status", "--store", url]) == 2
    assert "trivium serve" in capsys.readouterr().err


def job(state: str, **fields) -> dict:
    return {
        "monitor": "support", "trace": "abc", "version": 1, "probability": 0.5, "weight": 1.0,
        "rule": "errors", "state": state, "created": time.time() - 60, "due": 0.0, "owner": None, "tries": 0,
        "reason": None,
    } | fields  # fmt: skip


@pytest.mark.parametrize(
    ("state", "fields", "said"),
    [
        ("waiting", {}, "it waits to be scored for 1 minute"),
        ("waiting", {"tries": 2, "reason": "HTTP 500"}, "after 2 tries: HTTP 500"),
        ("scoring", {}, "it is being scored"),
        ("dropped", {}, "too many samples waited"),
        ("failed", {"tries": 5, "reason": "it is broken"}, "could not be scored in 5 tries: it is broken"),
        ("done", {}, "so old that they were deleted"),
    ],
)
def test_why_a_trace_has_no_score_is_its_job(url, capsys, state, fields, said):
    with Store(url) as store, store.engine.begin() as connection:
        connection.execute(schema.live_jobs.insert().values(job(state, **fields)))
    shown = screen(capsys, "why", "abc", "--store", url, code=0 if state == "done" else 1)
    assert "sampled with probability 0.5 (rule: errors)" in shown
    assert said in shown


def test_why_a_trace_has_a_score(url, capsys):
    with Store(url) as store:
        store_samples(store, [sample(7)])
        with store.engine.begin() as connection:
            connection.execute(schema.live_jobs.insert().values(job("done", trace="t7")))
    (found,) = json.loads(screen(capsys, "why", "t7", "--json", "--store", url))
    assert (found["state"], found["score"], found["passed"]) == ("scored", 1.0, True)


def test_why_a_trace_was_not_sampled(url, capsys):
    with Store(url) as store:
        store_traffic(store, 5.0)
    assert "no monitor sampled it" in screen(capsys, "why", "seen 5.0 None", "--store", url, code=1)


def test_why_an_open_trace_waits(url, capsys):
    with Store(url) as store:
        store_traffic(store, 5.0)
        with store.engine.begin() as connection:
            connection.execute(schema.live_traces.update().values(state="open", due=time.time() + 3600))
    assert "it is not complete" in screen(capsys, "why", "seen 5.0 None", "--store", url, code=1)


def test_why_an_unknown_trace_is_unknown(url, capsys):
    Store(url).close()
    assert "no trace with this id is stored" in screen(capsys, "why", "abc", "--store", url, code=1)


def test_a_server_does_not_start_with_a_channel_that_cannot_send(url, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("NO_SUCH", raising=False)
    suite = tmp_path / "suite.json"
    channels = [{"webhook": "${NO_SUCH}"}]
    suite.write_text(json.dumps({"name": "support", "monitor": {"alerts": {"channels": channels}}}))
    assert run_command(["serve", str(suite), "--store", url]) == 2
    assert "the environment variable NO_SUCH is not set" in capsys.readouterr().err


def test_a_status_says_what_the_figures_lack(url, capsys):
    fill(url, good=True)
    with Store(url) as store, store.engine.begin() as connection:
        counts = {("support", "dropped", "backlog"): 7, ("support", "failed", "tries"): 2}
        add_counts(connection, counts, time.time())
        connection.execute(schema.live_jobs.insert().values(job("waiting")))
    shown = " ".join(screen(capsys, "status", "--store", url).split())
    assert "7 samples were dropped before they were scored" in shown
    assert "2 samples could not be scored" in shown
    assert "waiting to be scored: 1 sample, the oldest for 1 minute" in shown


def test_a_status_without_traffic_says_since_when(url, capsys):
    with Store(url) as store:
        store_traffic(store, 86_400.0)
        with store.engine.begin() as connection:
            add_counts(connection, {("support", "complete", ""): 1}, 86_400.0)
    shown = screen(capsys, "status", "--store", url)
    assert shown.startswith("support\n✗ no data. No traffic since 1970-01-02 00:00 UTC.")


def forsake(url, looked: float) -> None:
    """Let the last look of the watcher be at a time; 0: nobody has looked."""
    with Store(url) as store, locked_state(store, "support", STATE, time.time()) as state:
        watched = watched_of(state.body)
        watched.looked = looked
        state.save(msgspec.json.encode(watched).decode(), time.time())


def test_an_alert_of_a_monitor_that_nobody_watches_can_be_resolved(url, capsys):
    fill(url, good=False)
    assert "nobody has watched" not in screen(capsys, "status", "--store", url, code=1)
    assert run_command(["monitor", "alerts", "--resolve", "1", "--store", url]) == 2
    assert "support is watched, so the alert ends" in " ".join(capsys.readouterr().err.split())
    forsake(url, time.time() - 700)
    assert "nobody has watched since" in screen(capsys, "status", "--store", url, code=1)
    assert run_command(["monitor", "alerts", "--resolve", "77", "--store", url]) == 2
    assert "no alert 77 is firing (firing: 1)" in " ".join(capsys.readouterr().err.split())
    assert screen(capsys, "alerts", "--resolve", "1", "--store", url) == "alert 1: resolved\n"
    assert screen(capsys, "alerts", "--store", url) == "no alert is firing\n"
    forsake(url, 0.0)
    assert "nobody watches yet: trivium serve SUITE" in screen(capsys, "status", "--store", url)
    assert "no alert is firing: nobody watches yet" in screen(capsys, "alerts", "--store", url)
    with Store(url) as store:
        assert audit_log(store)[0].action == "alert resolved by hand"
        Watcher(store, [Monitored(name="support", settings=Settings(monitor=MonitorSettings()))]).look(
            time.time()
        )
    screen(capsys, "alerts", "--store", url, code=1)  # it is watched again, and still bad


def test_a_deployment_is_marked_as_soon_as_a_monitor_is_watched_and_a_status_says_what_waits(url, capsys):
    now = time.time()
    with Store(url) as store:
        watcher = Watcher(store, [Monitored(name="support", settings=Settings())])
        watcher.start()
        watcher.stop()
        assert "recorded" in screen(capsys, "mark", "support", "--deployed", "1.5", "--store", url)
        assert "no traffic yet" in " ".join(screen(capsys, "status", "--store", url).split()).lower()
        store_traffic(store, now)
        changed = schema.live_traces.update().values(state="open", spans=4, due=now + 1e6)
        with store.engine.begin() as connection:
            connection.execute(changed)
    shown = " ".join(screen(capsys, "status", "--store", url).split())
    assert "4 spans of 1 trace received, waiting 11.6 days for further ones" in shown
