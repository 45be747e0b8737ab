"""Files that are no log, archives that lie about their size and bombs are refused in time."""

import json
import struct
import zipfile

import pytest
import zstandard

import trivium as tv
from tests.formats.inspect_log.packed import HEADER, log_of, pack, sample
from trivium.errors import MissingExtra, SuiteError, TraceError
from trivium.formats.inspect_log import archive
from trivium.formats.inspect_log.archive import Log


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04", "not a readable zip file"),
        (b"PK\x03\x04" + b"\0" * 500, "not a readable zip file"),
        (b"", "not valid JSON"),
        (b"[]", "not a log"),
        (b'{"eval": 1}', "not a log"),
        (b"\xff", "not valid UTF-8"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, content, what):
    path = tmp_path / "x.eval"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=what):
        Log(path)
    with pytest.raises(SuiteError):
        tv.Suite.load(f"inspect:{path}")


def test_a_zip_of_something_else_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"header\.json"):
        Log(pack(tmp_path / "x.eval", {"a.txt": b"hello"}))
    with pytest.raises(TraceError, match="no such file"):
        Log(tmp_path / "missing.eval")
    with pytest.raises(TraceError, match="is a folder"):
        Log(tmp_path)


def test_a_member_outside_its_folder_is_never_looked_at(tmp_path):
    members = {
        "header.json": HEADER,
        "../evil.json": b"x",
        "/samples/a.json": b"x",
        "samples/../b.json": b"x",
    }
    assert list(Log(pack(tmp_path / "x.eval", members)).samples()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["x.eval"]


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_every_compression_of_zip_files_is_read(tmp_path, compression):
    path = pack(tmp_path / "x.eval", {"header.json": HEADER, "samples/a.json": sample()}, compression)
    assert [found.id for found in Log(path).samples()] == ["a"]


def zstandard_zip(path, name, packed, said):
    """A zip of one member, compressed with Zstandard and lying about its size."""
    head = (
        struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 63, 0, 93, 0, 0, 0, len(packed), said, len(name), 0)
        + name
    )
    entry = struct.pack(
        "<4sHHHHHHIIIHHHHHII",
        b"PK\x01\x02",
        63,
        63,
        0,
        93,
        0,
        0,
        0,
        len(packed),
        said,
        len(name),
        0,
        0,
        0,
        0,
        0,
        0,
    )
    end = struct.pack(
        "<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(entry) + len(name), len(head) + len(packed), 0
    )
    path.write_bytes(head + packed + entry + name + end)
    return path


def test_zstandard_in_several_frames_is_read(tmp_path):
    content = json.dumps(HEADER).encode()
    pack_ = zstandard.ZstdCompressor().compress
    path = zstandard_zip(
        tmp_path / "x.eval", b"header.json", pack_(content[:20]) + pack_(content[20:]), len(content)
    )
    assert Log(path).task == "t"


def test_without_zstandard_one_line_says_what_to_install(tmp_path, monkeypatch):
    path = zstandard_zip(tmp_path / "x.eval", b"header.json", zstandard.ZstdCompressor().compress(b"{}"), 2)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[inspect\]"'):
        Log(path)


@pytest.mark.parametrize("zstd", [True, False])
def test_a_bomb_is_stopped_by_what_it_unpacks_to(tmp_path, monkeypatch, zstd):
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 10_000)
    zeros = b"0" * 5_000_000
    path = tmp_path / "x.eval"
    if zstd:
        zstandard_zip(path, b"header.json", zstandard.ZstdCompressor().compress(zeros), 5)
    else:
        pack(path, {"header.json": zeros})
    with pytest.raises(TraceError, match="more than 10,000 bytes"):
        Log(path)


def test_a_file_of_many_large_members_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 50_000)
    path = log_of(tmp_path / "x.eval", *(sample(input="x" * 10_000, id=n) for n in range(10)))
    with pytest.raises(TraceError, match="more than"):
        list(Log(path).samples())


def test_limits_of_files_and_members_hold(tmp_path, monkeypatch):
    path = log_of(tmp_path / "x.eval", sample())
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(TraceError, match="2 members"):
        Log(path)
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 10)
    with pytest.raises(TraceError, match="at most 10"):
        Log(path)
