"""What a seed draws; oracles: RandomState called plainly, counting by hand."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from trivium.trust.cluster_bootstrap import draw_counts, over_resamples, resample_chunks, resampler


@pytest.mark.parametrize("groups", [1, 5, 256, 1000])
def test_the_legacy_generator_is_randomstate_called_once_a_resample(groups):
    plain = np.random.RandomState(9)
    expected = [plain.randint(0, groups, size=groups).tolist() for _ in range(7)]
    draw = resampler(groups, seed=9, rng="legacy")
    assert [row for size in (3, 3, 1) for row in draw(size).tolist()] == expected


@pytest.mark.parametrize("groups", [1, 5, 256, 1000])
def test_the_generator_is_numpys_called_once_for_all_resamples(groups):
    expected = np.random.default_rng(9).integers(groups, size=(7, groups), dtype=np.int32).tolist()
    draw = resampler(groups, seed=9, rng="pcg64")
    assert [row for size in (3, 3, 1) for row in draw(size).tolist()] == expected


@pytest.mark.parametrize("rng", ["legacy", "pcg64"])
@pytest.mark.parametrize("groups", [11, 200_000])
def test_chunks_do_not_change_what_is_drawn(rng, groups):
    one = resampler(groups, seed=4, rng=rng)(7)
    many = list(resample_chunks(groups, resamples=7, seed=4, rng=rng, at_once=3))
    assert [len(chunk) for chunk in many] == [3, 3, 1]
    assert (draw_counts(one) == np.concatenate(many)).all()
    assert (one != resampler(groups, seed=5, rng=rng)(7)).any()


@pytest.mark.parametrize("groups", [3, 300, 70_000])
def test_counts_are_how_often_each_group_was_drawn(groups):
    drawn = resampler(groups, seed=1, rng="pcg64")(4)
    counted = draw_counts(drawn)
    assert counted.shape == (4, groups)
    for resample, row in enumerate(drawn):
        expected = np.zeros(groups, int)
        np.add.at(expected, row, 1)
        assert counted[resample].tolist() == expected.tolist()


def test_one_group_drawn_again_and_again_is_counted_rightly():
    assert draw_counts(np.zeros((2, 1), np.int32)).tolist() == [[1], [1]]
    assert draw_counts(np.full((1, 255), 7, np.int32))[0, 7] == 255


@pytest.mark.parametrize("threads", [1, 4])
def test_resamples_come_back_in_the_order_they_were_drawn(threads):
    drawn = resampler(5, seed=0, rng="pcg64")(50)
    found = over_resamples(
        lambda weights: weights[:2].astype(float),
        5,
        resamples=50,
        seed=0,
        rng="pcg64",
        at_once=4,
        threads=threads,
    )
    assert found.tolist() == [(drawn == group).sum(axis=1).tolist() for group in (0, 1)]


def test_no_resamples_give_nothing():
    found = over_resamples(lambda weights: weights, 5, resamples=0, seed=0, rng="pcg64")
    assert found.shape == (0, 0)


def test_what_goes_wrong_in_a_thread_is_not_lost():
    def fail(weights):
        raise ArithmeticError("in a thread")

    with pytest.raises(ArithmeticError, match="in a thread"):
        over_resamples(fail, 5, resamples=20, seed=0, rng="pcg64", at_once=4, threads=2)


@pytest.mark.parametrize("rng", ["legacy", "pcg64"])
def test_threads_that_help_to_count_change_nothing(rng):
    groups = 200_000
    alone = resample_chunks(groups, resamples=17, seed=4, rng=rng, at_once=8)
    with ThreadPoolExecutor(2) as pool:
        helped = resample_chunks(groups, resamples=17, seed=4, rng=rng, at_once=8, pool=pool)
        for ours, theirs in zip(alone, helped, strict=True):
            assert (ours == theirs).all()


def test_a_pool_that_never_begins_holds_nothing_up():
    """All its threads are busy: the thread that draws counts too."""
    go = Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(go.wait)
        [chunk] = resample_chunks(300_000, resamples=9, seed=4, rng="pcg64", at_once=9, pool=pool)
        go.set()
    assert (chunk == draw_counts(resampler(300_000, seed=4, rng="pcg64")(9))).all()


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


def test_memory_does_not_grow_with_the_resamples():
    def peak(resamples):
        tracemalloc.start()
        try:
            over_resamples(
                lambda weights: weights[:1].astype(float),
                100_000,
                resamples=resamples,
                seed=0,
                rng="pcg64",
                at_once=4,
                threads=2,
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Two threads: up to five chunks of 4 x 100,000 bytes with their copies, and five pieces of drawn groups.
    most = 2 * 5 * 400_000 + 5 * 3 * 1_200_000
    assert peak(40) < most
    assert peak(200) < most
