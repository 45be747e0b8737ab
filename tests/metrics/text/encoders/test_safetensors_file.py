import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.encoders import write_safetensors
from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.safetensors_file import Tensors

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def raw(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def read(file: Path) -> np.ndarray:
    return Tensors([file]).read("a", (2, 3))


def test_what_the_library_writes_is_read(file: Path):
    library = pytest.importorskip("safetensors.numpy")
    arrays = {"a": ARRAY, "b": ARRAY.astype(np.float16), "c": ARRAY.astype(np.float64), "d": np.arange(3)}
    library.save_file(arrays, file)
    tensors = Tensors([file])
    for name in "abc":
        found = tensors.read(name, (2, 3))
        assert found.dtype == np.float32
        assert np.array_equal(found, ARRAY)
    assert "d" in tensors
    assert "e" not in tensors


def test_what_is_stored_in_single_precision_is_not_copied(file: Path):
    write_safetensors(file, {"a": ARRAY})
    header = int.from_bytes(file.read_bytes()[:8], "little")
    padding = -header % 4  # as the library pads, so that numbers begin at a multiple of their size
    content = file.read_bytes()
    file.write_bytes(raw(content[8 : 8 + header] + b" " * padding, content[8 + header :]))
    found = read(file)
    assert np.array_equal(found, ARRAY)
    assert not found.flags.owndata
    assert not found.flags.writeable


@pytest.mark.parametrize("padding", range(4))
def test_tensors_may_begin_anywhere(padding: int, file: Path):
    write_safetensors(file, {"a": ARRAY}, __metadata__={"pad": " " * padding})
    found = read(file)
    assert found.flags.aligned
    assert np.array_equal(found, ARRAY)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no safetensors file"),
        (b"1234567", "no safetensors file"),
        (b"no weights at all", "no safetensors file"),
        (raw(b"{}", length=2**63), "no safetensors file"),
        (raw(b"{}", length=200_000_000), "no safetensors file"),
        (raw(b"{}", length=3), "no safetensors file"),
        (raw(b"{"), "no readable header"),
        (raw(b"\xff\xfe"), "no readable header"),
        (raw(b"[" * 100_000), "no readable header"),
        (raw(b'{"a": ' + b"9" * 5_000 + b"}"), "no readable header"),
        (raw(b"[]"), "a header that is no JSON object"),
        (raw(b"{}"), "has no tensor a"),
    ],
)
def test_what_is_no_safetensors_file_is_named(content: bytes, said: str, file: Path):
    file.write_bytes(content)
    with pytest.raises(EncoderUnavailable, match=rf"model\.safetensors.*{said}"):
        read(file)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (None, "not described by an object"),
        ([], "not described by an object"),
        ({"dtype": "I64"}, "is of type 'I64'; expected F64, F32, F16, BF16"),
        ({"dtype": ["F32"]}, "is of type"),
        ({"shape": [3, 2]}, r"has shape \[3, 2\], but config.json calls for \[2, 3\]"),
        ({"shape": None}, "has shape None"),
        ({"shape": [-2, -3]}, "has shape"),
        ({"data_offsets": [0, 20]}, r"lies at \[0, 20\] of 24 bytes"),
        ({"data_offsets": [4, 28]}, "lies at"),
        ({"data_offsets": [-24, 0]}, "lies at"),
        ({"data_offsets": [24, 0]}, "lies at"),
        ({"data_offsets": [0, 24, 48]}, "lies at"),
        ({"data_offsets": [0.0, 24.0]}, "lies at"),
        ({"data_offsets": [False, 24]}, "lies at"),
        ({"data_offsets": None}, "lies at"),
        ({"data_offsets": [0, 10**30]}, "lies at"),
    ],
)
def test_a_header_that_does_not_fit_its_file_is_named(stated: object, said: str, file: Path):
    whole = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    write_safetensors(file, {"a": ARRAY}, a=whole | stated if isinstance(stated, dict) else stated)
    with pytest.raises(EncoderUnavailable, match=f"tensor a .*{said}"):
        read(file)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["F32", "BF16"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    stated=st.fixed_dictionaries({}, optional={"dtype": JSON, "shape": JSON, "data_offsets": JSON}) | JSON,
    data=st.binary(max_size=32),
)
def test_no_header_gives_anything_but_an_array_or_a_reason(stated, data, tmp_path_factory):
    file = tmp_path_factory.mktemp("any") / "model.safetensors"
    file.write_bytes(raw(json.dumps({"a": stated}).encode(), data))
    with suppress(EncoderUnavailable):
        assert read(file).shape == (2, 3)
