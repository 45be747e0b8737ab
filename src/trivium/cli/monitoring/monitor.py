"""``trivium monitor``: what production looks like, what has alerted, and why."""

import time
from typing import TYPE_CHECKING

import click
import msgspec

from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.cli.output import print_answer, show
from trivium.errors import InputError, StoreError, suggest
from trivium.safe_text import one_line

if TYPE_CHECKING:
    from trivium.monitor.reasons import TraceReason
    from trivium.monitor.status import MonitorStatus
    from trivium.store.store import Store

HERE = "trivium.cli.monitoring.monitor"

COMMANDS = {
    "status": (f"{HERE}:status", "Say how production is doing, and how sure that is."),
    "top": (f"{HERE}:top", "Show the status, and keep it up to date."),
    "alerts": (f"{HERE}:alerts", "List the alerts, with where they come from."),
    "mark": (f"{HERE}:mark", "Record a deployment, to compare what follows with what was."),
    "why": (f"{HERE}:why", "Say why a trace has a score, or none."),
    "replay": (f"{HERE}:replay", "Try the alerts on recorded traffic."),
}

GATE_FAILED = 1
"""Exit code of a status that is surely critical, or no data."""


@click.group(cls=LazyCommands, table=COMMANDS)
def monitor() -> None:
    """Watch production: samples of live traffic are scored, and alerts say when quality drops.

    The settings are those of the suite's key "monitor".
    """


monitor_name = click.argument("monitor", required=False)


@options.command("trivium monitor status", "trivium monitor status support --json")
@monitor_name
@options.store
@options.as_json
def status(monitor: str | None, *, store: str, as_json: bool) -> None:
    """Say how production is doing: status, figures, where they differ, alerts.

    MONITOR is the name of a suite; all monitors of the store without it. Exit code 1: an alert is firing.
    """
    from trivium.cli.monitoring.screens import all_of
    from trivium.reports.monitoring import MOST_ROWS

    with _opened(store) as opened:
        found = _statuses(opened, monitor)
    print_answer(found, lambda _: all_of(found, rows=MOST_ROWS), as_json=as_json)
    if any(each.alerts for each in found):
        raise click.exceptions.Exit(GATE_FAILED)


def _opened(url: str, *, writing: bool = False) -> "Store":
    from trivium.store.store import Store

    return Store(url, create=False, read_only=not writing)


def _statuses(store: "Store", monitor: str | None) -> "list[MonitorStatus]":
    """The status of a monitor, or of all of the store.

    Raises:
        InputError: If there is none of that name, or none at all.
    """
    from trivium.monitor.status import status_of

    return [status_of(store, name, now=time.time()) for name in _names(store, monitor)]


def _names(store: "Store", monitor: str | None) -> list[str]:
    from trivium.store.live_alerts import monitors_of

    known = monitors_of(store)
    if monitor is None and not known:
        raise InputError(store.url, "no traffic has been watched yet; `trivium serve SUITE` receives it")
    if monitor is not None and monitor not in known:
        listed = f" Monitors: {', '.join(known)}" if known else " There is none yet."
        raise InputError(store.url, f'no monitor is called "{monitor}".{suggest(monitor, known) or listed}')
    return known if monitor is None else [monitor]


@options.command("trivium monitor top", "trivium monitor top support --every 5")
@monitor_name
@options.store
@options.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    metavar="SECONDS",
    help="Time between two updates.",
)
def top(monitor: str | None, *, store: str, every: float) -> None:
    """Show the status and keep it up to date, until Ctrl-C; once, if the output is no terminal."""
    from rich.console import Console
    from rich.live import Live

    from trivium.cli.monitoring.screens import LIVE_ROWS, LiveScreen, all_of

    def look() -> "list[MonitorStatus]":
        with _opened(store) as opened:
            return _statuses(opened, monitor)

    found, problem = look(), ""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        show(all_of(found, rows=LIVE_ROWS))
        return
    with Live(LiveScreen(found, every=every), console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(LiveScreen(found, every=every, problem=problem), refresh=True)
                time.sleep(every)
                try:
                    found, problem = look(), ""
                except StoreError as error:  # it may come back
                    problem = str(error)
        except KeyboardInterrupt:
            return


@options.command(
    "trivium monitor alerts", "trivium monitor alerts --all --json", "trivium monitor alerts --resolve 7"
)
@monitor_name
@options.store
@options.as_json
@options.option("--all", "every", is_flag=True, help="Also the alerts that are resolved.")
@options.option("--last", type=click.IntRange(min=1), default=20, metavar="N", help="Most alerts.")
@options.option(
    "--resolve",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="End an alert of a monitor that nobody watches any more.",
)
def alerts(
    monitor: str | None, *, store: str, as_json: bool, every: bool, last: int, resolve: int | None
) -> None:
    """List the alerts that are firing: how bad, where it comes from, the worst examples.

    Exit code 1: an alert is firing.
    """
    from trivium.monitor.alerting.messages import Message
    from trivium.monitor.status import STATE, watched_of
    from trivium.reports.monitoring import describe_message
    from trivium.store.live_alerts import alerts_of, monitors_of, state_of

    if resolve is not None:
        with _opened(store, writing=True) as opened:
            _resolve(opened, resolve)
        click.echo(f"alert {resolve}: resolved")
        return
    with _opened(store) as opened:
        names = monitors_of(opened) if monitor is None else _names(opened, monitor)
        found = alerts_of(opened, monitor, firing=not every, limit=last)
        watched = any(watched_of(state_of(opened, name, STATE)).looked for name in names)
    lost = "" if watched else ": nobody watches yet (trivium serve SUITE, on this store, does)"
    shown = (
        block
        for each in found
        for block in describe_message(
            msgspec.convert(each.body, Message), state=each.state, resolved=each.resolved
        )
    )
    nothing = ("no alert" if every else "no alert is firing") + lost
    print_answer(found, lambda _: shown if found else nothing, as_json=as_json)
    if any(each.state == "firing" for each in found):
        raise click.exceptions.Exit(GATE_FAILED)


def _resolve(store: "Store", number: int) -> None:
    """Resolve an alert by hand.

    Raises:
        InputError: If no such alert fires, or its monitor is watched: then it ends by itself.
    """
    from trivium.monitor.status import LOST_SECONDS, STATE, watched_of
    from trivium.store.live_alerts import alerts_of, resolve_alert, state_of

    now = time.time()
    firing = {each.number: each for each in alerts_of(store, firing=True, limit=10_000)}
    if number not in firing:
        listed = ", ".join(map(str, firing)) or "none"
        raise InputError("--resolve", f"no alert {number} is firing (firing: {listed})")
    name = firing[number].monitor
    if now - watched_of(state_of(store, name, STATE)).looked < LOST_SECONDS:
        raise InputError(
            "--resolve",
            f"{name} is watched, so the alert ends when what it is about does; "
            f"`trivium monitor mark {name} --reset` begins anew",
        )
    resolve_alert(store, number, actor="trivium monitor alerts --resolve", now=now)


@options.command(
    "trivium monitor mark support --deployed 2.1.0",
    'trivium monitor mark support --reset --note "another judge"',
)
@click.argument("monitor")
@options.store
@options.as_json
@options.option("--deployed", metavar="VERSION", help="The version that was deployed.")
@options.option("--reset", is_flag=True, help="Forget what was before; nothing is compared with it.")
@options.option("--note", metavar="TEXT", help="What to remember about it.")
def mark(
    monitor: str, *, store: str, as_json: bool, deployed: str | None, reset: bool, note: str | None
) -> None:
    """Record a deployment of what MONITOR watches, now.

    From here on the monitor says whether the new version is good, and alerts if it is worse than the one
    before.
    """
    from trivium.monitor.alerting.messages import moment
    from trivium.store.live_alerts import add_mark

    if reset and deployed is not None:
        raise InputError("mark", "--deployed and --reset exclude one another")
    with _opened(store, writing=True) as opened:
        (name,) = _names(opened, monitor)
        kind = "reset" if reset else "deployment"
        made = add_mark(opened, name, now=time.time(), kind=kind, version=deployed, note=note)
    what = " ".join(part for part in (kind, deployed) if part)
    print_answer(made, lambda _: f"{name}: {what} recorded at {moment(made.time)}", as_json=as_json)


@options.command("trivium monitor why 4bf92f3577b34da6a3ce929d0e0e4736")
@click.argument("trace")
@options.store
@options.as_json
def why(trace: str, *, store: str, as_json: bool) -> None:
    """Say why TRACE has a score, or none: not received, not complete, not sampled, waiting, dropped, failed.

    Exit code 1: it has no score.
    """
    from trivium.monitor.reasons import reasons

    with _opened(store) as opened:
        found = reasons(opened, trace.strip(), now=time.time())
    print_answer(found, lambda _: "\n".join(map(_sentence, found)), as_json=as_json)
    if not any(each.state == "scored" for each in found):
        raise click.exceptions.Exit(GATE_FAILED)


def _sentence(reason: "TraceReason") -> str:
    about = f"{one_line(reason.monitor)}: " if reason.monitor else ""
    run = f" (trivium show {reason.run})" if reason.run else ""
    return f"{about}{one_line(reason.sentence, at_most=1000)}{run}"


@options.command(
    "trivium monitor replay traces.jsonl",
    "trivium monitor replay traces/*.json --suite support.yaml --sample-rate 0.2",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option("--suite", metavar="SUITE", help="The monitor's suite: its metrics and its key monitor.")
@options.option("--format", "format_", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.option(
    "--sample-rate",
    type=click.FloatRange(0, 1, min_open=True),
    help="Sampling probability instead of the suite's; 1 without a suite.",
)
@options.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True),
    default=24.0,
    help="Length of the traffic, if the traces state no times.",
)
@options.option(
    "--looks",
    type=click.IntRange(1, 100_000),
    default=200,
    help="How often to look, at equal distances in the traffic's time.",
)
@options.option("--send", is_flag=True, help="Send the messages to the suite's channels.")
@options.as_json
def replay(
    files: tuple[str, ...],
    *,
    suite: str | None,
    format_: str | None,
    sample_rate: float | None,
    hours: float,
    looks: int,
    send: bool,
    as_json: bool,
) -> None:
    """Replay the traces in FILE as production traffic: what would have alerted, and when.

    The whole chain runs in the traffic's own time, in a store of its own: sampling, scoring, windows, alerts.
    Judges of the suite are asked. Nothing is sent unless --send is given. FILE may be an address or a pattern
    of addresses, such as "s3://bucket/traces/*.jsonl".
    """
    from trivium.monitor.alerting.channels import missing_variables
    from trivium.monitor.monitored import monitored
    from trivium.monitor.replay import replay as replay_traces
    from trivium.reports.monitoring import describe_replay
    from trivium.traces.readers.collection import read_paths

    rate = sample_rate if sample_rate is not None or suite is not None else 1.0
    changes = None if rate is None else {"sample_rate": rate}
    watched = monitored({"name": "replay"} if suite is None else suite, monitor=changes)
    if send:
        missing_variables(watched.monitor.alerts.channels, suite or "replay")
    _, traces = read_paths(files, format_)
    if not traces:
        raise InputError(files[0], "holds no traces")
    found = replay_traces(watched, traces, hours=hours, looks=looks, send=send)
    print_answer(found, describe_replay, as_json=as_json)
