"""Partitions that are missing or damaged, or to which no row points."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.store.partitions.test_partitions import (
    CASES,
    _small_partitions,
    everything,
    files,
    outputs,
    scored,
)
from trivium.errors import StoreError
from trivium.runs.pipeline import NoProgress
from trivium.store.partitions import reader, writer
from trivium.store.store import Store

__all__ = ["_small_partitions", "outputs"]


@pytest.mark.parametrize("lost", ["missing", "shorter", "changed"])
def test_a_lost_partition_is_named_and_can_be_scored_again(
    tmp_path: Path, outputs: str, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = f"{tmp_path}/s.db"
    run = scored(store, outputs, partitions=f"{tmp_path}/parts")
    whole = everything(store, run)
    second = files(run, tmp_path / "parts")[1]
    content = second.read_bytes()
    if lost == "missing":
        second.unlink()
    elif lost == "shorter":
        second.write_bytes(content[:1000])
    else:
        second.write_bytes(
            content[:1000] + bytes(byte ^ 0xFF for byte in content[1000:6000]) + content[6000:]
        )
    with pytest.raises(StoreError, match=rf"attempts in {second} cannot be read .* `--resume` scores these"):
        everything(store, run)
    again = scored(store, outputs, resume=run.id)
    assert f"{second} is missing or damaged: its 256 attempts are scored again" in caplog.text
    assert everything(store, again) == whole
    assert sum(pq.read_metadata(file).num_rows for file in files(again, tmp_path / "parts")) == CASES


def test_all_partitions_that_are_lost_are_scored_again(
    tmp_path: Path, outputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_LOST_AT_ONCE", 2)
    store = f"{tmp_path}/s.db"
    run = scored(store, outputs, partitions=f"{tmp_path}/parts")
    whole = everything(store, run)
    lost = files(run, tmp_path / "parts")
    for file in lost:
        file.unlink()
    again = scored(store, outputs, resume=run.id)
    assert everything(store, again) == whole
    kept = files(again, tmp_path / "parts")
    assert (len(lost), sum(pq.read_metadata(file).num_rows for file in kept)) == (3, CASES)
    with Store(store) as opened:
        assert [each.url for each in opened.partitions(run.record.number)] == [str(file) for file in kept]


def test_a_run_whose_partitions_cannot_be_read_when_it_ends_is_interrupted(
    tmp_path: Path, outputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"{tmp_path}/s.db"
    run = scored(store, outputs, partitions=f"{tmp_path}/parts")
    files(run, tmp_path / "parts")[0].write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(reader.Partition, "is_whole", True)  # it is damaged only afterwards
        with pytest.raises(StoreError, match="part-000000000.parquet cannot be read"):
            scored(store, outputs, resume=run.id)
    with Store(store) as opened:
        assert opened.run().state == "interrupted"
    assert scored(store, outputs, resume=run.id).record.state == "done"


def test_partitions_to_which_no_row_points_are_deleted(tmp_path: Path, outputs: str) -> None:
    store, parts = f"{tmp_path}/s.db", tmp_path / "parts"

    class Lost(NoProgress):
        """Leaves what a worker leaves that is killed while it writes a partition, or after that."""

        def begin(self, *, run: str, total: int | None, already: int) -> None:
            for name in ("part-000000700.parquet", ".part-000000900.parquet", "my-part-1.parquet"):
                (parts / run / name).write_bytes(b"left")

    run = scored(store, outputs, partitions=str(parts), progress=Lost())
    names = [f"part-{number:09}.parquet" for number in range(3)]
    left = sorted(file.name for file in (parts / run.id).iterdir())
    assert left == ["manifest.json", "my-part-1.parquet", *names]


def test_a_manifest_says_where_partitions_of_another_folder_are(tmp_path: Path, outputs: str) -> None:
    store = f"{tmp_path}/s.db"
    run = scored(store, outputs, partitions=f"{tmp_path}/parts")
    first, *others = files(run, tmp_path / "parts")
    first.unlink()
    again = scored(store, outputs, resume=run.id, partitions=f"{tmp_path}/more")
    (new,) = files(again, tmp_path / "more")
    manifest = json.loads((tmp_path / "more" / run.id / "manifest.json").read_text())
    assert [each["file"] for each in manifest["partitions"]] == [*map(str, others), new.name]


def test_a_changed_page_is_found(tmp_path: Path, outputs: str) -> None:
    run = scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/parts")
    first = files(run, tmp_path / "parts")[0]
    content = bytearray(first.read_bytes())
    for at in range(1000, 6000, 50):
        content[at] ^= 0xFF
    first.write_bytes(content)
    with pytest.raises(StoreError, match="part-000000000.parquet cannot be read"):
        everything(f"{tmp_path}/s.db", run)
