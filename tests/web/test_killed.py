"""A server that is killed while real exporters send: nothing acknowledged is lost or scored twice.

``KILLS=100 python -m pytest tests/web/test_killed.py`` kills it a hundred times.
"""

import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from sqlalchemy import func, select

from tests.otlp_requests import agent_trace, body
from tests.web.conftest import SUITE
from trivium.monitor.monitored import monitored
from trivium.monitor.scorer import Scorer
from trivium.store import schema
from trivium.store.live_jobs import LEASE_SECONDS
from trivium.store.store import Store
from trivium.web.services import Services

EXPORTERS = 2
SPANS = 3
KILLS = int(os.environ.get("KILLS", "4"))


def child(function: Callable[[], None]) -> int:
    """Run a function in a process that is forked, so that it starts at once."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(1)
    return pid


def serve(url: str, port: int) -> None:
    from trivium.web.app import create_app
    from trivium.web.server import serve as listen

    with Store(url) as store, Services(store, [monitored(SUITE)]) as services:
        listen(
            create_app(services),
            host="127.0.0.1",
            port=port,
            listening=lambda _: None,
            ending=services.stopping.set,
        )


def export(port: int, acknowledged: int, compression: str) -> None:
    """Send one trace after the other, each until it is acknowledged, as the SDK of an application does."""
    logging.disable()
    ended = []

    class Keep(SpanProcessor):
        def on_end(self, span) -> None:
            ended.append(span)

    provider = TracerProvider(resource=Resource.create({"service.name": "bot"}))
    provider.add_span_processor(Keep())
    tracer = provider.get_tracer("tests")
    exporter = OTLPSpanExporter(
        f"http://127.0.0.1:{port}/v1/traces",
        compression=Compression(compression),
        # Shorter than the exporter's wait after a failure: it gives up, and is asked again here.
        timeout=0.7,
    )
    while True:
        ended.clear()
        with tracer.start_as_current_span("root") as root:
            for number in range(SPANS - 1):
                with tracer.start_as_current_span(f"step {number}"):
                    pass
        while exporter.export(list(ended)) is not SpanExportResult.SUCCESS:
            time.sleep(0.05)
        os.write(acknowledged, f"{root.get_span_context().trace_id:032x}\n".encode())


def import_all() -> None:
    """Import what servers and exporters do, before they are forked: each would take half a second for it."""

    import trivium.web.server  # noqa: F401
    from trivium.web.app import create_app

    with TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/store.db") as store:
        services = Services(store, [monitored(SUITE)])
        create_app(services)
        services.intake.receive(body(agent_trace()), "protobuf")
        finish(store)
        services.stop()


def kill_again_and_again(url: str, kills: int) -> None:
    """Start and kill servers while exporters send; print the ids of the traces that were acknowledged."""
    import_all()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reading, writing = os.pipe()
    exporters = [
        child(lambda each=each: export(port, writing, ("gzip", "none")[each % 2]))
        for each in range(EXPORTERS)
    ]
    os.close(writing)
    draw = random.Random(7)
    acknowledged = []
    with os.fdopen(reading) as lines:
        for _ in range(kills):
            server = child(lambda: serve(url, port))
            acknowledged += [lines.readline().strip() for _ in range(draw.randrange(1, 5))]
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        for each in exporters:
            os.kill(each, signal.SIGKILL)
            os.waitpid(each, 0)
        acknowledged += [line.strip() for line in lines if line.endswith("\n")]
    print(json.dumps(acknowledged))


def test_exporters_lose_nothing_to_a_server_that_is_killed(any_url):
    with Store(any_url):
        pass
    kills = KILLS if any_url.startswith("sqlite") else 2
    command = f"from tests.web import test_killed; test_killed.kill_again_and_again({any_url!r}, {kills})"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    acknowledged = json.loads(done.stdout)
    assert len(acknowledged) == len(set(acknowledged)) >= kills
    with Store(any_url) as store:
        finish(store)
        check(store, acknowledged)


def finish(store: Store) -> None:
    """Complete and score what is left, as a server does after the leases of the killed ones have ended."""
    services = Services(store, [monitored(SUITE)])
    now = time.time()
    services.completer.complete(now + 1)
    with Scorer(store, monitored(SUITE)) as scorer:
        scorer.score_all(now + LEASE_SECONDS + 1)
    services.stop()


def check(store: Store, acknowledged: list[str]) -> None:
    """Every trace is there, whole and once, and was scored once."""
    spans, traces, samples = schema.live_spans, schema.live_traces, schema.live_samples
    with store.engine.connect() as connection:
        rows = connection.execute(
            select(traces.c.trace, traces.c.version, func.count(), func.count(spans.c.span.distinct()))
            .join(spans, traces.c.number == spans.c.number)
            .group_by(traces.c.trace, traces.c.version)
        )
        stored = {trace: numbers for trace, *numbers in rows}
        scored = dict(
            map(tuple, connection.execute(select(samples.c.trace, func.count()).group_by(samples.c.trace)))
        )
    assert set(acknowledged) <= set(stored)
    assert len(stored) <= len(acknowledged) + EXPORTERS  # each may have sent one more, without an answer
    assert all(numbers == [1, SPANS, SPANS] for numbers in stored.values())
    assert scored == dict.fromkeys(stored, 1)
