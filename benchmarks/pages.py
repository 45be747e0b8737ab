"""Time of each page over a store of 1,000 runs and 1,000,000 evaluations, on SQLite and PostgreSQL.

The store is filled directly, with texts of a few languages, and used again when it is there. The pages are
asked for by HTTP of a real server in a process of its own, 30 times each, other rows every time; the index of
the search is filled first, and how fast is said. Times are those of the first bytes of an answer; "filled" is
what a page asks for by itself once it is there. Bytes are those of a first visit: the page and all that it
loads, as sent with gzip where the browser takes it. CPU is that of the server's process, without that of a
database: what a page takes whatever else the machine does.

    python -m benchmarks.pages [--folder FOLDER] [--runs NUMBER] [--cases NUMBER] [--only sqlite|postgresql]
"""

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import delete, func, insert, select, text, update
from tests.monitor.samples import sample, store_samples
from tests.store.postgres import binary, server

from benchmarks.sizes import sized
from trivium.agents.attempt import Attempt
from trivium.labels.queue import LabelQueues
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.runs.summarize import summarise
from trivium.store import schema
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex, index_progress
from trivium.store.labels import QueueSettings
from trivium.store.live_alerts import locked_state
from trivium.store.records import encode
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.traces.trace import Span, Trace
from trivium.web.pages.labels import LABELLER
from trivium.web.pages.monitors import LIVE_SECONDS

ASKED = sized(30, 1)
WARM_UP = sized(1, 0)
"""Times that each page is asked for before those that count: the first loads templates and modules."""
SUITES = 10
ROWS_AT_ONCE = 5_000
COMMON = [
    "the",
    "order",
    "was",
    "sent",
    "to",
    "your",
    "address",
    "and",
    "will",
    "arrive",
    "within",
    "three",
    "days",
    "please",
    "check",
    "account",
]
RARE = 20_000
OTHERS = ("数据库连接失败", "пожалуйста подождите", "الطلب في الطريق", "die Straße ist gesperrt", "🚀 done")
MODELS = ("good", "fair", "poor")


def body(draw: random.Random, words: int) -> str:
    """A text of common words, some rare ones and at times another script."""
    said = [
        draw.choice(COMMON) if draw.random() < 0.85 else f"word{draw.randrange(RARE)}" for _ in range(words)
    ]
    return " ".join([*said, *([draw.choice(OTHERS)] if draw.random() < 0.1 else [])])


def variants(draw: random.Random, number: int) -> list[tuple[str, str, float, bool]]:
    """Bodies of attempts and evaluations to choose from; making each anew would take hours."""
    made = []
    for _ in range(number):
        value = round(draw.random(), 3)
        output = body(draw, 90)
        spans = tuple(Span(id=str(n), kind="tool", name="search", agent="writer") for n in range(3))
        attempt = Attempt(case="CASE", output=output, seconds=1.0, trace=Trace(spans=spans))
        judged = Score(
            name="judge.correct", tier="judge", value=value, detail={"reason": body(draw, 30), "evidence": []}
        )
        scores = {judged.name: judged, "jaccard": Score(name="jaccard", tier="text", value=value)}
        composite = Composite(value=value, coverage=1.0, parts={"jaccard": value}, recommendation="accept")
        passed = value > 0.3
        evaluation = Evaluation(case="CASE", repeat=0, scores=scores, composite=composite, passed=passed)
        made.append((encode(attempt), encode(evaluation), value, passed))
    return made


def fill(store: Store, runs: int, cases: int) -> None:
    """Insert runs with attempts and evaluations of all cases of their suites."""
    draw = random.Random(14)
    for suite in range(SUITES):
        store.save_cases(
            f"suite{suite}",
            [
                Case(
                    id=f"case-{n}",
                    input=body(draw, 25),
                    references=(body(draw, 40),),
                    tags=(f"part {n % 5}", f"suite {suite}"),
                )
                for n in range(cases)
            ],
        )
    made = variants(draw, sized(4_000, 20))
    with store.engine.connect() as connection:
        for number in range(1, runs + 1):
            suite, began = number % SUITES, 1.7e9 + 3_600 * number
            rate = draw.random()
            connection.execute(
                insert(schema.runs).values(
                    number=number, id=f"run-{number:06}", suite_name=f"suite {suite}", suite=f"suite{suite}",
                    kind="agent", state="done", created=began, touched=began, finished=began + 60, due=cases,
                    settings="{}", provenance="{}", attempts=cases, pass_rate=rate, composite=rate,
                    pass_rate_low=0.9 * rate, pass_rate_high=rate + 0.1 * (1 - rate),
                    agent="support.agents:answer", version=f"v{number // SUITES}",
                    git_commit=f"{number:09x}", git_subject=body(draw, 6),
                )
            )  # fmt: skip
            rows = [(position, draw.choice(made)) for position in range(cases)]
            place = [{"run": number, "position": position, "repeat": 0} for position, _ in rows]
            names = [f'"case-{position}"' for position, _ in rows]
            connection.execute(
                insert(schema.attempts),
                [
                    {**at, "case_body": None, "body": row[0].replace('"CASE"', name)}
                    for at, name, (_, row) in zip(place, names, rows, strict=True)
                ],
            )
            connection.execute(
                insert(schema.evaluations),
                [
                    {**at, "composite": row[2], "passed": row[3], "body": row[1].replace('"CASE"', name)}
                    for at, name, (_, row) in zip(place, names, rows, strict=True)
                ],
            )
            connection.commit()
    # Runs keep a summary; that of one run will do for all.
    summary = encode(summarise(store, store.run("run-000001")))
    with store.engine.begin() as connection:
        connection.execute(update(schema.runs).values(summary=summary))
    label(store, sized(300, 4))
    watch(store, runs, sized(20_000, 20))


def label(store: Store, labels: int) -> None:
    """Make a queue of labels, two of whose five items are answered by two people who often disagree."""
    queues, draw = LabelQueues(store), random.Random(16)
    queue = queues.create(
        store.run("run-000001"), "judge.correct", by="bench", seed=1, settings=QueueSettings(overlap=0.4)
    )
    for _ in range(labels):
        for name in ("ann", "ben"):
            task = queues.next(queue.id, name)
            if task is not None:
                queues.answer(queue.id, task.place, name, "label", draw.choice((0.2, 0.6, 1.0)))


def watch(store: Store, runs: int, samples: int) -> None:
    """Store samples of a monitor, and an alert."""
    draw, now = random.Random(17), time.time()
    with store.engine.begin() as connection:
        connection.execute(
            insert(schema.runs).values(
                number=runs + 1, id="live-support", suite_name="support", suite="", kind="live", state="done",
                created=now, touched=now, settings="{}", provenance="{}",
            )
        )  # fmt: skip
    store_samples(
        store,
        [
            sample(
                number, draw.random() < 0.8, monitor="support", time=now - 20 * (samples - number),
                query=body(draw, 20), output=body(draw, 60), agent=draw.choice(COMMON),
                model=draw.choice(MODELS),
            )
            for number in range(samples)
        ],
    )  # fmt: skip
    example = {"time": now, "figure": 0.0, "score": 0.0, "query": "q", "output": "o"}
    examples = [{"trace": f"t{n}", **example} for n in range(10)]
    message = {"monitor": "support", "title": "quality", "opened": now, "examples": examples}
    with locked_state(store, "support", "benchmark", now) as state:
        state.open_alert(cause="quality", status="critical", body=message, now=now)


def refresh(store: Store) -> None:
    """Make the last sample of a store that was kept be of now, and forget the answers against runs before."""
    table = schema.live_samples
    with store.engine.begin() as connection:
        late = time.time() - connection.execute(select(func.max(table.c.time))).scalar_one()
        connection.execute(update(table).values(time=table.c.time + late))
        connection.execute(delete(schema.answers_before))


def index(store: Store, at_most: float) -> None:
    """Fill the index of the search as fast as it goes, for so many seconds at most."""
    began, before = time.perf_counter(), index_progress(store).indexed
    filler, longest = SearchIndex(store), 0.0
    while time.perf_counter() - began < at_most:
        step = time.perf_counter()
        if filler.step() == IDLE_SECONDS:
            break
        longest = max(longest, time.perf_counter() - step)
    number, seconds = index_progress(store).indexed - before, time.perf_counter() - began
    if number:
        rate = number / seconds
        print(f"  index: {number:,} attempts in {seconds:.0f} s, {rate:,.0f} a second", end="")
        print(f", longest step {longest * 1e3:.0f} ms")


def pages(draw: random.Random, runs: int, cases: int, queue: str) -> dict[str, str]:
    """An address of each page."""
    number, case = draw.randint(1, runs), draw.randrange(cases)
    run, other = f"run-{number:06}", f"run-{number + (SUITES if number + SUITES <= runs else -SUITES):06}"
    return {
        "runs": f"/runs?start={draw.randrange(max(1, runs - 50))}",
        "runs, by pass rate": "/runs?sort=pass_rate",
        "runs, found by text": f"/runs?q={run[-3:]}",
        "runs of a suite": f"/runs?suite=suite+{number % SUITES}",
        "runs of a version": f"/runs?version=v{number // SUITES}",
        "runs of a tag": f"/runs?tag=suite+{number % SUITES}",
        "run": f"/runs/{run}",
        "run, failed, best first": f"/runs/{run}?verdict=failed&sort=best",
        "run, found by text": f"/runs/{run}?q=case-{case}",
        "case": f"/runs/{run}/case?id=case-{case}",
        "trace of a case": f"/runs/{run}/trace?id=case-{case}",
        "comparison, new": f"/compare/{run}/{other}",
        "comparison, filled": f"/compare/{run}/{other}",
        "comparison, again": f"/compare/{run}/{other}",
        "answer in the list, filled": f"/runs/{run}/before",
        "run as CSV": f"/runs/{run}?format=csv",
        "labels": "/labels",
        "an item to label": f"/labels/{queue}",
        "people of a queue": f"/labels/{queue}/people",
        "trust, new": f"/labels/{queue}/trust?wrong={draw.randrange(10_000, 90_000) / 1_000}",
        "trust, remembered": f"/labels/{queue}/trust?wait=true",
        "monitors": "/monitors",
        "monitor": "/monitors/support",
        "alert": "/alerts/1",
        "search, rare word": f"/search?q=word{draw.randrange(RARE)}%20",
        "search, common words": "/search?q=" + quote(" ".join(draw.sample(COMMON, 2)) + " "),
        "search, begun word": f"/search?q={draw.choice(COMMON)[:3]}",
        "search, Chinese": "/search?q=" + quote("数据库"),
        "search, phrase": "/search?q=" + quote('"order was sent"'),
        "search, common and rare": f"/search?q=order%20word{draw.randrange(RARE)}%20",
        "search, nothing": "/search?q=nowhere%20",
        "search, one run": f"/search?q=order%20&run={run}",
    }


@contextmanager
def served(url: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own; gives its port and the process."""
    command = [sys.executable, "-m", "trivium", "view", "--store", url, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            port = re.search(r":(\d+)/", process.stdout.readline())
            assert port is not None
            yield int(port[1]), process.pid
        finally:
            process.send_signal(signal.SIGINT)


def cpu_seconds(process: int) -> float:
    """CPU time that a process took so far, of all its threads; 0 where the system is not Linux."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def got(connection: HTTPConnection, path: str, part: bool = False) -> tuple[int, float, bytes]:
    """Status, seconds up to the first bytes of the body, and body of an answer."""
    cookie = f"{LABELLER}={b'cem'.hex()}"
    headers = {"Accept": "text/html", "Accept-Encoding": "gzip", "Cookie": cookie}
    headers |= {"HX-Request": "true"} if part else {}
    began = time.perf_counter()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    first = answer.read(1)
    seconds = time.perf_counter() - began
    return answer.status, seconds, first + answer.read()


def measure(url: str, runs: int, cases: int) -> None:
    """Print quantiles of each page's time, and the bytes of a first visit."""
    draw = random.Random(15)
    with Store(url, read_only=True) as store:
        queue = LabelQueues(store).all()[0].id
    with served(url) as (port, process):
        times: dict[str, list[float]] = {}
        cpu: dict[str, list[float]] = {}
        size: dict[str, int] = {}
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            for turn in range(WARM_UP + ASKED):
                for name, path in pages(draw, runs, cases, queue).items():
                    if name.startswith("monitor"):
                        time.sleep(LIVE_SECONDS)  # for which a status is kept
                    before = cpu_seconds(process)
                    status, seconds, content = got(connection, path, name.endswith(", filled"))
                    took = cpu_seconds(process) - before
                    if status not in {200, 307, 302}:
                        raise SystemExit(f"{path}: {status} {content[:300]!r}")
                    if turn >= WARM_UP:
                        times.setdefault(name, []).append(seconds)
                        cpu.setdefault(name, []).append(took)
                    found = set(re.findall(rb'"(/assets/[^"]+)"', content)) if turn < 2 else ()
                    loaded = sum(len(got(connection, each.decode())[2]) for each in found)
                    size[name] = max(size.get(name, 0), len(content) + loaded)
        heads = ("p50 ms", "p95 ms", "CPU p50", "CPU p95", "kB in all")
        print(f"  {'page':26}", *(f"{head:>9}" for head in heads))
        for name, values in times.items():
            shown = [quantile * 1e3 for quantile in (*quantiles(values), *quantiles(cpu[name]))]
            print(f"  {name:26}", *(f"{each:9.1f}" for each in (*shown, size[name] / 1e3)))


def quantiles(values: list[float]) -> tuple[float, float]:
    """The middle one, and the one that a twentieth exceeds."""
    ordered = sorted(values)
    return ordered[len(values) // 2], ordered[min(len(values) - 1, int(len(values) * 0.95))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where the stores are kept for the next time")
    parser.add_argument("--runs", type=int, default=sized(1_000, 2 * SUITES))
    parser.add_argument("--cases", type=int, default=sized(1_000, 6))
    parser.add_argument("--index-seconds", type=float, default=3_600.0)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for database in ("sqlite", "postgresql"):
            if given.only not in {None, database}:
                continue
            print(f"{database}: {given.runs:,} runs, {given.runs * given.cases:,} evaluations")
            if database == "sqlite":
                url = f"sqlite:///{folder}/pages-{given.runs}-{given.cases}.db"
            else:
                initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
                if initdb is None or pg_ctl is None:
                    print("  is not installed")
                    continue
                kept = folder / f"postgresql-{given.runs}-{given.cases}"
                kept.mkdir(exist_ok=True)
                url = stack.enter_context(server(initdb, pg_ctl, str(kept.resolve())))
            with Store(url) as store:
                if not store.runs(limit=1):
                    fill(store, given.runs, given.cases)
                index(store, given.index_seconds)
                refresh(store)
                if database == "postgresql":
                    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                        connection.execute(text("VACUUM ANALYZE"))
            if sized(True, database == "sqlite"):  # pages are the same on both
                measure(url, given.runs, given.cases)


if __name__ == "__main__":
    main()
