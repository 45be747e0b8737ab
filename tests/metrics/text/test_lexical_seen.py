from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.text.lexical import Seen


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_a_memory_never_holds_more_than_its_room(uses: list[tuple[int, int]]):
    memory: Seen[str] = Seen(room=80)
    sizes: dict[int, int] = {}
    for key, size in uses:
        if memory.get(key) is None:
            sizes[key] = size
            memory.keep(key, f"value {key}", size)
        assert memory.taken <= 80
        assert memory.taken == sum(sizes[each] for each in range(10) if memory.get(each) is not None)


def test_what_was_not_used_for_longest_is_forgotten_first():
    memory: Seen[str] = Seen(room=16)
    for key in "abcdefgh":
        memory.keep(key, key.upper(), 2)
    assert memory.get("a") == "A"
    memory.keep("i", "I", 2)
    assert (memory.get("a"), memory.get("b"), memory.get("i")) == ("A", None, "I")
    assert len(memory) == 8


def test_a_huge_value_is_not_kept():
    memory: Seen[str] = Seen(room=16)
    memory.keep("small", "s", 2)
    memory.keep("huge", "h", 3)
    assert (memory.get("small"), memory.get("huge")) == ("s", None)
    roomy: Seen[str] = Seen(room=87)
    roomy.keep("an eighth", "e", 10)
    roomy.keep("more", "m", 11)
    assert (roomy.get("an eighth"), roomy.get("more")) == ("e", None)


def test_keeping_twice_counts_once():
    memory: Seen[str] = Seen(room=16)
    memory.keep("a", "first", 2)
    memory.keep("a", "second", 2)
    assert (memory.get("a"), memory.taken) == ("first", 2)
