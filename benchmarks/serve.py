"""Production traffic on SQLite: spans a second that are accepted durably, memory, and time to start again.

Requests have 512 spans, the batches of OpenTelemetry's exporters, in traces of 8 spans of 0.8 KB; a quarter
of the traces go on in the next request. "As fast as it goes" sends from 8 threads, each the next request when
the last one is acknowledged. "At a rate" sends by a timetable, whatever is acknowledged when; a latency is
the time from when a request was due to its acknowledgement. Traces are completed meanwhile, and 1 % are
sampled and read. By HTTP another process sends. Parts are timed in one thread, one after the other.

    python -m benchmarks.serve [--quick] [--spans NUMBER] [--stored NUMBER]
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from tests.otlp_requests import body, span

from benchmarks.sizes import sized
from trivium.monitor.completion import Completer, decider
from trivium.monitor.intake import Intake
from trivium.monitor.monitor import Monitor
from trivium.monitor.otlp import IntakeLimits, batch_of
from trivium.monitor.sampling import Sampler
from trivium.store import schema
from trivium.store.connection import insert_many
from trivium.store.live_records import TraceBounds
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings

BATCH, PER_TRACE = sized(512, 64), 8
RATE = 5_000
SENDERS = 8
QUIET = 5.0
PAGE = os.sysconf("SC_PAGE_SIZE")
AGENT = {"operation": "invoke_agent", "agent": "writer"}
TOOL = {"operation": "execute_tool", "tool": "search"}


class Traffic:
    """Makes requests that differ in their ids alone, in far less time than it takes to encode them."""

    def __init__(self) -> None:
        spans = []
        for _ in range(BATCH // PER_TRACE):
            trace, root = os.urandom(16), os.urandom(8)
            for number in range(PER_TRACE):
                texts = {f"app.attribute.{key}": "v" * 50 for key in range(9)}
                own, parent, kind = (None, root, TOOL) if number else (root, b"", AGENT)
                spans.append(span(trace, id=own, parent=parent, **kind, **texts))
        encoded = body(spans, service="shop", version="1.2")
        self._ids = list(dict.fromkeys(id_ for each in spans for id_ in (each.trace_id, each.span_id)))
        self._traces = {each.trace_id for each in spans}
        places = re.compile(b"|".join(re.escape(id_) for id_ in self._ids), re.DOTALL)
        found = list(places.finditer(encoded))
        starts = [0, *(match.end() for match in found)]
        ends = [*(match.start() for match in found), len(encoded)]
        self._between = [encoded[start:end] for start, end in zip(starts, ends, strict=True)]
        self._order = [self._ids.index(match.group()) for match in found]
        self._before: list[bytes] = []

    def request(self) -> bytes:
        """The next request."""
        draw = random.random
        new = [
            self._before[at]
            if self._before and id_ in self._traces and draw() < 0.25
            else os.urandom(len(id_))
            for at, id_ in enumerate(self._ids)
        ]
        self._before = new
        parts = [self._between[0]]
        for at, between in zip(self._order, self._between[1:], strict=True):
            parts += (new[at], between)
        return b"".join(parts)


def megabytes() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile, in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1e3


class Server:
    """An intake with its completer on a new store."""

    def __init__(self, folder: str, name: str) -> None:
        self.store = Store(f"sqlite:///{folder}/{name}.db")
        self.traces = LiveTraces(self.store, TraceBounds(quiet=QUIET))
        sampler = Sampler("shop", MonitorSettings(sample_rate=0.01), self.store)
        self.completer = Completer(self.traces, decider([sampler]))
        self.intake = Intake(self.traces)
        self.completer.start()

    def close(self) -> None:
        self.intake.close()
        self.completer.stop()
        self.store.close()


def parts(folder: str, traffic: Traffic, requests: int) -> None:
    """Time of each part, a span."""
    bodies = [traffic.request() for _ in range(requests)]
    spans = requests * BATCH
    with Store(f"sqlite:///{folder}/parts.db") as store:
        traces = LiveTraces(store, TraceBounds(quiet=0))
        steps = {}
        watch = Stopwatch()
        batches = [batch_of(each, "protobuf", IntakeLimits()) for each in bodies]
        steps["decoding a request"] = watch.lap()
        for at in range(0, requests, 4):
            traces.add_all(batches[at : at + 4], time.time())
        steps["storing it, 2,048 spans a commit"] = watch.lap()
        sampler = Sampler("shop", MonitorSettings(sample_rate=1e-9), store)
        Completer(traces, decider([sampler])).complete(time.time())
        steps["completing its traces, unread"] = watch.lap()
        names = [each.trace for batch in batches for each in batch.spans if each.ended_root][: requests * 8]
        watch.lap()
        for name in names:
            traces.trace(name)
        steps["reading a trace, where needed"] = watch.lap()
    print(f"\n{'part':<34}{'CPU µs a span':>15}{'wall µs a span':>16}")
    for name, (taken, passed) in steps.items():
        number = len(names) * PER_TRACE if name.startswith("reading") else spans
        print(f"{name:<34}{taken / number * 1e6:>15.1f}{passed / number * 1e6:>16.1f}")


class Stopwatch:
    """CPU time of this process, and wall time."""

    def __init__(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def lap(self) -> tuple[float, float]:
        """Seconds of CPU and wall since the last lap."""
        cpu, wall = self.cpu, self.wall
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        return self.cpu - cpu, self.wall - wall


def show(name: str, spans: int, latencies: Sequence[float], cpu: float, wall: float) -> None:
    """Print a row."""
    times = f"{quantile(latencies, 0.5):>8.0f}{quantile(latencies, 0.99):>8.0f}{cpu:>8.1f}{wall:>8.1f}"
    print(f"{name:<26}{spans:>11,}{spans / wall:>10,.0f}{times}", flush=True)


def at_once(folder: str, traffic: Traffic, requests: int) -> None:
    """As fast as it goes."""
    server = Server(folder, "at_once")
    bodies = [traffic.request() for _ in range(requests)]
    latencies: list[float] = []

    def send(each: bytes) -> None:
        began = time.perf_counter()
        server.intake.receive(each, "protobuf")
        latencies.append(time.perf_counter() - began)

    watch = Stopwatch()
    with ThreadPoolExecutor(SENDERS) as senders:
        list(senders.map(send, bodies))
    show("as fast as it goes", requests * BATCH, latencies, *watch.lap())
    server.close()


def at_a_rate(folder: str, traffic: Traffic, requests: int) -> None:
    """By a timetable; the memory at each eighth of the way."""
    server = Server(folder, "at_a_rate")
    latencies: list[float] = []
    memory = []

    def send(due: float, each: bytes) -> None:
        server.intake.receive(each, "protobuf")
        latencies.append(time.perf_counter() - due)

    watch = Stopwatch()
    began = watch.wall
    with ThreadPoolExecutor(SENDERS) as senders:
        for number in range(requests):
            due = began + number * BATCH / RATE
            each = traffic.request()
            time.sleep(max(0.0, due - time.perf_counter()))
            senders.submit(send, due, each)
            if number % max(1, requests // 8) == 0:
                memory.append(megabytes())
    show(f"at {RATE:,} a second", requests * BATCH, latencies, *watch.lap())
    print("memory on the way, MB: " + " ".join(f"{each:.0f}" for each in [*memory, megabytes()]))
    server.close()


SEND = """
import sys
from benchmarks.serve import send_by_timetable
send_by_timetable(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
"""


def send_by_timetable(port: int, requests: int, rate: float) -> None:
    """Post requests from several connections, and print the latencies.

    Args:
        port: Of the server.
        requests: Number of requests.
        rate: Spans a second; 0 for as many as it takes, a latency then being the time since it was sent.
    """
    traffic = Traffic()
    waiting: SimpleQueue[tuple[float, bytes] | None] = SimpleQueue()
    latencies: list[float] = []

    def post() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        while (each := waiting.get()) is not None:
            due, sent = each if rate else (time.perf_counter(), each[1])
            connection.request("POST", "/v1/traces", sent, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            latencies.append(time.perf_counter() - due)

    senders = [Thread(target=post) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    began = time.perf_counter()
    for number in range(requests):
        due = began + number * BATCH / rate if rate else 0.0
        sent = traffic.request()
        time.sleep(max(0.0, due - time.perf_counter()))
        waiting.put((due, sent))
    for _ in senders:
        waiting.put(None)
    for sender in senders:
        sender.join()
    print(json.dumps({"latencies": latencies, "wall": time.perf_counter() - began}))


def over_http(folder: str, requests: int) -> None:
    """The same by HTTP, from another process, to ``trivium serve`` with a monitor that scores 1 %."""
    suite = Path(folder) / "shop.yaml"
    suite.write_text("name: shop\nmonitor: {sample_rate: 0.01, quiet: 5}\n")
    trivium = str(Path(sys.executable).with_name("trivium"))
    command = [trivium, "serve", str(suite), "--port", "0", "--store", f"sqlite:///{folder}/http.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = re.search(r"http://127\.0\.0\.1:(\d+)", server.stdout.readline())
        assert port is not None
        sending = [sys.executable, "-c", SEND, port[1], str(requests)]
        for rate in sized((RATE, 0), (RATE,)):
            before = cpu_of(server.pid)
            done = subprocess.run([*sending, str(rate)], check=True, capture_output=True, text=True)
            sent, cpu = json.loads(done.stdout), cpu_of(server.pid) - before
            name = f"HTTP, at {rate:,} a second" if rate else "HTTP, as fast as it goes"
            show(name, requests * BATCH, sent["latencies"], cpu, sent["wall"])
        server.send_signal(signal.SIGTERM)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def recording(folder: str) -> None:
    """What an application waits for in ``tv.Monitor.record``."""
    query, answer = "Where is my order? " * 10, "It comes tomorrow. " * 30
    calls = sized(5_000, 200)
    print(f"\n{'tv.Monitor.record, µs in the caller':<36}{'median':>8}{'p99':>8}{'mean CPU':>10}")
    for rate in (0.01, 1.0):
        monitor = Monitor(
            {"name": "shop"}, sample_rate=rate, score=False, store=f"{folder}/record{rate}.db"
        )  # fmt: skip
        taken = []
        for _ in range(2):  # the first round starts the thread
            monitor.flush()
            taken, cpu = [], time.thread_time()
            for _ in range(calls):
                began = time.perf_counter()
                monitor.record(input=query, output=answer, tags=("vip",))
                taken.append(time.perf_counter() - began)
            cpu = time.thread_time() - cpu
        monitor.close()
        p50, p99 = quantile(taken, 0.5) * 1e3, quantile(taken, 0.99) * 1e3
        print(f"{f'sampling {rate:.0%}':<36}{p50:>8.1f}{p99:>8.1f}{cpu / calls * 1e6:>10.1f}")


READY = """
import sys, time
began = time.perf_counter()
from tests.otlp_requests import agent_trace, body
request = body(agent_trace())  # OpenTelemetry's messages are loaded by now
made, cpu = time.perf_counter(), time.process_time()
from trivium.monitor.completion import Completer
from trivium.monitor.intake import Intake
from trivium.store.live_alerts import open_traffic
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
with Store(sys.argv[1]) as store:
    traces = LiveTraces(store)
    with Intake(traces) as intake:
        intake.receive(request, "protobuf")
        received = time.perf_counter()
    completed = Completer(traces, lambda found: []).complete(1e9)
    open_traffic(store)
print(received - made, time.perf_counter() - made, time.process_time() - cpu)
"""


def rows_of(traces: int) -> Iterator[tuple[list[dict[str, object]], list[dict[str, object]]]]:
    """Rows of traces and spans, some at a time; four of five traces are open."""
    payload = b"x" * 800
    for first in range(0, traces, 2_000):
        numbers = range(first + 1, min(first + 2_000, traces) + 1)
        yield (
            [
                {
                    "number": number, "trace": os.urandom(16).hex(), "version": number % 5 == 0,
                    "state": "open" if number % 5 else "complete", "first": 2e9, "last": 2e9, "opened": 2e9,
                    "due": 2e9 + number, "root": True, "spans": PER_TRACE, "size": 6_400, "service": "shop",
                    "late": False, "cut": 0, "body": None,
                }
                for number in numbers
            ],
            [
                {"number": number, "span": os.urandom(8).hex(), "digest": os.urandom(8).hex(),
                 "resource": "0" * 32, "received": 2e9, "body": payload}
                for number in numbers
                for _ in range(PER_TRACE)
            ],
        )  # fmt: skip


def restart(folder: str, spans: int) -> None:
    """A new process on a store of many spans: until the first request is acknowledged."""
    url = f"sqlite:///{folder}/restart.db"
    with Store(url) as store:
        for traces, stored in rows_of(spans // PER_TRACE):
            with store.engine.begin() as connection:
                insert_many(connection, schema.live_traces, traces)
                insert_many(connection, schema.live_spans, stored)
    command = [sys.executable, "-c", READY, url]
    taken = []
    for _ in range(sized(3, 1)):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        taken.append(tuple(map(float, done.stdout.split())))
    received, looked, cpu = sorted(taken)[len(taken) // 2]
    opened = spans // PER_TRACE * 4 // 5
    print(f"\nstarting on {spans:,} stored spans and {opened:,} open traces, in seconds:")
    print(
        f"first request acknowledged after {received:.2f}, looked for due traces after {looked:.2f}", end=""
    )
    print(f" (CPU {cpu:.2f})")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few spans")
    parser.add_argument("--spans", type=int, default=sized(2_000_000, 4 * BATCH), help="spans sent at a rate")
    parser.add_argument("--stored", type=int, default=sized(1_000_000, 2_000), help="spans before a restart")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.spans, chosen.stored = min(chosen.spans, 50_000), min(chosen.stored, 100_000)
    traffic = Traffic()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARKS_FOLDER")) as folder:
        print(
            f"{'intake':<26}{'spans':>11}{'spans/s':>10}{'p50 ms':>8}{'p99 ms':>8}{'CPU s':>8}{'wall s':>8}"
        )
        at_once(folder, traffic, max(4, min(chosen.spans // BATCH, 200)))
        at_a_rate(folder, traffic, max(4, chosen.spans // BATCH))
        over_http(folder, max(4, min(chosen.spans // BATCH, 600)))
        parts(folder, traffic, sized(40, 4))
        recording(folder)
        restart(folder, chosen.stored)


if __name__ == "__main__":
    main()
