"""Agreement against scikit-learn, SciPy and worked examples of the literature."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trivium.errors import TrustError
from trivium.trust.rater_agreement import RANKED, RATES, Pairs, agreement, krippendorff_alpha, measures

pairs = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=25)


def values(judge, people, **options):
    found = agreement(judge, people, range(len(judge)), resamples=20, **options)
    return {name: figure.value for name, figure in found.figures.items()}


def near(found, want):
    """Equal, or both undefined."""
    if np.isnan(want):
        return found is None
    return found == pytest.approx(want, abs=1e-12)


@given(pairs)
def test_agreement_equals_scikit_learn_and_scipy(data):
    metrics = pytest.importorskip("sklearn.metrics")
    judge, people = [d[0] for d in data], [d[1] for d in data]
    found = values(judge, people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers warn where a rater gave one label throughout
        assert near(found["kappa"], metrics.cohen_kappa_score(judge, people))
        assert near(
            found["kappa_quadratic"],
            metrics.cohen_kappa_score(judge, people, labels=[1, 2, 3, 4, 5], weights="quadratic"),
        )
        assert near(found["spearman"], stats.spearmanr(judge, people).statistic)
        assert near(found["kendall"], stats.kendalltau(judge, people).statistic)
    assert found["exact"] == np.mean(np.equal(judge, people))
    assert found["within_one"] == np.mean(np.abs(np.subtract(judge, people)) <= 1)


def test_cohens_kappa_of_a_textbook_table():
    # 50 applications read by two people: both yes 20, yes/no 5, no/yes 10, both no 15; κ = 0.4.
    judge = [1] * 25 + [0] * 25
    people = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert values(judge, people)["kappa"] == pytest.approx(0.4)


def test_quadratic_kappa_by_hand():
    # Labels 1 and 3 only, once apart by 2 in four: observed 4/4; expected 4·(2·1 + 2·3)/16.
    assert values([1, 1, 3, 3], [1, 3, 3, 3])["kappa_quadratic"] == pytest.approx(1 - 1 / 2)


NA = np.nan
FOUR_OBSERVERS = [  # Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NA, NA, NA],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NA, 3],
    [NA, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NA],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NA],
]


def test_krippendorffs_alpha_of_his_four_observers():
    assert krippendorff_alpha(np.transpose(FOUR_OBSERVERS)) == pytest.approx(0.815, abs=5e-4)


@given(pairs)
def test_alpha_of_two_raters_is_the_same_by_either_way(data):
    by_pairs = values([d[0] for d in data], [d[1] for d in data])["alpha_ordinal"]
    by_ratings = krippendorff_alpha(data)
    assert (by_pairs is None) == (by_ratings is None)
    assert by_pairs is None or by_pairs == pytest.approx(by_ratings, abs=1e-12)


@given(pairs, st.integers(2, 9))
def test_ordinal_alpha_knows_the_order_of_labels_only(data, power):
    stretched = [(d[0] ** power, d[1] ** power) for d in data]
    assert krippendorff_alpha(data) == pytest.approx(krippendorff_alpha(stretched), abs=1e-9)


def test_alpha_without_pairs_is_unknown():
    assert krippendorff_alpha([[1, NA], [NA, 2]]) is None
    assert krippendorff_alpha([[1, 1], [1, NA]]) is None
    with pytest.raises(TrustError, match="items by raters"):
        krippendorff_alpha([1, 2])
    with pytest.raises(TrustError, match="finite numbers"):
        krippendorff_alpha([[1, np.inf], [1, 2]])


def test_one_step_is_the_scales_own():
    assert values([0.2, 0.6], [0.4, 1.0], step=0.2)["within_one"] == 0.5
    assert values([0.1 + 0.2], [0.3])["exact"] == 1.0
    assert values([0.8, 0.3], [0.7, 0.1], step=0.1)["within_one"] == 0.5  # 0.8 - 0.7 is a little over 0.1


def test_intervals_go_by_groups():
    rng = np.random.default_rng(1)
    judge = np.repeat(rng.integers(1, 6, 30), 10)
    people = np.clip(judge + np.repeat(rng.integers(-1, 2, 30), 10), 1, 5)
    grouped = agreement(judge, people, (np.arange(300) // 10).tolist(), resamples=500)
    alone = agreement(judge, people, range(300), resamples=500)
    for name in (*RATES, *RANKED):
        wide, narrow = grouped.figures[name].interval, alone.figures[name].interval
        if name != "within_one":
            assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
        assert wide.low <= grouped.figures[name].value <= wide.high
    assert (grouped.n, grouped.groups) == (300, 30)


def test_the_interval_of_kappa_covers_the_truth():
    rng, covered, worlds = np.random.default_rng(2), 0, 200
    table = np.array([[0.4, 0.1], [0.1, 0.4]])  # κ = 0.6
    for _ in range(worlds):
        cell = rng.choice(4, size=150, p=table.ravel())
        found = agreement(cell // 2, cell % 2, range(150), resamples=400).figures["kappa"].interval
        covered += found.low <= 0.6 <= found.high
    assert 0.89 <= covered / worlds <= 0.99


def test_equal_seeds_give_equal_intervals():
    judge, people = [1, 2, 3, 4, 5, 1], [1, 2, 3, 5, 4, 2]
    one, two = (agreement(judge, people, range(6), resamples=300, seed=9) for _ in range(2))
    assert one == two


def graded(groups, labels):
    """Grades by a judge and by people of one item in each group."""
    rng = np.random.default_rng(groups)
    people = rng.integers(1, labels + 1, groups)
    return np.clip(people + rng.integers(-1, 2, groups), 1, labels), people, range(groups)


@pytest.mark.parametrize(("groups", "labels"), [(300, 5), (7_000, 5), (400, 60)])
def test_threads_change_no_bit_of_any_figure(groups, labels):
    told = []
    one, many = (
        agreement(*graded(groups, labels), resamples=2_500, threads=threads, progress=told.append)
        for threads in (1, 3)
    )
    assert one == many
    assert sum(told) == 5_000


def test_memory_does_not_grow_with_resamples_times_groups():
    tracemalloc.start()
    try:
        agreement(*graded(100_000, 5), resamples=200, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 41 resamples at a time: their counts as bytes, twice, and as numbers of 8 bytes; and the items.
    assert peak < 41 * 100_000 * (2 + 8) + 60_000_000


def test_what_is_not_defined_says_why():
    figures = agreement([3, 3, 3], [3, 3, 3], ["a", "b", "c"]).figures
    assert figures["kappa"].value is None
    assert figures["kappa"].reason == "a rater gave one label throughout"
    assert figures["exact"].interval.low < 0.5  # three times right is no proof
    perfect = agreement([1, 2, 3] * 9, [1, 2, 3] * 9, range(27)).figures
    assert (perfect["kappa"].value, perfect["kappa"].interval) == (1.0, None)
    assert perfect["kappa"].reason == "the same in every resample"
    one = agreement([1, 2], [1, 3], ["a", "a"]).figures
    assert (one["exact"].interval, one["exact"].reason) == (None, "one group")
    assert one["spearman"].reason == "one group"
    nothing = agreement([], [], [])
    assert (nothing.n, nothing.groups, nothing.labels) == (0, 0, ())
    assert nothing.figures["kendall"].reason == "no item has both labels"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"judge": [1]}, "equal length"),
        ({"people": [1, np.inf]}, r"people\[1\]: must be a finite number"),
        ({"level": 1}, "level"),
        ({"step": 0}, "step"),
    ],
)
def test_invalid_data_and_options_are_refused(changes, says):
    plan = {"judge": [1, 2], "people": [1, 2], "groups": ["a", "b"]} | changes
    with pytest.raises(TrustError, match=says):
        agreement(plan.pop("judge"), plan.pop("people"), plan.pop("groups"), **plan)


def test_measurements_are_no_grades():
    with pytest.raises(TrustError, match="needs grades"):
        agreement(np.arange(501), np.arange(501), range(501))
    figures = agreement(np.arange(500), np.arange(500), range(500), resamples=0).figures
    assert {name: figure.value for name, figure in figures.items()} == pytest.approx(
        dict.fromkeys(figures, 1)
    )


def test_without_resamples_there_are_figures_and_no_resampled_intervals():
    figures = agreement([1, 2, 3, 1], [1, 2, 3, 3], range(4), resamples=0).figures
    assert figures["exact"].interval is not None
    assert figures["kappa"].value == pytest.approx(1 - (1 / 4) / (1 - 5 / 16))
    assert (figures["kappa"].interval, figures["kappa"].reason) == (None, "fewer than two resamples")


def test_many_samples_at_once_have_the_figures_of_each():
    tables = np.random.default_rng(4).integers(0, 9, (6, 4, 4)).astype(float)
    tables[5] = np.diag([5.0, 0, 0, 0])  # one label throughout: not defined
    labels = np.array([1.0, 2.0, 4.0, 5.0])
    first, second = np.divmod(np.arange(16), 4)
    stacked = measures(Pairs(tables.reshape(6, 16), first, second, labels))
    for number, table in enumerate(tables):
        rows, columns = np.nonzero(table)  # only the pairs that occur
        (alone,) = measures(Pairs(table[None, rows, columns], rows, columns, labels)).T
        assert stacked[:, number] == pytest.approx(alone, nan_ok=True)
    assert np.isnan(stacked[:, 5]).all()


@pytest.mark.parametrize("shift", [0, 1e6])
def test_many_labels_have_the_figures_of_reference_implementations(shift):
    """A judge's means over samples have hundreds of labels."""
    metrics = pytest.importorskip("sklearn.metrics")
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(11)
    people = rng.choice([0.2, 0.6, 1.0], 400) + shift
    judge = (people + rng.normal(0, 0.3, 400)).round(4)
    found = agreement(judge, people, range(400), resamples=0).figures
    labels, codes = np.unique(np.concatenate([judge, people]).round(9), return_inverse=True)
    apart = np.square(labels[codes[:400]] - labels[codes[400:]]).mean()
    chance = np.square(np.subtract.outer(labels[codes[:400]], labels[codes[400:]])).mean()
    assert found["kappa_quadratic"].value == pytest.approx(1 - apart / chance, rel=1e-9)
    assert found["kappa"].value == pytest.approx(metrics.cohen_kappa_score(codes[:400], codes[400:]))
    assert found["spearman"].value == pytest.approx(stats.spearmanr(judge, people).statistic)
    assert found["kendall"].value == pytest.approx(stats.kendalltau(judge, people).statistic)


def test_a_lower_level_makes_narrower_intervals_of_every_figure():
    rng = np.random.default_rng(5)
    judge, people = rng.integers(1, 6, 40), rng.integers(1, 6, 40)
    low, high = (
        agreement(judge, people, range(40), resamples=100, level=level).figures for level in (0.5, 0.95)
    )
    for name in (*RATES, *RANKED):
        narrow, wide = low[name].interval, high[name].interval
        assert wide.low < narrow.low < narrow.high < wide.high
        assert (narrow.level, wide.level) == (0.5, 0.95)


def test_kappa_is_covered_where_one_label_is_rare_and_a_warning_says_so():
    # 97 in 100 are right by people, and the judge calls half of the others right: kappa is 0.544.
    cells = np.array([0.97 * 0.99, 0.97 * 0.01, 0.03 * 0.5, 0.03 * 0.5])
    judged = cells[0] + cells[2]
    chance = 0.97 * judged + 0.03 * (1 - judged)
    kappa, held, given = 1 - (cells[1] + cells[2]) / (1 - chance), 0, 0
    for seed in range(80):
        drawn = np.random.default_rng([seed, 5]).choice(4, size=50, p=cells)
        people, judge = np.isin(drawn, (0, 1)), np.isin(drawn, (0, 2))
        found = agreement(judge, people, range(50), resamples=200)
        interval = found.figures["kappa"].interval
        given += interval is not None
        held += interval is not None and interval.low <= kappa <= interval.high
        rare = int((~judge | ~people).sum())
        if 0 < rare < 10:
            assert found.warnings[0].startswith(f"another label than 1 is in {rare} of 50 groups: ")
    assert given > 20
    assert held / given >= 0.93  # the bootstrap alone: 0.77


def test_where_both_labels_are_frequent_kappa_has_the_interval_of_the_bootstrap_alone(monkeypatch):
    judge, people = [1, 0] * 20, [1, 0, 1, 1] * 10
    found = agreement(judge, people, range(40), resamples=200)
    monkeypatch.setattr("trivium.trust.rater_agreement.UNSEEN_PAIRS", 0.0)
    assert agreement(judge, people, range(40), resamples=200) == found
    assert found.warnings == ()
