"""Infers agents, tool owners and hand-offs in LangGraph traces.

LangGraph records chains, models and tools, and marks none of them as an agent. The metadata of each node's
run (``langgraph_node``, ``langgraph_step`` and ``langgraph_checkpoint_ns``) allows inferring them:

* A node of the outermost graph that calls a model or runs a graph is an agent; a sub-graph of the same name
  below it belongs to the same run. If no node calls a model (models are not recorded), all nodes are agents.
* A deeper node is an agent only if it runs a graph itself. A graph that a tool runs is an agent.
* A graph is one agent if only one of its nodes calls a model, or if it has the nodes of the prebuilt agents.
* A node that only runs tools is not an agent: its tools belong to the agent that requested them.
* The agents of the outermost graph hand over to one another in the order of its steps.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import text
from trivium.traces.trace import Message, Span, Trace, TraceProblem, parents_first, start_time
from trivium.values import JsonObject, count

PREBUILT = frozenset(
    {"agent", "model", "generate_structured_response", "pre_model_hook", "post_model_hook", "model_request"}
)
"""Nodes of the prebuilt agents, besides ``tools``."""

UNNAMED = frozenset({"LangGraph", "CompiledGraph", "CompiledStateGraph", "RunnableSequence"})
"""Default names of graphs without a name."""

HANDOFF = "__handoff_destination"
"""Metadata of a tool that hands over to another agent."""

MOST_PAIRS = 100
"""Most hand-offs inferred when several agents follow several others; above it, none is."""

_HOOK = (".before_", ".after_", ".wrap_")
_LLM, _TOOL = 1, 2
_FLAGS = {"llm": _LLM, "tool": _TOOL}
_TOP = -1  # the graph of the nodes whose parent is not in the trace


class GraphRun(NamedTuple):
    """LangGraph's metadata of one run.

    Attributes:
        node: Name of the node that the run belongs to.
        namespace: Path of the enclosing nodes, ``name:id|name:id…``; unique to each run of a node.
        step: Step of the graph in which it runs, from 0.
        agent: Name of its agent, if stated.
        requested: Ids of the tool calls that a model requested.
        call: Id of the tool call that a tool's run carries out.
    """

    node: str | None = None
    namespace: str | None = None
    step: int | None = None
    agent: str | None = None
    requested: tuple[str, ...] = ()
    call: str | None = None

    @classmethod
    def of(
        cls, metadata: JsonObject, *, requested: Iterable[str] = (), call: str | None = None
    ) -> "GraphRun":
        """Read the metadata of a run."""
        return cls(
            node=text(metadata, "langgraph_node"),
            namespace=text(metadata, "langgraph_checkpoint_ns"),
            step=count(metadata.get("langgraph_step")),
            agent=text(metadata, "lc_agent_name"),
            requested=tuple(requested),
            call=call,
        )

    @property
    def key(self) -> object:
        """Differs from the parent's key where a node starts; children inherit metadata."""
        return self.namespace or (self.node, self.step)

    @property
    def outermost(self) -> str | None:
        """The node of the outermost graph that contains it."""
        return self.namespace.split("|", 1)[0].split(":", 1)[0] if self.namespace else self.node


def is_handoff(tool: str, metadata: JsonObject) -> bool:
    """Whether a tool's run hands over to another agent."""
    return HANDOFF in metadata or tool.startswith(("transfer_to_", "transfer_back_to_"))


def with_graph_agents(
    trace: Trace, runs: Sequence[GraphRun], stated: Sequence[Message] = (), *, title: str | None = None
) -> Trace:
    """Add to a trace the agents of its graphs, the callers of its tools and the hand-offs between agents.

    Args:
        trace: Normalised; its chains are of kind other.
        runs: One for each span.
        stated: Messages that the format states.
        title: Name of the outermost graph if it has no span of its own.

    Returns:
        The normalised trace; the trace itself when no run is LangGraph's.
    """
    if all(run.node is None and run.namespace is None for run in runs):
        return trace
    graphs = _Graphs(trace.spans, runs, title)
    spans = [
        msgspec.structs.replace(span, kind="agent", name=agent, agent=agent)
        if (agent := graphs.agents.get(index)) is not None
        else msgspec.structs.replace(span, agent=owner)
        if span.agent is None and (owner := graphs.owners.get(index)) is not None
        else span
        for index, span in enumerate(trace.spans)
    ]
    return normalise(
        spans,
        [*stated, *graphs.messages()],
        trace_id=trace.trace_id,
        problems=[*trace.problems, *graphs.problems],
        metadata=trace.metadata,
        nested=True,
    )


class _Graphs:
    """The graphs of one trace; spans are identified by index."""

    def __init__(self, spans: Sequence[Span], runs: Sequence[GraphRun], title: str | None) -> None:
        self.spans, self.runs, self.title = spans, runs, title
        self.problems: list[TraceProblem] = []
        self.agents: dict[int, str] = {}  # agent of each span that is an agent's run
        self.owners: dict[int, str] = {}  # agent of each span outside those runs
        positions = {span.id: index for index, span in enumerate(spans)}
        self.parents = [positions[span.parent] if span.parent is not None else None for span in spans]
        self.order = parents_first(spans)
        self.nodes: dict[int, list[int]] = defaultdict(list)  # by graph
        self.within: list[int | None] = [None] * len(spans)  # the enclosing node, with no tool in between
        self.below_tool = [False] * len(spans)
        self._find_nodes()
        self.contains = self._contained_kinds()
        self.agent_nodes: dict[int, list[int]] = {}  # agent runs by outermost graph
        self._find_agents()
        self._find_owners()

    def _find_nodes(self) -> None:
        for index in self.order:
            parent, run = self.parents[index], self.runs[index]
            if parent is not None:
                is_tool = self.spans[parent].kind == "tool"
                self.below_tool[index] = is_tool or self.below_tool[parent]
                self.within[index] = None if is_tool else self.within[parent]
            if self.spans[index].kind != "other" or run.node is None:
                continue
            if parent is None:
                if run.namespace is None or "|" not in run.namespace:
                    self.nodes[_TOP].append(index)
                    self.within[index] = index
            elif run.key != self.runs[parent].key:
                self.nodes[parent].append(index)
                self.within[index] = index

    def _contained_kinds(self) -> list[int]:
        """For each span, the flags of the llm and tool spans in it; the contents of a tool do not count."""
        contains = [0] * len(self.spans)
        for index in reversed(self.order):
            parent = self.parents[index]
            if parent is not None:
                contains[parent] |= _FLAGS.get(self.spans[index].kind, contains[index])
        return contains

    def _find_agents(self) -> None:
        outermost = []
        for graph in self.nodes:
            node = self.within[graph] if graph != _TOP else None
            if node is not None:
                self.agents[node] = self.spans[node].name
            elif graph != _TOP and self.below_tool[graph]:
                self.agents[graph] = self._agent_name(graph)
            else:
                outermost.append(graph)
        for graph in outermost:
            candidates = self._candidates(graph)
            names = {self.spans[node].name for node in candidates}
            alone = len(names) == 1 and all(self.contains[node] & _LLM for node in candidates)
            if (alone or names <= PREBUILT) and not any(node in self.agents for node in candidates):
                self._is_one_agent(graph)
            else:
                self.agents |= {node: self.spans[node].name for node in candidates}
                self.agent_nodes[graph] = candidates

    def _candidates(self, graph: int) -> list[int]:
        """The nodes that call a model or run a graph; if none does, all nodes except helpers."""
        nodes = [node for node in self.nodes[graph] if not self._is_helper(node)]
        return [node for node in nodes if self.contains[node] & _LLM or node in self.agents] or nodes

    def _is_helper(self, node: int) -> bool:
        name = self.spans[node].name
        only_tools = self.contains[node] == _TOOL and node not in self.agents
        return name == "tools" or only_tools or name.startswith("__") or any(hook in name for hook in _HOOK)

    def _is_one_agent(self, graph: int) -> None:
        title = self._agent_name(graph)
        if graph != _TOP:
            self.agents[graph] = title
        else:
            self.owners |= dict.fromkeys(range(len(self.spans)), title)

    def _agent_name(self, graph: int) -> str:
        """The name of a graph that is one agent: as stated, else that of its span, tool or first node."""
        nodes = self._candidates(graph) or self.nodes[graph]
        given = self.runs[nodes[0]].agent
        if given is not None:
            return given
        if graph == _TOP:
            return self.title or self.spans[nodes[0]].name
        if self.spans[graph].name not in UNNAMED:
            return self.spans[graph].name
        parent = self.parents[graph]
        if parent is not None and self.spans[parent].kind == "tool":
            return self.spans[parent].name
        return self.spans[nodes[0]].name

    def _find_owners(self) -> None:
        """Find the agents of tools in tools-only nodes, and of runs whose node is missing."""
        agent_at: list[str | None] = [None] * len(self.spans)
        graph_at: list[int | None] = [None] * len(self.spans)
        graph_of = {node: graph for graph in self.agent_nodes for node in self.nodes[graph]}
        for index in self.order:
            parent = self.parents[index]
            above = agent_at[parent] if parent is not None else None
            agent_at[index] = self.agents.get(index, above)
            graph_at[index] = graph_of.get(index, graph_at[parent] if parent is not None else None)
        callers: dict[tuple[int | None, str], str] = {}
        latest: dict[int | None, str] = {}
        for index in sorted(range(len(self.spans)), key=lambda at: start_time(self.spans[at])):
            agent, graph, run = agent_at[index], graph_at[index], self.runs[index]
            if agent is not None:
                callers |= {(graph, call): agent for call in run.requested}
                if index in graph_of:
                    latest[graph] = agent
            elif self.spans[index].kind in {"tool", "llm"} and index not in self.owners:
                owner = callers.get((graph, run.call)) if run.call is not None else None
                owner = owner or latest.get(graph) or self._named_by_namespace(run)
                if owner is not None:
                    self.owners[index] = owner

    def _named_by_namespace(self, run: GraphRun) -> str | None:
        name = run.outermost
        return None if name in PREBUILT or name == "tools" else name

    def messages(self) -> list[Message]:
        """A hand-off to each agent from each agent of the step before, except from itself."""
        messages: list[Message] = []
        for nodes in self.agent_nodes.values():
            steps: dict[tuple[float, int], dict[object, int]] = defaultdict(dict)
            for node in nodes:
                step = self.runs[node].step
                position = (start_time(self.spans[node]), node) if step is None else (step, 0)
                steps[position].setdefault(
                    (self.runs[node].key, self.spans[node].name), node
                )  # retries are one
            groups = [list(steps[position].values()) for position in sorted(steps)]
            for before, after in pairwise(groups):
                messages += self._handoffs(before, after)
        return messages

    def _handoffs(self, before: list[int], after: list[int]) -> list[Message]:
        names = [self.spans[node].name for node in before]
        if len(before) > 1 and len(after) > 1:  # who followed whom is unknown
            names = list(dict.fromkeys(names))
            after = list({self.spans[node].name: node for node in reversed(after)}.values())[::-1]
            many = len(names) * len(after) > MOST_PAIRS
            handling = "no message between them is recorded" if many else "each is assumed to follow each"
            text = f"{len(before):,} agents' runs are followed by several; {handling}"
            span = self.spans[after[0]].id
            self.problems.append(TraceProblem(kind="ambiguous_order", span=span, what=text))
            if many:
                return []
        return [
            Message(sender=name, receiver=self.spans[node].name, type="handoff", time=self.spans[node].start)
            for node in after
            for name in names
            if name != self.spans[node].name
        ]
