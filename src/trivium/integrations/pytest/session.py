"""Evaluates each suite once for all workers.

The first worker that needs a suite evaluates all of its selected cases concurrently. The others wait for it
and read the stored run. If that worker dies, another one resumes the run.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trivium.errors import TriviumError
from trivium.integrations.pytest.marks import AttemptKey, MarkedSuite, marked_suite
from trivium.integrations.pytest.options import ATTEMPT, SessionPaths, option, policy_of
from trivium.integrations.pytest.results import EvaluatedRun, TestedAttempt, record_attempt, record_run
from trivium.runs.pipeline import NoProgress
from trivium.store.connection import DEFAULT_URL
from trivium.store.store import Store
from trivium.suites.suite import Suite
from trivium.values import resolved

FILE_URL = "sqlite:///"


@resolved
class RunNote(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the session, as written to a file that all processes of the session read."""

    run: str
    suite: str
    done: bool = False


class SessionRuns:
    """The runs of a test session, in one of its processes.

    Args:
        config: pytest's configuration in this process.
        paths: The folder that the processes share, which need not exist yet, and the folder in which pytest
            started.
    """

    def __init__(self, config: pytest.Config, paths: SessionPaths) -> None:
        self.config = config
        self._folder = Path(paths["folder"])
        self._is_worker = hasattr(config, "workerinput")
        self.store_url = _store_url(option(config, "store") or DEFAULT_URL, Path(paths["started"]))
        self._store: Store | None = None
        self._runs: dict[str, EvaluatedRun | TriviumError] = {}
        self._groups: list[MarkedSuite] | None = None
        self.policy = policy_of(config)

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        if self._store is None:
            self._store = Store(self.store_url)
        return self._store

    def notes(self) -> list[RunNote]:
        """Return the notes of the session's runs so far, in the order of the tests."""
        return [
            msgspec.json.decode(file.read_bytes(), type=RunNote)
            for file in sorted(self._folder.glob("*.json"))
        ]

    def run_for(self, request: pytest.FixtureRequest, agent: Any) -> EvaluatedRun:
        """Return the run of a test's mark, evaluated on first use."""
        run = self._run(request, agent)
        record_run(request.node, run)
        return run

    def attempt_for(self, request: pytest.FixtureRequest, agent: Any) -> TestedAttempt:
        """Return the attempt of a parametrised test."""
        run = self._run(request, agent)
        attempt = run.attempt(*request.param)
        record_attempt(request.node, attempt, run=run.id)
        return attempt

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    def _run(self, request: pytest.FixtureRequest, agent: Any) -> EvaluatedRun:
        item = request.node
        try:
            marked = marked_suite(item)
            if marked is None:
                raise TriviumError("trivium_run needs @pytest.mark.trivium(suite)")
            name = f"{self._index_of(marked, item.session):04d}"
            own_file = None
            if marked.agent is None and marked.outputs is None:
                given, agent = agent, agent or marked.suite.settings.agent
                if agent is None:
                    raise TriviumError(
                        "there is no agent to call: name one with agent=… in the mark, --trivium-agent or "
                        "the suite's agent: …, or define a fixture trivium_agent"
                    )
                if given is not None and given != option(self.config, "agent"):
                    own_file = item.path  # each file can define its own fixture trivium_agent
                    name = f"{name}-{self._index_of_file(own_file, item.session):04d}"
            if name not in self._runs:
                selected = self._selected(marked, own_file, item.session)
                self._runs[name] = self._evaluate(name, marked, marked.agent or agent, selected)
        except TriviumError as error:
            pytest.fail(str(error), pytrace=False)
        run = self._runs[name]
        if isinstance(run, TriviumError):
            pytest.fail(str(run), pytrace=False)
        return run

    def _evaluate(
        self, name: str, marked: MarkedSuite, agent: Any, selected: set[AttemptKey] | None
    ) -> EvaluatedRun | TriviumError:
        from trivium.runs.evaluate import evaluate

        cases = None if selected is None else {case for case, _ in selected}
        suite = marked.suite
        if cases is not None and len(cases) < len(suite):
            suite = suite.filter(where=lambda case: case.id in cases)
        if not self._is_worker:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        file = self._folder / f"{name}.json"
        try:
            with exclusive_lock(file.with_suffix(".lock")):
                note = msgspec.json.decode(file.read_bytes(), type=RunNote) if file.exists() else None
                if note is None or not note.done:
                    run = evaluate(
                        suite,
                        agent=None if marked.outputs is not None else agent,
                        outputs=marked.outputs,
                        version=option(self.config, "agent_version"),
                        store=self.store,
                        resume=self._resume_id(suite) if note is None else note.run,
                        progress=_NoteWriter(file, suite.name),
                    )
                    note = RunNote(run=run.id, suite=suite.name, done=True)
                    _write(file, note)
            return EvaluatedRun(self.store, self.store.run(note.run), policy=self.policy)
        except TriviumError as error:  # cached, so that no other test tries again
            return error

    def _resume_id(self, suite: Suite) -> str | None:
        """Return the id of the run that ``--trivium-resume`` names, if it is a run of this suite."""
        named = option(self.config, "resume")
        if named is None:
            return None
        record = self.store.run(named)
        return record.id if record.suite_name == suite.name else None

    def _index_of(self, marked: MarkedSuite, session: pytest.Session) -> int:
        """Return the index of a marked suite, equal on all workers because they collect the same tests."""
        if self._groups is None:
            self._groups = []
            for item in session.items:
                found = marked_suite(item)
                if found is not None and not any(found.same_as(known) for known in self._groups):
                    self._groups.append(found)
        return next(index for index, known in enumerate(self._groups) if known.same_as(marked))

    def _index_of_file(self, path: Path, session: pytest.Session) -> int:
        return list(dict.fromkeys(item.path for item in session.items)).index(path)

    def _selected(
        self, marked: MarkedSuite, own_file: Path | None, session: pytest.Session
    ) -> set[AttemptKey] | None:
        """Return the attempts that the session's tests need, or None if a test needs the whole run."""
        selected: set[AttemptKey] = set()
        for item in session.items:
            found = marked_suite(item) if own_file is None or item.path == own_file else None
            if found is None or not found.same_as(marked):
                continue
            names = getattr(item, "fixturenames", ())
            if "trivium_run" in names:
                return None
            if ATTEMPT in names:
                selected.add(item.callspec.params[ATTEMPT])  # type: ignore[attr-defined]
        return selected


class _NoteWriter(NoProgress):
    """Writes the note of a run as soon as it has started, so that it can be resumed."""

    def __init__(self, file: Path, suite: str) -> None:
        self._file = file
        self._suite = suite

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        _write(self._file, RunNote(run=run, suite=self._suite))


def _write(file: Path, note: RunNote) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_bytes(msgspec.json.encode(note))
    temporary.replace(file)


def _store_url(url: str, started: Path) -> str:
    """Resolve a relative path of a file against the folder that pytest started in; tests may change it."""
    if "://" in url and not url.startswith(FILE_URL):
        return url
    return f"{FILE_URL}{started / url.removeprefix(FILE_URL)}"


_LOCK_TIMEOUT_SECONDS = 0.5
"""Longest delay of Ctrl-C while another process holds the lock."""


@contextmanager
def exclusive_lock(file: Path) -> Iterator[None]:
    """Hold a lock on a file, waiting until no other process has it."""
    with closing(sqlite3.connect(file, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
        yield
        connection.execute("ROLLBACK")
