"""Tests number buffers: contents, memory, the file beneath them, and what is sorted part by part."""

import pickle
import resource
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium import number_buffer
from trivium.number_buffer import BLOCK, NoRoom, NumberBuffer, SpillFile, ascending, repeated

whole_numbers = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=60)


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    """So that a few numbers make many blocks and parts; ``usual_blocks`` undoes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_buffer, "BLOCK", 8)
        patch.setattr(number_buffer, "_NEAR", 3)
        patch.setattr(number_buffer, "_SORTED_AT_ONCE", 5)
        yield


@pytest.fixture
def usual_blocks(monkeypatch):
    monkeypatch.setattr(number_buffer, "BLOCK", BLOCK)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def buffer_of(numbers, kind="Q"):
    made = NumberBuffer(kind)
    made.extend(numbers)
    return made


@pytest.mark.parametrize(
    ("kind", "dtype"), [("d", np.float64), ("q", np.int64), ("Q", np.uint64), ("I", np.uint32)]
)
@pytest.mark.parametrize("parts", [[], [0], [1], [7, 1, 1], [8], [20, 0, 3, 50]])
def test_numbers_come_out_as_they_came_in(kind, dtype, parts):
    flat, whole = NumberBuffer(kind), list(range(sum(parts)))
    rest = iter(whole)
    for count in parts:
        flat.extend([next(rest) for _ in range(count)])
    assert len(flat) == len(whole)
    assert flat.all().dtype == dtype
    assert flat.all().tolist() == whole


def test_what_was_looked_at_can_still_grow():
    flat = buffer_of([1.0, 2.0], "d")
    before = flat.all()
    flat.extend([3.0])
    before[0] = 9.0
    assert flat.all().tolist() == [1.0, 2.0, 3.0]


@given(whole_numbers, st.data())
def test_any_number_and_any_range_can_be_read(numbers, data):
    made = NumberBuffer("Q")
    for number in numbers:
        made.append(number)
    indices = data.draw(st.lists(st.integers(0, len(numbers) - 1), max_size=20)) if numbers else []
    assert [made[index] for index in indices] == [numbers[index] for index in indices]
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(numbers))] * 2)))
    assert made.read(first, last).tolist() == numbers[first:last]
    assert [number for block in made.blocks() for number in block.tolist()] == numbers


@given(whole_numbers, whole_numbers)
def test_buffers_that_share_a_file_keep_their_numbers_apart(some, others):
    file = SpillFile()
    first, second = NumberBuffer("Q", file), NumberBuffer("q", file)
    for one, other in zip(some, others, strict=False):
        first.append(one)
        second.append(other // 2)
    count = min(len(some), len(others))
    assert first.all().tolist() == some[:count]
    assert second.all().tolist() == [other // 2 for other in others[:count]]
    first.join(second)
    assert first.all().tolist() == some[:count] + second.all().tolist()


@pytest.mark.usefixtures("usual_blocks")
def test_many_numbers_take_no_more_memory_than_a_block():
    buffers = [NumberBuffer("d") for _ in range(3)]
    tracemalloc.start()
    for _ in range(10_000):
        for buffer in buffers:
            buffer.extend([0.5] * 32)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * 2 * 8 * BLOCK


@pytest.mark.usefixtures("usual_blocks")
def test_few_numbers_need_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    made = buffer_of(range(BLOCK - 1))
    assert sum(made.all().tolist()) == sum(range(BLOCK - 1))
    with pytest.raises(NoRoom, match=r"missing: no temporary file can be kept here \(No such file"):
        made.append(0)


def test_the_file_has_no_name(temporary):
    made = buffer_of(range(100))
    assert made.spilled
    assert list(temporary.iterdir()) == []


def test_on_a_full_disk_nothing_is_lost_and_the_message_says_what_to_do(temporary):
    made = buffer_of(range(1000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
    try:
        with pytest.raises(NoRoom, match=r"make room there, or name another folder in TMPDIR"):
            made.extend(range(1000, 2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert made.all().tolist() == list(range(2000))


@given(whole_numbers)
def test_a_pickled_buffer_has_its_numbers_with_it(numbers):
    again = pickle.loads(pickle.dumps(buffer_of(numbers)))
    again.append(7)
    assert again.all().tolist() == [*numbers, 7]


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="the open files of a process are found in /proc"
)
def test_buffers_that_share_a_file_share_one_when_they_are_pickled(temporary):
    file = SpillFile()
    buffers = [NumberBuffer("Q", file) for _ in range(50)]
    for buffer in buffers:
        buffer.extend(range(100))
    before = open_files()
    again = pickle.loads(pickle.dumps(buffers))
    assert [each.all().tolist() for each in again] == [list(range(100))] * 50
    assert open_files() == before + 1


@pytest.mark.parametrize("count", [0, 255, 256, 1000])
def test_a_sealed_buffer_has_its_numbers_in_the_file(usual_blocks, count):
    made = buffer_of(range(count))
    assert not made.spilled
    made.seal()
    assert made.spilled == (count >= 256)
    assert made.all().tolist() == [made[index] for index in range(count)] == list(range(count))
    assert made.read(3, 200).tolist() == list(range(count))[3:200]


def test_saved_buffers_are_read_from_their_file(tmp_path):
    counts = (0, 5, 8, 100)
    with (tmp_path / "numbers").open("xb") as file:
        offsets = [buffer_of(range(count)).save(file) for count in counts]
    saved = SpillFile.opened(tmp_path / "numbers")
    for offset, count in zip(offsets, counts, strict=True):
        again = NumberBuffer.opened(saved, offset, "Q", count)
        assert again.all().tolist() == [again[index] for index in range(count)] == list(range(count))
    (tmp_path / "numbers").write_bytes(b"")
    with pytest.raises(NoRoom):
        again.all()


@given(whole_numbers, st.integers(1, 2))
def test_parts_in_ascending_order_are_the_sorted_whole(numbers, every):
    numbers = numbers[: len(numbers) // 2 * 2]
    values, indices = [], []
    for value, index in ascending(buffer_of(numbers), every=every):
        values += value.tolist()
        indices += index.tolist()
    some = numbers[::every]
    assert values == sorted(some)
    assert indices == sorted(range(len(some)), key=some.__getitem__)


@given(whole_numbers)
def test_repeated_numbers_are_found(numbers):
    counts = Counter(numbers)
    assert repeated(buffer_of(numbers)) == [i for i, number in enumerate(numbers) if counts[number] > 1]
