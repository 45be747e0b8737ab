"""Times: the critical path, whose the time was, and how much went on at once."""

import random
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given

from tests.strategies import traces
from tests.traces.process import plainly
from tests.traces.samples import agent, tool
from trivium.traces.normalize import normalise
from trivium.traces.process.process import Process
from trivium.traces.trace import Span


def path_steps(process):
    return [
        (None if one.span is None else process.trace.spans[one.span].id, one.start, one.end)
        for one in process.path_segments
    ]


FORK = normalise(
    [
        agent("boss", "boss", start=0.0, end=10.0),
        tool("slow", "search", "boss", start=1.0, end=6.0),
        tool("fast", "read", "boss", start=1.0, end=4.0),
        tool("last", "write", "boss", start=7.0, end=9.0),
    ]
)
"""A fork of two calls, the slower of which holds up a third."""


class TestTheCriticalPath:
    def test_goes_through_the_slower_branch_and_what_lies_between(self):
        assert path_steps(Process(FORK)) == [
            ("boss", 0, 1),
            ("slow", 1, 6),
            ("boss", 6, 7),
            ("last", 7, 9),
            ("boss", 9, 10),
        ]
        steps = {step.span: (step.at, step.seconds, step.share) for step in Process(FORK).path}
        assert steps == {"boss": (0, 3, 0.3), "slow": (1, 5, 0.5), "last": (7, 2, 0.2)}

    def test_takes_what_still_ran_only_where_nothing_had_ended(self):
        trace = normalise([tool("a", "a", start=0.0, end=10.0), tool("b", "b", start=5.0, end=12.0)])
        assert path_steps(Process(trace)) == [("a", 0, 5), ("b", 5, 12)]
        early = normalise([*trace.spans, tool("c", "c", start=0.0, end=4.0)])
        assert path_steps(Process(early)) == [("c", 0, 4), (None, 4, 5), ("b", 5, 12)]

    def test_reaches_as_far_as_what_was_started_where_a_span_never_ended(self):
        trace = normalise([agent("m", "m", start=0.0), tool("t", "t", "m", start=2.0, end=5.0)])
        assert path_steps(Process(trace)) == [("m", 0, 2), ("t", 2, 5)]

    def test_is_empty_without_times(self):
        process = Process(normalise([tool("t", "t")]))
        assert (process.seconds, process.path, process.by_tool, process.concurrency.work) == (
            None,
            (),
            (),
            0,
        )

    @given(plainly.timed_traces())
    def test_is_what_its_definition_says(self, trace):
        assert path_steps(Process(trace)) == plainly.path(trace)[::-1]

    @given(traces())
    def test_covers_the_whole_trace_end_to_end(self, trace):
        process = Process(trace)
        path_segments = process.path_segments
        if process.busy_times.whole is None:
            assert path_segments == ()
            return
        assert (path_segments[0].start, path_segments[-1].end) == process.busy_times.whole
        assert all(one.end == other.start for one, other in pairwise(path_segments))

    @pytest.mark.parametrize("seed", range(25))
    def test_is_the_longest_path_of_a_workflow_whose_steps_start_when_what_they_need_is_there(self, seed):
        rng = random.Random(seed)
        needs = {step: [before for before in range(step) if rng.random() < 0.3] for step in range(12)}
        took = {step: float(rng.randrange(1, 2**20)) for step in needs}
        graph = nx.DiGraph()
        start: dict[int, float] = {}
        for step, before in needs.items():
            start[step] = max([start[one] + took[one] for one in before], default=0.0)
            graph.add_edge((step, "in"), (step, "out"), weight=took[step])
            graph.add_edges_from([((one, "out"), (step, "in")) for one in before], weight=0)
        spans = [agent("w", "w", start=0.0, end=max(start[step] + took[step] for step in needs))]
        spans += [tool(str(s), "t", "w", start=start[s], end=start[s] + took[s]) for s in needs]
        longest = [step for step, side in nx.dag_longest_path(graph) if side == "in"]
        assert [step.span for step in Process(normalise(spans)).path] == [str(step) for step in longest]
        assert nx.dag_longest_path_length(graph) == sum(took[step] for step in longest)

    def test_of_20_000_levels_takes_no_recursion(self):
        depth = 20_000
        spans = [
            agent(
                str(level),
                "m",
                str(level - 1) if level else None,
                start=float(level),
                end=2.0 * depth - level,
            )
            for level in range(depth)
        ]
        process = Process(normalise(spans))
        assert len(process.path) == depth
        assert process.path[-1].seconds == 2.0
        assert sum(step.seconds for step in process.path) == process.seconds == 2.0 * depth


class TestTimeShares:
    def test_split_what_overlaps_and_count_work_whole(self):
        shares = {one.name: one for one in Process(FORK).by_tool}
        assert (shares["search"].seconds, shares["search"].work, shares["search"].critical) == (3.5, 5, 5)
        assert (shares["read"].seconds, shares["read"].work, shares["read"].critical) == (1.5, 3, 0)
        assert (shares["write"].seconds, shares["write"].share) == (2, 0.2)
        (boss,) = Process(FORK).by_agent
        assert (boss.name, boss.seconds, boss.work, boss.critical, boss.spans) == ("boss", 10, 13, 10, 4)
        assert {one.name: one.seconds for one in Process(FORK).by_kind} == {"tool": 7, "agent": 3}

    @given(plainly.timed_traces())
    def test_are_what_the_definition_says(self, trace):
        process, moments = Process(trace), plainly.at_work(trace)
        for index in range(len(trace.spans)):
            mine = [(after - now, len(busy)) for now, after, busy in moments if index in busy]
            divided, undivided = process.concurrency.seconds.get(index, (0.0, 0.0))
            assert divided == pytest.approx(sum(t / k for t, k in mine))
            assert undivided == sum(t for t, _ in mine)

    @given(traces())
    def test_add_up_to_the_time_in_which_anyone_was_at_work(self, trace):
        process = Process(trace)
        for shares in (process.by_agent, process.by_kind):
            assert sum(one.seconds for one in shares) == pytest.approx(process.concurrency.busy, abs=1e-9)
            assert sum(one.work for one in shares) == pytest.approx(process.concurrency.work, abs=1e-9)


class TestConcurrency:
    def test_lists_the_parallel_sections(self):
        concurrency = Process(FORK).concurrency
        (section,) = concurrency.sections
        assert (section.start, section.end, section.most, section.spans) == (1, 4, 2, (1, 2))
        assert (concurrency.work, concurrency.overlapped, concurrency.busy) == (13, 3, 10)

    @given(plainly.timed_traces())
    def test_is_what_the_definition_says(self, trace):
        concurrency, moments = Process(trace).concurrency, plainly.at_work(trace)
        assert concurrency.busy == sum(after - now for now, after, busy in moments if busy)
        assert concurrency.overlapped == sum(after - now for now, after, busy in moments if len(busy) > 1)
        assert concurrency.most == max([len(busy) for _, _, busy in moments], default=0)
        expected: list[list] = []
        for now, after, busy in moments:
            if len(busy) < 2:
                continue
            if expected and expected[-1][1] == now:
                expected[-1] = [
                    expected[-1][0],
                    after,
                    max(expected[-1][2], len(busy)),
                    expected[-1][3] | busy,
                ]
            else:
                expected.append([now, after, len(busy), busy])
        found = [[one.start, one.end, one.most, set(one.spans)] for one in concurrency.sections]
        assert found == expected

    def test_a_span_without_a_start_is_known_by_its_end(self):
        trace = normalise([Span(id="a", kind="tool", name="a", end=3.0), tool("b", "b", start=1.0, end=2.0)])
        assert Process(trace).busy_times.reach[0] == (3.0, 3.0)
        assert Process(normalise([tool("a", "a")])).busy_times.reach == {}
