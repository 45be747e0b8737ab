"""Writing suites: documents with everything, lines and tables with the cases alone."""

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.errors import MissingExtra, SuiteError
from trivium.suites.case import NOTHING_EXPECTED, Case
from trivium.suites.files.toml_text import toml

if TYPE_CHECKING:
    from trivium.suites.suite import Suite


def save(suite: "Suite", path: Path) -> None:
    """Write a suite; see ``Suite.save``. A file that is there is replaced, and only once all is written.

    Raises:
        SuiteError: If the ending says no format, or the file cannot be written.
    """
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise SuiteError(str(path), f'cannot write "{path.suffix}": expected {", ".join(WRITERS)}')
    target = Path(os.path.realpath(path))  # a link stays one
    half = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        write(suite, half)
        half.replace(target)
    except OSError as failure:
        raise SuiteError(str(path), f"cannot be written: {failure.strerror or failure}") from failure
    finally:
        half.unlink(missing_ok=True)


def _document(suite: "Suite") -> dict[str, Any]:
    """The keys of a suite file."""
    said = {"name": suite.name, "description": suite.description}
    keys = {key: value for key, value in said.items() if value is not None}
    return {
        **keys,
        **msgspec.to_builtins(suite.settings),
        "cases": [msgspec.to_builtins(case) for case in suite],
    }


def _json(suite: "Suite", path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(_document(suite)), indent=2) + b"\n")


def _yaml(suite: "Suite", path: Path) -> None:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # Quoted, since a reader may hold an unquoted word such as 012 or no for something else.
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')

    Dumper.add_representer(str, text)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(_document(suite), file, Dumper, allow_unicode=True, sort_keys=False, width=110)


def _toml(suite: "Suite", path: Path) -> None:
    path.write_text(toml(_document(suite), source=f'suite "{suite.name}"'), encoding="utf-8", newline="\n")


def _jsonl(suite: "Suite", path: Path) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.writelines(encoder.encode(case) + b"\n" for case in suite)


def _csv(suite: "Suite", path: Path) -> None:
    columns = ("id", "input", "input.json", "references", "source", "source.json", "expect", "tags",
               "complexity", "group", "metadata")  # fmt: skip
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        for case in suite:
            row = _row(case)
            if not isinstance(case.input, str) or not case.input:
                row["input.json"] = _encoded(row.pop("input"))
            if case.source == "":  # an empty cell would say that there is none
                row["source.json"] = _encoded(row.pop("source"))
            row["references"] = _encoded(row["references"]) if row["references"] else None
            row["tags"] = _encoded(row["tags"]) if row["tags"] else None
            table.writerow(row)


def _parquet(suite: "Suite", path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise MissingExtra("parquet", f"writing {path.name}") from missing
    text, texts = pa.string(), pa.list_(pa.string())
    schema = pa.schema(
        {"id": text, "input": text, "input.json": text, "references": texts, "source": text, "expect": text,
         "tags": texts, "complexity": text, "group": text, "metadata": text}
    )  # fmt: skip
    with pq.ParquetWriter(path, schema) as table:
        for start in range(0, len(suite), 1024):
            rows = [_row(case) for case in suite.cases[start : start + 1024]]
            for row in rows:
                if not isinstance(row["input"], str):
                    row["input.json"] = _encoded(row.pop("input"))
            table.write_batch(pa.RecordBatch.from_pylist(rows, schema))


def _row(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(case, name) for name in case.__struct_fields__}
    row["expect"] = _encoded(case.expect) if case.expect != NOTHING_EXPECTED else None
    row["metadata"] = _encoded(case.metadata) if case.metadata else None
    return row


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


WRITERS: dict[str, Callable[["Suite", Path], None]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".toml": _toml,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
