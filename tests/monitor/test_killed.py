"""A server that is killed again and again: what it acknowledged is stored once, each version has one job."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from hashlib import blake2b

from sqlalchemy import func, select

from tests.otlp_requests import body, span
from trivium.monitor.completion import Completer
from trivium.monitor.intake import Intake
from trivium.store import schema
from trivium.store.live_records import Choice, TraceBounds
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store

KILLS = 8
SPANS = 4


def trace_of(number: int) -> bytes:
    return blake2b(str(number // 2).encode(), digest_size=16).digest()  # two requests share a trace


def request_of(number: int) -> bytes:
    ids = [blake2b(f"{number}/{each}".encode(), digest_size=8).digest() for each in range(SPANS)]
    parents = [b"", *ids[:-1]] if number % 2 == 0 else ids  # the root comes with the first request
    return body(
        [span(trace_of(number), id=id_, parent=parent) for id_, parent in zip(ids, parents, strict=True)]
    )


def serve(store: Store, number: int, acknowledged: int) -> None:
    """Store one request after the other from a number on, and write each number once it is acknowledged."""
    traces = LiveTraces(store, TraceBounds(quiet=0.001))
    completer = Completer(traces, lambda _: [Choice(monitor="m", sampled=True, probability=1.0)])
    with Intake(traces) as intake:
        while True:
            intake.receive(request_of(number), "protobuf")
            os.write(acknowledged, b"%d\n" % number)
            number += 1
            completer.complete(time.time())


def kill_again_and_again(url: str) -> None:
    """Start a server, kill it after a few acknowledgements, and start the next one where it stopped."""
    draw = random.Random(7)
    number = 0
    store = Store(url)
    store.close()  # each server opens connections of its own
    for _ in range(KILLS):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            serve(store, number, writing)
        os.close(writing)
        with os.fdopen(reading) as lines:
            for _ in range(draw.randrange(1, 5)):
                number = int(lines.readline()) + 1
            os.kill(child, signal.SIGKILL)
            for line in lines:
                number = int(line) + 1
        os.waitpid(child, 0)
    print(json.dumps(number))


def test_a_server_that_is_killed_loses_nothing_acknowledged_and_stores_nothing_twice(any_url):
    with Store(any_url):
        pass
    command = (
        "import sys; from tests.monitor import test_killed; test_killed.kill_again_and_again(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", command, any_url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    number = json.loads(done.stdout)
    assert number >= KILLS
    spans, traces, jobs = schema.live_spans, schema.live_traces, schema.live_jobs
    with Store(any_url) as store, store.engine.connect() as connection:
        rows = connection.execute(
            select(traces.c.trace, spans.c.span, func.count())
            .join(traces, traces.c.number == spans.c.number)
            .group_by(traces.c.trace, spans.c.span)
        ).all()
        found = {(trace, id_): times for trace, id_, times in rows}
        for each in range(number):
            for part in range(SPANS):
                id_ = blake2b(f"{each}/{part}".encode(), digest_size=8).hexdigest()
                assert found.pop((trace_of(each).hex(), id_)) == 1
        assert len(found) in {0, SPANS}  # the last request may be stored, whole, without an acknowledgement
        versions = dict(map(tuple, connection.execute(select(traces.c.trace, traces.c.version))))
        scored = dict(
            map(tuple, connection.execute(select(jobs.c.trace, func.count()).group_by(jobs.c.trace)))
        )
        assert sum(versions.values()) > KILLS / 4
        assert {trace: version for trace, version in versions.items() if version} == scored


if __name__ == "__main__":
    kill_again_and_again(sys.argv[1])
