from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.text import lexical
from trivium.metrics.text.lexical import SizedCache


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_a_memory_never_holds_more_than_its_room(uses: list[tuple[int, int]]):
    memory: SizedCache[str] = SizedCache(capacity=80)
    sizes: dict[int, int] = {}
    for key, size in uses:
        if memory.get(key) is None:
            sizes[key] = size
            memory.put(key, f"value {key}", size)
        assert sum(sizes[each] for each in range(10) if memory.get(each) is not None) <= 80


def test_what_was_not_used_for_longest_is_forgotten_first():
    memory: SizedCache[str] = SizedCache(capacity=16)
    for key in "abcdefgh":
        memory.put(key, key.upper(), 2)
    assert memory.get("a") == "A"
    memory.put("i", "I", 2)
    assert (memory.get("a"), memory.get("b"), memory.get("i")) == ("A", None, "I")
    assert len(memory) == 8


def test_a_huge_value_is_not_cached():
    memory: SizedCache[str] = SizedCache(capacity=16)
    memory.put("small", "s", 2)
    memory.put("huge", "h", 3)
    assert (memory.get("small"), memory.get("huge")) == ("s", None)
    roomy: SizedCache[str] = SizedCache(capacity=87)
    roomy.put("an eighth", "e", 10)
    roomy.put("more", "m", 11)
    assert (roomy.get("an eighth"), roomy.get("more")) == ("e", None)


def test_keeping_twice_counts_once():
    memory: SizedCache[str] = SizedCache(capacity=16)
    memory.put("a", "first", 2)
    for key in "abcdefgh":
        memory.put(key, key, 2)
    assert (memory.get("a"), len(memory)) == ("first", 8)


def test_of_many_short_references_only_some_thousands_are_cached():
    for number in range(6000):
        lexical.Cosine().compare("sum", f"sum {number}")
    assert lexical._REFERENCES.get("sum 5999") is not None
    assert len(lexical._REFERENCES) < 5000
