"""Speed of cosine compared with scikit-learn. Run: python -m benchmarks.cosine

A pair is timed with new texts on both sides (nothing cached), and with a reference that is in the cache.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from random import Random
from statistics import median
from time import perf_counter

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from benchmarks.prose import prose
from benchmarks.sizes import sized
from trivium.metrics.text.lexical import Cosine

PAIRS = sized(30, 2)
ROUNDS = sized(7, 1)
TARGETS = {("new", 500): 7, ("new", 2000): 5, ("cached", 500): 10, ("cached", 2000): 7}

Pair = tuple[str, str]


def scikit_learn(a: str, b: str) -> float:
    rows = TfidfVectorizer(stop_words="english", ngram_range=(1, 2)).fit_transform([a, b])
    return float(cosine_similarity(rows[0], rows[1])[0, 0])


def seconds_per_pair(compare: Callable[[str, str], float], pairs: Sequence[Pair]) -> float:
    start = perf_counter()
    for a, b in pairs:
        compare(a, b)
    return (perf_counter() - start) / len(pairs)


def main() -> None:
    random = Random(1)
    print(f"cosine: median of {ROUNDS} rounds of {PAIRS} pairs; scikit-learn {version('scikit-learn')}")
    print(" words  reference   scikit-learn    trivium   ratio  target     apart")
    for words in (500, 2000):
        for kind in ("new", "cached"):
            peer, ours, apart = [], [], 0.0
            reference = prose(words, random)
            for _ in range(ROUNDS):
                pairs = [
                    (prose(words, random), reference if kind == "cached" else prose(words, random))
                    for _ in range(PAIRS)
                ]
                compare = Cosine().compare
                if kind == "cached":
                    compare(reference, reference)
                ours.append(seconds_per_pair(compare, pairs))
                peer.append(seconds_per_pair(scikit_learn, pairs))
                apart = max(apart, *(abs(compare(a, b) - scikit_learn(a, b)) for a, b in pairs[:5]))
            ratio = median(theirs / own for theirs, own in zip(peer, ours, strict=True))
            print(f"{words:>6} {kind:>10} {median(peer) * 1e6:>11.0f} µs {median(ours) * 1e6:>7.0f} µs "
                  f"{ratio:>6.1f}x {TARGETS[kind, words]:>6}x {apart:>9.1e}")  # fmt: skip


if __name__ == "__main__":
    main()
