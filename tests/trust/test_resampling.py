"""What a seed draws, and where; oracles: NumPy's generators called plainly, counting by hand."""

import pickle
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trivium.trust.resampling import (
    BLOCK,
    block_generator,
    draw_counts,
    on_threads,
    over_resamples,
    resample_chunks,
)


def plain(groups, resamples, seed):
    """NumPy's default generator, jumped ahead for every block of resamples."""
    block = max(1, BLOCK // groups)
    rows = [
        np.random.Generator(np.random.PCG64(seed).jumped(number)).integers(
            groups, size=(min(block, resamples - first), groups), dtype=np.int32
        )
        for number, first in enumerate(range(0, resamples, block))
    ]
    return np.concatenate(rows)


def drawn(groups, **options):
    chunks = list(resample_chunks(groups, **options))
    return np.concatenate([part for chunk in chunks for part in chunk.draws()])


@pytest.mark.parametrize("groups", [1, 5, 256, 1000])
@pytest.mark.parametrize("at_once", [3, 7])
def test_the_legacy_generator_is_randomstate_called_once_a_resample(groups, at_once):
    old = np.random.RandomState(9)
    expected = [old.randint(0, groups, size=groups).tolist() for _ in range(7)]
    assert drawn(groups, resamples=7, seed=9, rng="legacy", at_once=at_once).tolist() == expected


@pytest.mark.parametrize(("groups", "resamples"), [(1, 9), (5, 10_000), (419, 10_000), (4_000, 1_048)])
def test_the_first_block_is_numpys_default_generator(groups, resamples):
    """Up to 419 groups, 10,000 resamples are what they were before there were blocks."""
    expected = np.random.default_rng(9).integers(groups, size=(resamples, groups), dtype=np.int32)
    assert (drawn(groups, resamples=resamples, seed=9, rng="pcg64", at_once=1024) == expected).all()


@settings(max_examples=8, deadline=None)
@given(
    groups=st.sampled_from([1_000_001, 2_000_000, 5_000_000]),
    resamples=st.integers(1, 6),
    at_once=st.integers(1, 6),
    in_order=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_neither_chunks_nor_their_order_change_what_is_drawn(groups, resamples, at_once, in_order, seed):
    found = [
        part
        for chunk in resample_chunks(
            groups, resamples=resamples, seed=seed, rng="pcg64", at_once=at_once, in_order=in_order
        )
        for part in chunk.draws()
    ]
    assert (np.concatenate(found) == plain(groups, resamples, seed)).all()


@pytest.mark.parametrize("rng", ["legacy", "pcg64"])
@pytest.mark.parametrize(("groups", "at_once"), [(11, 3), (1_000_000, 3), (1_000_000, 8)])
def test_chunks_may_be_drawn_backwards_and_in_another_process(rng, groups, at_once):
    options = {"resamples": 17, "seed": 4, "rng": rng, "at_once": at_once}
    chunks = [pickle.dumps(chunk) for chunk in resample_chunks(groups, **options)]
    backwards = [pickle.loads(chunk).counts() for chunk in reversed(chunks)]
    expected = [chunk.counts() for chunk in resample_chunks(groups, in_order=True, **options)]
    assert (np.concatenate(backwards[::-1]) == np.concatenate(expected)).all()


STEP = 210306068529402873165736369884012333109
"""What :meth:`numpy.random.PCG64.jumped` is documented to jump by: (φ - 1) 2^128."""


def test_blocks_begin_so_far_apart_that_none_reaches_the_next():
    jumped, plain = block_generator(3, seed=0, rng="pcg64").bit_generator, np.random.PCG64(0)
    plain.advance(3 * STEP % 2**128)
    assert jumped.state == plain.state
    for blocks in (2, 100, 2500):
        starts = sorted(block * STEP % 2**128 for block in range(blocks))
        gaps = [b - a for a, b in zip(starts, [*starts[1:], 2**128], strict=True)]
        assert min(gaps) > 2**128 // (3 * blocks)


def test_the_states_of_blocks_share_no_more_bits_than_chance():
    """Jumps by a power of two fail this: the lower bits of all states are then the same."""
    states = [
        block_generator(block, seed=42, rng="pcg64").bit_generator.state["state"]["state"]
        for block in range(64)
    ]
    same = [(~(a ^ b) & (2**128 - 1)).bit_count() for a in states for b in states if a < b]
    assert min(same) > 64 - 6 * 32**0.5
    assert max(same) < 64 + 6 * 32**0.5


@pytest.mark.parametrize("seed", [0, 42])
def test_neighbouring_blocks_agree_no_more_often_than_chance(seed):
    groups = BLOCK // 2
    rows = drawn(groups, resamples=6, seed=seed, rng="pcg64", at_once=2)
    for block in (1, 2):
        matches = np.count_nonzero(rows[:2] == rows[2 * block : 2 * block + 2])
        assert matches < 2 + 6 * 2**0.5  # two expected
        pairs = 16 * (rows[:2] % 16) + rows[2 * block : 2 * block + 2] % 16
        joint = np.bincount(pairs.ravel(), minlength=256)
        expected = 2 * groups / 256
        chi2 = ((joint - expected) ** 2 / expected).sum()
        assert chi2 < 255 + 6 * (2 * 255) ** 0.5


@pytest.mark.parametrize("groups", [3, 300, 70_000])
def test_counts_are_how_often_each_group_was_drawn(groups):
    rows = plain(groups, 4, 1)
    counted = draw_counts(rows)
    assert counted.shape == (4, groups)
    for resample, row in enumerate(rows):
        expected = np.zeros(groups, int)
        np.add.at(expected, row, 1)
        assert counted[resample].tolist() == expected.tolist()


def test_one_group_drawn_again_and_again_is_counted_rightly():
    assert draw_counts(np.zeros((2, 1), np.int32)).tolist() == [[1], [1]]
    assert draw_counts(np.full((1, 255), 7, np.int32))[0, 7] == 255


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rng", ["legacy", "pcg64"])
def test_resamples_come_back_in_the_order_they_were_drawn(threads, rng):
    groups, options = 500_000, {"resamples": 33, "seed": 0, "rng": rng}
    rows = drawn(groups, at_once=33, **options)
    found = over_resamples(
        lambda weights: weights[:2].astype(float), groups, at_once=4, threads=threads, **options
    )
    assert found.tolist() == [(rows == group).sum(axis=1).tolist() for group in (0, 1)]


def test_no_resamples_give_nothing():
    found = over_resamples(lambda weights: weights, 5, resamples=0, seed=0, rng="pcg64")
    assert found.shape == (0, 0)


def test_what_goes_wrong_in_a_thread_is_not_lost():
    def fail(weights):
        raise ArithmeticError("in a thread")

    with pytest.raises(ArithmeticError, match="in a thread"):
        over_resamples(fail, 5, resamples=20, seed=0, rng="pcg64", at_once=4, threads=2)


def test_what_goes_wrong_here_ends_the_threads():
    def stop(done):
        raise KeyboardInterrupt

    options = {"resamples": 20, "seed": 0, "rng": "pcg64", "at_once": 4, "threads": 2}
    with pytest.raises(KeyboardInterrupt):
        over_resamples(lambda weights: weights[:1].astype(float), 5, progress=stop, **options)
    assert [each.name for each in threading.enumerate() if "ThreadPool" in each.name] == []


def test_progress_counts_every_resample_once():
    told = []
    over_resamples(
        lambda weights: weights[:1].astype(float),
        50,
        resamples=23,
        seed=0,
        rng="pcg64",
        at_once=5,
        threads=2,
        progress=told.append,
    )
    assert told == [5, 5, 5, 5, 3]


def test_no_more_than_two_chunks_beyond_the_threads_are_taken_at_a_time():
    threads, given, most = 3, 0, 0

    def chunks():
        nonlocal given
        for chunk in resample_chunks(10, resamples=40, seed=0, rng="pcg64", at_once=1):
            given += 1
            yield chunk

    for done, _ in enumerate(on_threads(threads)(lambda chunk: np.zeros((1, 1)), chunks())):
        most = max(most, given - done)
    assert given == 40
    assert most <= threads + 2


@pytest.mark.parametrize("rng", ["legacy", "pcg64"])
def test_memory_does_not_grow_with_the_resamples(rng):
    def peak(resamples):
        tracemalloc.start()
        try:
            over_resamples(
                lambda weights: weights[:1].astype(float),
                100_000,
                resamples=resamples,
                seed=0,
                rng=rng,
                at_once=4,
                threads=2,
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Each of two threads: the counts of 4 x 100,000 groups twice, and 2 resamples that are drawn and counted
    # at a time, at 4 + 1 + 1 + 4 bytes a draw. This thread: 2 resamples that are skipped.
    most = 2 * (2 * 400_000 + 10 * 200_000) + 4 * 200_000 + 200_000
    assert peak(40) < most
    assert peak(100) < most
