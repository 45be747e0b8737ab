"""``trivium serve``: receive traces of production, score samples of them, and say how it goes."""

import signal
import sys
import time
from ipaddress import ip_address, ip_network
from shutil import which
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from trivium.cli import options
from trivium.cli.logs import INTERRUPTED
from trivium.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from trivium.monitor.monitored import Monitored
    from trivium.store.store import Store
    from trivium.web.security import Access

MEBIBYTE = 2**20


def _checked_names(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what can be no name in the header Host: every request would be refused."""
    for name in names:
        if not name.strip() or not set("/@?# ").isdisjoint(name):
            raise click.BadParameter(
                f'"{name}" is no name of a server: give it as traces.example.org, without https:// or a path'
            )
    return names


def _checked_proxies(_: click.Context, __: click.Parameter, proxies: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what is neither an IP address nor a network: everybody's word would be taken, or nobody's."""
    for proxy in proxies:
        try:
            ip_network(proxy)
        except ValueError:
            raise click.BadParameter(
                f'"{proxy}" is neither an IP address nor a network: give it as 127.0.0.1 or 10.1.0.0/16'
            ) from None
    return proxies


@options.command(
    "trivium serve",
    "trivium serve support.yaml --store sqlite:///production.db",
    "trivium serve support.yaml --host 0.0.0.0 --name traces.example.org",
)
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@options.store
@options.option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on. Others than loopback need tokens.",
)
@options.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4318,
    help="Port to listen on; 0 for any.",
)
@options.option(
    "--name",
    "names",
    multiple=True,
    callback=_checked_names,
    metavar="NAME",
    help="Name of the server, as behind a reverse proxy; tokens are needed then. Repeatable.",
)
@options.option(
    "--proxy",
    "proxies",
    multiple=True,
    callback=_checked_proxies,
    metavar="ADDRESS",
    help="Address or network of a proxy whose word on a client's address is taken. Repeatable.",
)
@options.option("--require-token", is_flag=True, help="Every request needs a token, also on loopback.")
@options.option(
    "--max-request-mb",
    type=click.FloatRange(0, 1024, min_open=True),
    default=20,
    help="Largest export request, decompressed, in MiB.",
)
@options.option(
    "--body-timeout",
    type=click.FloatRange(0, min_open=True),
    default=30,
    metavar="SECONDS",
    help="Time within which the body of a request has to be here.",
)
@options.option(
    "--requests-per-minute",
    type=click.IntRange(1),
    metavar="N",
    help="Requests that one token may send in a minute.",
)
@options.option("--access-log", is_flag=True, help="Log every request on standard error.")
def serve(suites: tuple[str, ...], *, store: str, host: str, port: int, **given: Any) -> int:
    """Receive traces of production (OTLP/HTTP), and score samples of them with each SUITE.

    Each SUITE is a monitor: its metrics, judge and key "monitor" count, its cases do not. Without one, traces
    are stored and not scored. The server stops with Ctrl-C or SIGTERM, when what was received is written.
    """
    _check_extra("trivium serve")
    from trivium.monitor.alerting.channels import missing_variables
    from trivium.monitor.monitored import monitored
    from trivium.monitor.otlp import IntakeLimits
    from trivium.store.store import Store
    from trivium.web.app import create_app
    from trivium.web.security import Access, host_name
    from trivium.web.server import serve as serve_app
    from trivium.web.services import Services

    monitors = _different([monitored(suite) for suite in suites])
    for each in monitors:
        missing_variables(each.monitor.alerts.channels, each.name)
    loopback = _is_loopback(host)
    access = Access(
        tokens=given["require_token"] or bool(given["names"]) or not loopback,
        names=frozenset(filter(None, (host_name(name) for name in (*given["names"], host)))),
        addresses=not loopback,
        tls=bool(given["names"]),
        requests_a_minute=given["requests_per_minute"],
        body_seconds=given["body_timeout"],
    )
    with Store(store) as opened:
        if access.tokens:
            _check_tokens(opened)
        limits = IntakeLimits(request_bytes=int(given["max_request_mb"] * MEBIBYTE))
        with Services(opened, monitors, limits=limits) as services:
            ended_by = serve_app(
                create_app(services, access),
                host=host,
                port=port,
                listening=lambda used: _say_where(host, used, monitors, access),
                ending=services.stopping.set,
                proxies=given["proxies"],
                access_log=given["access_log"],
            )
    return INTERRUPTED if ended_by == signal.SIGINT else 0


@options.command("trivium view", "trivium view 20261123 --no-browser")
@click.argument("run", required=False)
@options.store
@options.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=False,
    help="Port to listen on; default: any.",
)
@options.option("--browser/--no-browser", default=True, help="Open the address in a browser.")
def view(run: str | None, *, store: str, port: int, browser: bool) -> int:
    """Open the stored runs, or one RUN, in the browser.

    The pages are served on this machine until Ctrl-C. Nothing is received or scored; that is `trivium serve`.
    """
    _check_extra("trivium view")

    from trivium.store.store import Store
    from trivium.web.app import create_app
    from trivium.web.server import serve as serve_app
    from trivium.web.services import Services

    with Store(store, create=False) as opened:
        path = f"/runs/{quote(opened.run(run).id, safe='')}" if run else "/runs"

        def listening(used: int) -> None:
            address = f"http://127.0.0.1:{used}{path}"
            click.echo(f"{address}\n  stop: Ctrl-C")
            if browser:
                open_in_browser(address)

        services = Services(opened, receiving=False)
        with services:
            serve_app(
                create_app(services),
                host="127.0.0.1",
                port=port,
                listening=listening,
                ending=services.stopping.set,
            )
    return 0


def open_in_browser(address: str) -> Popen[bytes] | None:
    """Open an address in a browser, without what the opener prints where there is none."""
    opener = which("xdg-open")
    if opener is None or not sys.platform.startswith("linux"):
        click.launch(address)
        return None
    return Popen([opener, address], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)  # noqa: S603 - our own address


def _check_extra(command: str) -> None:
    """Raise MissingExtra if what the server of a command needs is not installed."""
    from trivium.cli.doctor import installed

    if not all(map(installed, ("litestar", "uvicorn", "jinja2", "opentelemetry.proto"))):
        raise MissingExtra("serve", command)


def _different(monitors: "list[Monitored]") -> "list[Monitored]":
    """Refuse two monitors with one name."""
    names = [each.name for each in monitors]
    for name in names:
        if names.count(name) > 1:
            raise InputError("", f'two suites are called "{name}": a monitor needs a name of its own')
    return monitors


def _is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _check_tokens(store: "Store") -> None:
    """Refuse to start if no request could be authorised, or all would be."""
    from trivium.store.tokens import Tokens

    if not Tokens(store).active(time.time()):
        raise InputError(
            "",
            "the server would be reachable from elsewhere, and there is no token yet. Make one:\n"
            f"  trivium token create NAME --scope ingest --store {store.name}\n"
            "Tokens are secrets: put a reverse proxy with TLS in front (docs/serve.md has Caddy and nginx).",
        )


def _say_where(host: str, port: int, monitors: "list[Monitored]", access: "Access") -> None:
    """Print the address, and what applications have to set."""
    shown = f"[{host}]" if ":" in host else host
    scored = ", ".join(each.name for each in monitors)
    lines = [
        f"trivium serves http://{shown}:{port}"
        + (
            f": samples are scored by {scored}"
            if scored
            else ": traces are stored; name a SUITE to score them"
        ),
        "  send traces:",
        f"    export OTEL_EXPORTER_OTLP_ENDPOINT=http://{shown}:{port}",
        "    export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ]
    if access.tokens:
        lines.append('    export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20trv_…"')
    click.echo("\n".join([*lines, "  stop: Ctrl-C"]))
