"""A partition: the Parquet file that holds attempts and evaluations of a run, and what is known of it.

It needs no database, so the workers of a run, which write partitions, do not import SQLAlchemy.
"""

import io
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import StoreError
from trivium.storage import FETCHED_TO_COPY, is_remote, open_file, path_of
from trivium.store.records import AttemptValues, Rows, RunRecord

PARTITION_ROWS = 10_000
PARTITION_BYTES = 128 * 1024**2
PARTITION_SECONDS = 30.0
"""A partition ends at any of these limits; its bytes are those of the bodies, before they are compressed."""

POINTER = "@"
"""Beginning of what names a row of a partition in place of a body."""

PREFIX, SUFFIX = "part-", ".parquet"
"""Of the names of partitions; while one is being written, a dot comes first."""

new_digest = partial(blake2b, digest_size=16)
"""Begins the digest of a file."""


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file with attempts and evaluations of a run.

    Attributes:
        number: Number in the run, from 0.
        url: Path or address of the file.
        rows: Number of attempts.
        bytes: Size of the file.
        digest: BLAKE2b digest of the file, 32 hexadecimal digits.
    """

    number: int
    url: str
    rows: int
    bytes: int
    digest: str

    def row(self, run: int) -> dict[str, object]:
        """The row of the table ``partitions`` for the run with this number."""
        return {"run": run} | msgspec.structs.asdict(self)

    @property
    def is_whole(self) -> bool:
        """Whether the file is there as it was written, which takes reading it.

        Raises:
            StoreError: If that cannot be found out.
        """
        path = path_of(self.url)
        try:
            if path.stat().st_size != self.bytes:
                return False
            digest = new_digest()
            with open_file(path, read_at_once=FETCHED_TO_COPY) as file:
                while block := file.read(FETCHED_TO_COPY):
                    digest.update(block)
            return digest.hexdigest() == self.digest
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"{self.url}: cannot be reached: {error.strerror or error}") from error


def _schema() -> Any:
    """The columns of a partition."""
    import pyarrow as pa

    return pa.schema(
        [
            ("case", pa.string()),
            ("position", pa.int32()),
            ("repeat", pa.int32()),
            ("composite", pa.float64()),
            ("passed", pa.bool_()),
            ("scores", pa.map_(pa.string(), pa.float64())),
            ("attempt", pa.string()),
            ("evaluation", pa.string()),
        ]
    )


class PartitionFile:
    """A partition that is being written, under another name until it is complete.

    Args:
        run: The run.
        folder: Path or address of the folder that holds the run's folder.
        number: Number of the partition in the run.

    Attributes:
        pointers: Rows of the database that point at it.

    Raises:
        OSError: If the file cannot be written.
    """

    def __init__(self, run: RunRecord, folder: str, number: int) -> None:
        self._schema = _schema()
        import pyarrow.parquet as pq

        self._number = number
        self._path = path_of(folder) / run.id / _name(number)
        # An object becomes visible when it is complete; a file when it gets its name.
        is_object = is_remote(folder)
        self._written = self._path if is_object else self._path.with_name(f".{self._path.name}")
        self.pointers = Rows(run)
        self._bytes = 0
        self._began = time.monotonic()
        self._hashed = _Hashed(self._written.open("wb"))
        try:
            self._writer = pq.ParquetWriter(
                self._hashed,
                self._schema,
                compression="zstd",
                write_page_checksum=True,
                use_dictionary=["case"],
            )
        except BaseException:
            self.abandon()
            raise

    @property
    def is_full(self) -> bool:
        """Whether another one should be begun."""
        return (
            len(self.pointers.evaluations) >= PARTITION_ROWS
            or self._bytes >= PARTITION_BYTES
            or time.monotonic() - self._began >= PARTITION_SECONDS
        )

    def write(self, rows: Rows) -> None:
        """Write a row group."""
        import pyarrow as pa

        none: list[AttemptValues | None] = [None] * len(rows.evaluations)
        attempts: Sequence[AttemptValues | None] = rows.attempts or none
        table: list[dict[str, object]] = []
        for attempt, scored, outline in zip(attempts, rows.evaluations, rows.outlines(), strict=True):
            body = None if attempt is None else attempt["body"]
            table.append(
                {
                    "case": outline.case,
                    "position": scored["position"],
                    "repeat": scored["repeat"],
                    "composite": scored["composite"],
                    "passed": scored["passed"],
                    "scores": [(name, score.value) for name, score in outline.scores.items()],
                    "attempt": body,
                    "evaluation": scored["body"],
                }
            )
            pointer = f"{POINTER}{self._number}:{len(self.pointers.evaluations)}"
            if attempt is not None:
                self.pointers.attempts.append({**attempt, "body": pointer})
            self.pointers.evaluations.append({**scored, "body": pointer})
            self._bytes += len(body or "") + len(scored["body"])
        self.pointers.failed += rows.failed
        self._writer.write_batch(pa.RecordBatch.from_pylist(table, schema=self._schema))

    def completed(self) -> Partition:
        """Complete the file."""
        self._writer.close()
        self._hashed.close()
        if self._written != self._path:
            self._written.rename(self._path)
        return Partition(
            number=self._number,
            url=url_of(self._path),
            rows=len(self.pointers.evaluations),
            bytes=self._hashed.size,
            digest=self._hashed.digest,
        )

    def abandon(self) -> None:
        """Delete the file."""
        with suppress(OSError, ValueError):
            self._hashed.close()
        with suppress(OSError):
            self._written.unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """A file that is written from end to end, with the digest and size of what was written."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = new_digest()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            super().close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def url_of(path: Path) -> str:
    """The absolute path of a file, or its address."""
    return str(path if is_remote(str(path)) else path.resolve())


def _name(number: int) -> str:
    return f"{PREFIX}{number:09}{SUFFIX}"
