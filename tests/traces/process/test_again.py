"""Again: retries, repeats, loops, and hand-offs that go round."""

import random
from itertools import groupby

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import messages
from tests.traces.process import plainly
from tests.traces.samples import agent, tool
from trivium.traces.normalize import normalise
from trivium.traces.process.handoffs import hand_offs, without_replies
from trivium.traces.process.loops import (
    SHORT,
    CallRepeats,
    hand_off_loops,
    repetitions,
)
from trivium.traces.process.process import Process
from trivium.traces.trace import Message, Trace


def call(name, ok=True, agent="x", **arguments):
    return tool("", name, agent=agent, ok=ok, input=arguments or {"q": 1})


calls_of_few_kinds = st.lists(
    st.builds(
        call,
        st.sampled_from("ab"),
        ok=st.sampled_from([True, False, None]),
        agent=st.sampled_from([None, "x"]),
        q=st.integers(0, 1),
    ),
    max_size=14,
)


class TestRepeatedCalls:
    def test_are_retries_after_a_failure_and_repeats_after_a_success(self):
        calls = [call("a", ok=False), call("b"), call("a"), call("a"), call("a", ok=None), call("a")]
        found = [(one.call, one.before, one.retry) for one in CallRepeats(calls).repeated]
        assert found == [(2, 0, True), (3, 2, False), (4, 3, False)]

    def test_take_the_same_arguments_however_they_are_written(self):
        same = [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}, '{"b": 2, "a": 1}']
        assert len(CallRepeats([tool("", "t", input=value) for value in same]).repeated) == 2

    def test_know_nothing_of_arguments_that_were_not_recorded(self):
        assert CallRepeats([tool("", "t"), tool("", "t")]).repeated == ()

    def test_know_nothing_of_arguments_that_are_no_json(self):
        deep: list = []
        for _ in range(100_000):
            deep = [deep]
        for odd in (object(), {1: 2, "a": 3}, deep):
            assert CallRepeats([tool("", "t", input=odd), tool("", "t", input=odd)]).repeated == ()
        assert len(CallRepeats([tool("", "t", input="\ud800"), tool("", "t", input="\ud800")]).repeated) == 1

    @given(calls_of_few_kinds)
    def test_are_what_their_definition_says(self, calls):
        expected = []
        for place, one in enumerate(calls):
            same = [
                before
                for before in range(place)
                if (calls[before].agent, calls[before].name, calls[before].input)
                == (one.agent, one.name, one.input)
            ]
            if same and calls[same[-1]].ok is not None:
                expected.append((place, same[-1], calls[same[-1]].ok is False))
        assert [(one.call, one.before, one.retry) for one in CallRepeats(calls).repeated] == expected


class TestRepetitions:
    @given(st.lists(st.integers(0, 2), max_size=18))
    def test_are_what_their_definition_says(self, sequence):
        found = repetitions(sequence)
        assert {(one.start, one.end, one.period) for one in found} == plainly.repetitions(sequence)

    @given(
        st.lists(st.tuples(st.text("abc", min_size=1, max_size=5), st.integers(1, 12)), max_size=8),
        st.text("ab", min_size=SHORT + 1, max_size=SHORT + 40),
    )
    def test_of_long_sequences_are_those_of_trying_every_period(self, rounds, before):
        sequence = before + "".join(piece * times for piece, times in rounds)
        expected: dict[tuple[int, int], int] = {}
        for period in range(1, len(sequence) // 3 + 1):
            alike = [one == other for one, other in zip(sequence, sequence[period:], strict=False)]
            for same, members in groupby(range(len(alike)), alike.__getitem__):
                places = list(members)
                if same and len(places) >= 2 * period:
                    expected.setdefault((places[0], places[-1] + 1 + period), period)
        found = {(one.start, one.end): one.period for one in repetitions(sequence)}
        assert found == expected

    @given(st.text("ab", max_size=6), st.text("ab", min_size=1, max_size=4), st.integers(3, 6))
    def test_find_what_was_put_there(self, before, piece, rounds):
        assert any(
            one.start <= len(before) and one.end >= len(before) + len(piece) * rounds
            for one in repetitions(before + piece * rounds)
        )

    def test_of_20_000_elements_are_fewer_than_these(self):
        rng = random.Random(0)
        assert len(repetitions([rng.randrange(2) for _ in range(20_000)])) < 20_000
        (whole,) = repetitions("ab" * 25_000)
        assert (whole.start, whole.end, whole.period, whole.rounds) == (0, 50_000, 2, 25_000)


class TestLoops:
    def test_are_the_same_calls_three_times_or_more(self):
        calls = [call("a"), *[call("search"), call("read")] * 3, call("search"), call("b")]
        (loop,) = CallRepeats(calls).loops
        assert (loop.agent, loop.tools, loop.rounds) == ("x", ("search", "read"), 3)
        assert loop.calls == (1, 2, 3, 4, 5, 6, 7)
        assert CallRepeats(calls).looped == {3, 4, 5, 6, 7}

    def test_other_arguments_or_two_rounds_make_none(self):
        assert CallRepeats([call("search", q=number) for number in range(9)]).loops == ()
        assert CallRepeats([call("a"), call("b")] * 2).loops == ()

    def test_of_one_agent_are_found_despite_the_work_of_another(self):
        calls = []
        for number in range(3):
            calls += [call("a"), call("b", agent="y", q=number)]
        (loop,) = CallRepeats(calls).loops
        assert (loop.agent, loop.calls) == ("x", (0, 2, 4))

    def test_within_a_round_of_another_count_their_calls_once(self):
        calls = [*[call("a")] * 3, call("b")] * 3
        loops = CallRepeats(calls).loops
        assert [(loop.tools, loop.rounds) for loop in loops] == [
            (("a", "a", "a", "b"), 3),
            *[(("a",), 3)] * 3,
        ]
        assert CallRepeats(calls).looped == {1, 2, *range(4, 12)}

    @given(calls_of_few_kinds)
    def test_are_the_repetitions_among_each_agent_s_calls(self, calls):
        expected = set()
        for name in (None, "x"):
            places = [place for place, one in enumerate(calls) if one.agent == name]
            own = [(calls[place].name, calls[place].input) for place in places]
            expected |= {tuple(places[start:end]) for start, end, _ in plainly.repetitions(own)}
        assert {loop.calls for loop in CallRepeats(calls).loops} == expected


def says(*pairs):
    return [Message(sender=pair[0], receiver=pair[1]) for pair in pairs]


class TestHandOffs:
    def test_make_chains_through_whoever_received_last(self):
        found = hand_offs(says("ma", "mb", "ac", "bd", "cd", "zz"))
        assert (found.messages, found.chains, found.longest) == (5, 2, ("m", "a", "c", "d"))

    def test_to_and_fro_are_ping_pong(self):
        found = hand_offs(says("ab", "ba", "ab", "bc", "cb"))
        (game,) = found.ping_pongs
        assert (game.agents, game.messages) == (("a", "b"), 3)
        assert hand_offs(says("ab", "ba")).ping_pongs == ()
        (even,) = hand_offs(says("ab", "ba", "ab", "ba")).ping_pongs
        assert (even.agents, even.messages) == (("a", "b"), 4)

    def test_leave_out_results_that_go_back(self):
        back = Message(sender="b", receiver="a", type="result_delivery")
        on = Message(sender="b", receiver="c", type="result_delivery")
        assert without_replies([*says("ab"), back, on]) == [*says("ab"), on]
        assert hand_offs([*says("ab"), back] * 3).longest == ("a", "b")

    def test_that_go_round_are_loops(self):
        (circuit,) = hand_off_loops(hand_offs(says("ab", "bc", "ca") * 3).longest)
        assert (circuit.agents, circuit.rounds) == (("a", "b", "c"), 3)

    @given(st.lists(messages, max_size=12))
    def test_are_the_longest_paths_of_their_graph(self, said):
        passing = [one for one in without_replies(said) if one.sender != one.receiver]
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(passing)))
        for place, message in enumerate(passing):
            before = [at for at in range(place) if passing[at].receiver == message.sender]
            graph.add_edges_from([(at, place) for at in before[-1:]])
        found = hand_offs(said)
        assert found.chains == sum(degree == 0 for _, degree in graph.out_degree())
        longest = nx.dag_longest_path_length(graph) + 2 if passing else 0
        assert len(found.longest) == longest

    def test_of_50_000_messages_take_no_recursion(self):
        found = hand_offs(says("ab", "ba") * 25_000)
        assert len(found.longest) == 50_001
        assert found.ping_pongs[0].messages == 50_000


def test_what_never_finished_is_counted_by_kind_and_name():
    trace = normalise(
        [agent("m", "m", start=0.0), tool("t", "t", "m", start=1.0), tool("u", "t", "m", start=2.0)]
    )
    assert Process(trace).unfinished == {("tool", "t"): 2, ("agent", "m"): 1}


def test_a_process_lists_loops_and_circuits():
    trace = Trace(
        spans=tuple(tool(str(i), "t", agent="x", input={}) for i in range(3)),
        messages=tuple(says("ab", "ba") * 3),
    )
    process = Process(trace)
    assert process.repeats.looped == {1, 2}
    assert [(one.agents, one.rounds) for one in process.circuits] == [(("a", "b"), 3)]
    assert len(process.repeats.repeated) == 2
