"""Documents: files are read bounded, and through gzip."""

import gzip
import json
import os
from pathlib import Path

import pytest

from trivium.errors import TraceError
from trivium.traces.readers.collection import read_path
from trivium.traces.readers.json_input import HEAD_BYTES, content_of, head_of

NATIVE = json.dumps({"trace_id": "n", "spans": [{"id": "1", "kind": "tool", "name": "t"}]}).encode()


def test_a_gzipped_file_is_read_as_what_it_holds(tmp_path):
    path = tmp_path / "traces.json.gz"
    path.write_bytes(gzip.compress(NATIVE))
    found, (trace,) = read_path(path)
    assert (found, trace.trace_id) == ("native", "n")
    assert head_of(path) == NATIVE


@pytest.mark.parametrize("cut", [3, 12, 30, -9, -1])
def test_a_gzipped_file_that_is_cut_off_is_refused(tmp_path, cut):
    path = tmp_path / "traces.json.gz"
    path.write_bytes(gzip.compress(NATIVE)[:cut])
    with pytest.raises(TraceError, match="not readable gzip"):
        read_path(path)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * 10**6))
    assert path.stat().st_size < 2000
    with pytest.raises(TraceError, match="at most 5,000 are read"):
        content_of(path, max_bytes=5000)


def test_the_head_is_bounded(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"x" * (HEAD_BYTES + 1))
    assert head_of(path) == b"x" * HEAD_BYTES


def test_a_device_is_not_read():
    with pytest.raises(TraceError, match="is a device or a pipe"):
        content_of(Path(os.devnull))
