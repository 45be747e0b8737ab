"""Gives users access to a stored run: its summary, rows, items and disagreements."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from trivium.agents.attempt import Attempt
from trivium.display import HtmlRepr
from trivium.errors import StoreError
from trivium.metrics.evaluation import Evaluation
from trivium.runs.summary import Summary
from trivium.store.connection import DEFAULT_URL
from trivium.store.records import Provenance, RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Policy
from trivium.traces.trace import Trace

if TYPE_CHECKING:
    from trivium.runs.disagreements import Disagreements
    from trivium.runs.items.files import Labels
    from trivium.runs.items.table import ItemTable
    from trivium.runs.rows import What
    from trivium.runs.slices import Slices


KINDS = {"agent": "by an agent", "recorded": "of recorded outputs", "human": "of people's outputs"}
"""Kinds of runs that may be compared with one another, in words."""


class Run(HtmlRepr):
    """A suite evaluated once. Everything is read from the store on demand.

    Args:
        store: The store that holds the run.
        record: The record of the run.
    """

    def __init__(self, store: Store, record: RunRecord) -> None:
        self.store = store
        self.record = record

    @classmethod
    def load(cls, id: str | None = None, *, store: str | Path | Store = DEFAULT_URL) -> Self:  # noqa: A002
        """Load a stored run.

        Args:
            id: Its id, or an unambiguous prefix of it; None for the newest run.
            store: The store, or its URL.

        Raises:
            StoreError: If there is no such run.
        """
        opened = store if isinstance(store, Store) else Store(store, read_only=True)
        return cls(opened, opened.run(id))

    @property
    def id(self) -> str:
        """Id of the run."""
        return self.record.id

    @property
    def provenance(self) -> Provenance:
        """Versions, commit, seed and host."""
        return self.record.provenance

    def summary(self, *, policy: Policy | None = None) -> Summary:
        """Compute the summary from the stored evaluations.

        Args:
            policy: How gates are decided; None for the suite's policy.
        """
        from trivium.runs.summarize import summarise

        how = self.record.settings.decide
        return summarise(self.store, self.record).by(how, policy)

    def cases(self) -> Iterator[Case]:
        """Yield the cases, in suite order."""
        return self.store.cases(self.record.suite)

    def attempts(self) -> Iterator[Attempt]:
        """Yield the attempts, in suite order."""
        return (stored.attempt for stored in self.store.attempts(self.record))

    def evaluations(self) -> Iterator[Evaluation]:
        """Yield the evaluations, in suite order."""
        return (stored.evaluation for stored in self.store.evaluations(self.record))

    def items(self, *, dimension: str, labels: "str | Path | Labels") -> "ItemTable":
        """Join the judgements of a dimension (or the values of any metric) with people's labels.

        Args:
            dimension: The dimension or metric.
            labels: A file of labels, .jsonl or .csv, or labels that were read already.

        Raises:
            ItemsError: If the labels cannot be read, or do not fit the run.
        """
        from trivium.runs.items.files import Labels
        from trivium.runs.items.join import items_of_run

        read = labels if isinstance(labels, Labels) else Labels(labels)
        return items_of_run(self.store, self.record, dimension=dimension, labels=read)

    def disagreements(
        self, *, labels: str | Path | None = None, against: "Run | None" = None, at_most: int = 200
    ) -> "Disagreements":
        """Find where its judges disagree with each other, with people's labels or with another run's judges.

        Args:
            labels: A file of labels, .jsonl or .csv.
            against: Another run of the same cases.
            at_most: Most disagreements to list, largest first; all are counted.

        Raises:
            ItemsError: If the labels cannot be read, or do not fit the run.
            InputError: If the runs have no judgement in common.
        """
        from trivium.runs.disagreements import disagreements

        other = None if against is None else (against.store, against.record)
        return disagreements(self.store, self.record, labels=labels, against=other, at_most=at_most)

    def slices(self, by: str) -> "Slices":
        """Compute its figures by the values of a key, worst slice first.

        Args:
            by: ``tag``, ``complexity``, ``group``, another field of cases, a dotted path, or a metadata key.

        Raises:
            InputError: If no case has a value at the key, or there are more than 1,000 values.
        """
        from trivium.runs.slices import slices_of

        return slices_of(self.store, self.record, by)

    def with_judgements(self, path: str | Path, *, certificates: Sequence[str | Path] = ()) -> Self:
        """Store a new run with the attempts and scores of this one and judgements from a file.

        Args:
            path: Judgements, .jsonl, .csv or .parquet.
            certificates: Files written by ``trivium trust certify --output``, which decide which judgements
                are accepted and which go to people.

        Raises:
            ItemsError: If they cannot be read, or do not fit the run.
            SuiteError: If a certificate is wrong.
        """
        from trivium.runs.items.import_judgements import import_judgements

        store = Store(self.store.url, create=False) if self.store.read_only else self.store
        return type(self)(store, import_judgements(store, self.record, path, certificates))

    def to_arrow(self, what: "What" = "scores", *, labels: str | Path | None = None) -> Any:
        """Return rows of the run as a ``pyarrow.Table`` with the columns of a Parquet export.

        Args:
            what: ``scores``, ``attempts``, ``summary``, ``judgements``, ``items``, ``labels`` or ``review``.
            labels: A file of people's labels, for ``items`` and ``labels``.

        Raises:
            MissingExtra: If PyArrow is not installed.
            InputError: If there is no such kind of rows, or labels are needed.
        """
        from trivium.runs.rows import arrow_table

        return arrow_table(self.store, self.record, what, labels)

    def to_polars(self, what: "What" = "scores", *, labels: str | Path | None = None) -> Any:
        """Return rows of the run as a ``polars.DataFrame``; see :meth:`to_arrow`."""
        from trivium.runs.rows import frame_of_run

        return frame_of_run(self.store, self.record, what, labels, "polars")

    def to_pandas(self, what: "What" = "scores", *, labels: str | Path | None = None) -> Any:
        """Return rows of the run as a ``pandas.DataFrame``; see :meth:`to_arrow`."""
        from trivium.runs.rows import frame_of_run

        return frame_of_run(self.store, self.record, what, labels, "pandas")

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.record.suite_name!r}, {self.record.state}>"


def previous_run(run: Run) -> Run:
    """The newest earlier run of the same suite.

    Raises:
        StoreError: If there is none.
    """
    for earlier in earlier_runs(run):
        return earlier
    name, kind = run.record.suite_name, run.record.kind
    others = (
        each for each in run.store.runs() if each.suite_name == name and each.number < run.record.number
    )
    if (other := next((each for each in others if {kind, each.kind} <= KINDS.keys()), None)) is not None:
        raise StoreError(
            f"run {run.id} is the first of {name} {KINDS[kind]}: to compare it with run {other.id} "
            f"{KINDS[other.kind]}, name both: trivium compare {other.id} {run.id}"
        )
    raise StoreError(f"run {run.id} is the first of {name}: there is none to compare it with")


def earlier_runs(run: Run) -> Iterator[Run]:
    """Yield the earlier runs of the same suite, the newest first."""
    for record in run.store.runs():
        same = record.suite_name == run.record.suite_name and record.kind == run.record.kind
        if same and record.number < run.record.number:
            yield Run(run.store, record)


def same_attempts(base: Run, head: Run) -> bool:
    """Whether both runs have the same attempts, in the same order, with the same contents and steps.

    Times, ids of spans and usage are ignored. Reading stops at the first difference.
    """
    return all(
        ours is not None and theirs is not None and _digest(ours) == _digest(theirs)
        for ours, theirs in zip_longest(base.attempts(), head.attempts())
    )


def _digest(attempt: Attempt) -> bytes:
    trace = None if attempt.trace is None else _steps(attempt.trace)
    content = (attempt.case, attempt.repeat, attempt.shown, attempt.error, attempt.reward, trace)
    return blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).digest()


def _steps(trace: Trace) -> tuple[object, object]:
    spans = [(span.kind, span.name, span.agent, span.ok, span.input, span.output) for span in trace.spans]
    messages = [(each.sender, each.receiver, each.type, each.content) for each in trace.messages]
    return spans, messages
