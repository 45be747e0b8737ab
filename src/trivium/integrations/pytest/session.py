"""Evaluate each suite once across workers.

The first that needs a suite evaluates all of it that is selected, many attempts at a time; whoever comes
meanwhile waits, then reads what is stored. If it dies, the next one goes on where it was cut off.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trivium.errors import TriviumError
from trivium.integrations.pytest.marks import Place, Wanted, wanted_by
from trivium.integrations.pytest.plugin import ATTEMPT, Meeting, option
from trivium.integrations.pytest.results import EvaluatedRun, TestedAttempt, record_attempt, record_run
from trivium.store.connection import DEFAULT_URL
from trivium.store.store import Store
from trivium.suites.suite import Suite

FILE_URL = "sqlite:///"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run of the session, by all its processes."""

    run: str
    suite: str
    done: bool = False


class Evaluating:
    """The runs of a session, as one of its processes sees them.

    Args:
        config: Of this process.
        meeting: The folder in which its processes meet, which need not be there yet, and the one in which
            pytest was started.
    """

    def __init__(self, config: pytest.Config, meeting: Meeting) -> None:
        self.config = config
        self._folder = Path(meeting["folder"])
        self._is_worker = hasattr(config, "workerinput")
        self.store_url = _store_url(option(config, "store") or DEFAULT_URL, Path(meeting["started"]))
        self._store: Store | None = None
        self._runs: dict[str, EvaluatedRun | TriviumError] = {}
        self._groups: list[Wanted] | None = None
        self.inconclusive = option(config, "inconclusive") or "fail"

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed."""
        if self._store is None:
            self._store = Store(self.store_url)
        return self._store

    def notes(self) -> list[Note]:
        """The runs of the session so far, in the order of the tests."""
        return [
            msgspec.json.decode(file.read_bytes(), type=Note) for file in sorted(self._folder.glob("*.json"))
        ]

    def run_for(self, request: pytest.FixtureRequest, agent: Any) -> EvaluatedRun:
        """The run that a test is marked for."""
        run = self._run(request, agent)
        record_run(request.node, run)
        return run

    def attempt_for(self, request: pytest.FixtureRequest, agent: Any) -> TestedAttempt:
        """The attempt that a test is there for."""
        run = self._run(request, agent)
        attempt = run.attempt(*request.param)
        record_attempt(request.node, attempt, run=run.id)
        return attempt

    def close(self) -> None:
        """Let the store go."""
        if self._store is not None:
            self._store.close()

    def _run(self, request: pytest.FixtureRequest, agent: Any) -> EvaluatedRun:
        item = request.node
        try:
            wanted = wanted_by(item)
            if wanted is None:
                raise TriviumError("trivium_run needs @pytest.mark.trivium(suite)")
            name = f"{self._place_of(wanted, item.session):04d}"
            own = None
            if wanted.agent is None and wanted.outputs is None:
                if agent is None:
                    raise TriviumError(
                        "nobody is there to be asked: say agent=… in the mark, --trivium-agent, or have a "
                        "fixture trivium_agent"
                    )
                if not isinstance(agent, str) or agent != option(self.config, "agent"):
                    own = item.path  # a fixture's agent is one file's: another file may have another
                    name = f"{name}-{self._place_of_file(own, item.session):04d}"
            if name not in self._runs:
                chosen = self._chosen(wanted, own, item.session)
                self._runs[name] = self._evaluated(name, wanted, wanted.agent or agent, chosen)
        except TriviumError as error:
            pytest.fail(str(error), pytrace=False)
        run = self._runs[name]
        if isinstance(run, TriviumError):
            pytest.fail(str(run), pytrace=False)
        return run

    def _evaluated(
        self, name: str, wanted: Wanted, agent: Any, chosen: set[Place] | None
    ) -> EvaluatedRun | TriviumError:
        from trivium.runs.evaluate import evaluate

        cases = None if chosen is None else {case for case, _ in chosen}
        suite = wanted.suite
        if cases is not None and len(cases) < len(suite):
            suite = suite.filter(where=lambda case: case.id in cases)
        if not self._is_worker:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        file = self._folder / f"{name}.json"
        try:
            with one_at_a_time(file.with_suffix(".lock")):
                note = msgspec.json.decode(file.read_bytes(), type=Note) if file.exists() else None
                if note is None or not note.done:
                    run = evaluate(
                        suite,
                        agent=None if wanted.outputs is not None else agent,
                        outputs=wanted.outputs,
                        store=self.store,
                        resume=self._resumed(suite) if note is None else note.run,
                        progress=_Noting(file, suite.name),
                    )
                    note = Note(run=run.id, suite=suite.name, done=True)
                    _write(file, note)
            return EvaluatedRun(
                self.store, self.store.run(note.run), inconclusive_passes=self.inconclusive == "pass"
            )
        except TriviumError as error:  # kept, so that no further test tries again
            return error

    def _resumed(self, suite: Suite) -> str | None:
        """The run that was asked for to be finished, if it is of this suite."""
        named = option(self.config, "resume")
        if named is None:
            return None
        record = self.store.run(named)
        return record.id if record.suite_name == suite.name else None

    def _place_of(self, wanted: Wanted, session: pytest.Session) -> int:
        """Which of the session's suites it is; every worker has the same tests, and counts alike."""
        if self._groups is None:
            self._groups = []
            for item in session.items:
                found = wanted_by(item)
                if found is not None and not any(found.same_as(known) for known in self._groups):
                    self._groups.append(found)
        return next(place for place, known in enumerate(self._groups) if known.same_as(wanted))

    def _place_of_file(self, path: Path, session: pytest.Session) -> int:
        return list(dict.fromkeys(item.path for item in session.items)).index(path)

    def _chosen(self, wanted: Wanted, own: Path | None, session: pytest.Session) -> set[Place] | None:
        """The attempts that tests of the session are there for, or None where one wants the whole run."""
        chosen: set[Place] = set()
        for item in session.items:
            found = wanted_by(item) if own is None or item.path == own else None
            if found is None or not found.same_as(wanted):
                continue
            names = getattr(item, "fixturenames", ())
            if "trivium_run" in names:
                return None
            if ATTEMPT in names:
                chosen.add(item.callspec.params[ATTEMPT])  # type: ignore[attr-defined]
        return chosen


class _Noting:
    """Notes a run as soon as it has begun, so that it can be gone on with."""

    def __init__(self, file: Path, suite: str) -> None:
        self._file = file
        self._suite = suite

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        _write(self._file, Note(run=run, suite=self._suite))

    def advance(self, *, done: int, failed: int) -> None:
        """Nothing: the store counts."""

    def end(self) -> None:
        """Nothing."""


def _write(file: Path, note: Note) -> None:
    beside = file.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(note))
    beside.replace(file)


def _store_url(url: str, started: Path) -> str:
    """The store; a file's relative path starts where pytest did, wherever tests go meanwhile."""
    if "://" in url and not url.startswith(FILE_URL):
        return url
    return f"{FILE_URL}{started / url.removeprefix(FILE_URL)}"


_PATIENCE_SECONDS = 0.5
"""How long Ctrl-C may go unheard while another process is waited for."""


@contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Wait until no other process holds the file, and hold it."""
    with closing(sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
        yield
        connection.execute("ROLLBACK")
