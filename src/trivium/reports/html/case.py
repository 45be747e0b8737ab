"""Section of one attempt in the report: texts side by side, scores, composite, drawings."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from trivium.metrics.judge.evidence import fold_text as fold
from trivium.metrics.metric import Score
from trivium.reports import wording
from trivium.reports.drawings.graphs import draw_interaction_graph, draw_tool_graph
from trivium.reports.drawings.timeline import draw_timeline
from trivium.reports.html.judgement import (
    JSON_CHARS,
    SEARCHED_CHARS,
    excerpts,
    judgement_context,
    marked,
    quotes_of,
    short,
    spoken,
)
from trivium.reports.html.markdown import rendered
from trivium.reports.html.packing import IndexEntry
from trivium.reports.trace_tables import process_blocks
from trivium.reports.view import EvaluationView, anchor
from trivium.safe_text import as_json, one_line
from trivium.traces.process.process import Process
from trivium.traces.process.totals import totals_of
from trivium.traces.trace import Span, SpanKind, Trace
from trivium.values import counted

REFERENCES_SHOWN = 8
STEPS_SHOWN, DEEPEST = 100, 8
"""Spans of the tree of a trace, and the depth from which on they stand below one another."""
RETRIEVED_CHARS = 4_000
"""Characters of the retrieved documents that a page shows."""

SHORT_SOURCE_CHARS = 2_000
"""A source document of at most this length is shown whole."""
PROBLEMS_SHOWN = 20
SEARCHED_REASON_CHARS = 200


def case_context(view: EvaluationView, *, number: int = 0, full: bool = True) -> dict[str, Any]:
    """Values for the template of an attempt.

    Args:
        view: The attempt.
        number: Its number in the index of the page.
        full: Whether judgements and the trace are among them.
    """
    case, attempt = view.case, view.attempt
    judged = [score for score in view.scores.values() if score.tier == "judge" and _is_judgement(score)]
    left_out = []
    if not full:
        left_out = ["judgements"] if judged else []
        left_out += ["trace"] if attempt.trace is not None else []
        judged = []
    quotes, retrieved = quotes_of(judged), view.retrieved
    texts = _quoted_texts(view) if quotes else {}
    scores, unscored = _without_value(view.scores.values())
    expect = {name: value for name, value in msgspec.to_builtins(case.expect).items() if value is not None}
    return {
        "number": number,
        "name": wording.attempt_name(one_line(case.id), attempt.repeat),
        "view": view,
        "reason": None if view.reason is None else one_line(view.reason, at_most=600),
        "gist": _first_line(case.input_shown),
        "facts": _facts(view),
        "anchor": anchor(case.id, attempt.repeat),
        "input": marked(case.input_shown, quotes),
        "asked": spoken(case.messages, quotes),
        "output": marked(attempt.shown, quotes),
        "held": spoken(attempt.said, quotes),
        "rendered": None if attempt.messages else rendered(attempt.output),
        "references": [marked(text, quotes) for text in case.references[:REFERENCES_SHOWN] if text],
        "references_left_out": max(0, len(case.references) - REFERENCES_SHOWN),
        "source": excerpts(case.source or "", quotes),
        "whole_source": marked(case.source) if len(case.source or "") <= SHORT_SOURCE_CHARS else None,
        "source_chars": len(case.source or ""),
        "retrieved": excerpts(retrieved[:SEARCHED_CHARS], quotes),
        "all_retrieved": marked(retrieved, at_most=RETRIEVED_CHARS),
        "retrieved_chars": len(retrieved),
        "more": {
            "expected": marked(expect or None, at_most=JSON_CHARS),
            "metadata of the case": marked(case.metadata or None, at_most=JSON_CHARS),
            "metadata of the attempt": marked(attempt.metadata or None, at_most=JSON_CHARS),
        },
        "state": _state(view),
        "scores": [_score(score, detail=full and score not in judged) for score in scores],
        "unscored": unscored,
        "left_out": left_out,
        "judgements": [judgement_context(score, quotes, texts) for score in judged],
        "trace": _trace(attempt.trace) if full and attempt.trace is not None else None,
    }


def _without_value(scores: Iterable[Score]) -> tuple[list[Score], list[tuple[str, list[str]]]]:
    """The scores to show in rows, and the names of the others by the reason why they have no value."""
    rows: list[Score] = []
    names: dict[str, list[str]] = {}
    for score in scores:
        if score.value is None and score.raw is None and score.status == "skipped":
            why = one_line(score.reason or "not applicable", at_most=300)
            names.setdefault(why, []).append(one_line(score.name))
        else:
            rows.append(score)
    return rows, list(names.items())


def index_entry(view: EvaluationView) -> IndexEntry:
    """What finding and ordering need of an attempt."""
    case, attempt = view.case, view.attempt
    name = wording.attempt_name(one_line(case.id), attempt.repeat)
    reason = "" if view.reason is None else one_line(view.reason, at_most=SEARCHED_REASON_CHARS)
    values = {"composite": view.composite.value}
    values |= {one_line(score.name): score.value for score in view.scores.values()}
    return IndexEntry(
        name=name,
        verdict=view.verdict,
        anchor=anchor(case.id, attempt.repeat),
        text=" ".join((name, _first_line(case.input_shown), reason, *_facts(view))),
        values={metric: value for metric, value in values.items() if value is not None},
    )


def _first_line(value: Any) -> str:
    return short(value) if not isinstance(value, str) else one_line(value, at_most=140)


def _facts(view: EvaluationView) -> list[str]:
    attempt, usage = view.attempt, view.attempt.usage
    facts = [wording.seconds(attempt.seconds)] if attempt.seconds is not None else []
    if usage is not None:
        for count, what in ((usage.input_tokens, "input tokens"), (usage.output_tokens, "output tokens")):
            facts += [f"{count:,} {what}"] if count is not None else []
        facts += [f"${usage.cost_usd:.4f}"] if usage.cost_usd is not None else []
    facts += [f"reward {attempt.reward:g}"] if attempt.reward is not None else []
    facts += [wording.words(view.case.complexity)]
    facts += [f"group {one_line(view.case.group)}"] if view.case.group is not None else []
    facts += [f"#{one_line(tag, at_most=40)}" for tag in view.case.tags]
    return facts + [f"flagged: {one_line(flag)}" for flag in attempt.flags]


def _is_judgement(score: Score) -> bool:
    """Whether a score holds a judge's judgement or its fallback."""
    return bool(score.detail.keys() & {"evidence", "model", "votes"}) or score.status in {
        "fallback",
        "abstained",
    }


def _quoted_texts(view: EvaluationView) -> dict[str, str]:
    """The texts that a judge may quote, folded for matching, by their names on the page."""
    case = view.case
    texts = {
        "output": _as_text(view.attempt.shown),
        "source": case.source or "",
        "input": _as_text(case.input_shown),
    }
    texts |= {"retrieved documents": view.retrieved} if view.retrieved else {}
    texts |= {"reference": "\n".join(case.references), "facts": "\n".join(case.expect.facts)}
    return {name: fold(text[:SEARCHED_CHARS]) for name, text in texts.items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def _score(score: Score, *, detail: bool) -> dict[str, Any]:
    raw = "" if score.raw is None or score.raw == score.value else short(score.raw)
    if score.name == "time" and isinstance(score.raw, float):
        raw = wording.seconds(score.raw)
    return {
        "name": one_line(score.name),
        "tier": score.tier,
        "value": score.value,
        "status": score.status,
        "raw": raw,
        "method": None if score.method is None else one_line(score.method),
        "reason": None if score.reason is None else one_line(score.reason, at_most=600),
        "detail": marked(score.detail or None, at_most=JSON_CHARS) if detail else None,
    }


def _state(view: EvaluationView) -> dict[str, Any] | None:
    """What became of the world: what changed, one line each, and the expectations; None without a world."""
    record = view.attempt.world
    if record is None:
        return None
    checks = [*(record.calls or ()), *record.checks]
    marks = {True: "holds", False: "fails", None: "unknown"}
    return {
        "world": one_line(record.world, at_most=200),
        "problem": None if record.problem is None else one_line(record.problem, at_most=600),
        "changes": [one_line(change.shown, at_most=1_000) for change in record.changes],
        "more": record.more,
        "mocked": ", ".join(f"{number:,} {one_line(how)}" for how, number in record.mocked.items()),
        "checks": [
            (marks[each.ok], one_line(each.what, at_most=600), one_line(each.reason or "", at_most=600))
            for each in checks
        ],
    }


def _trace(trace: Trace) -> dict[str, Any]:
    from trivium.metrics.graph.agents import interaction_graph
    from trivium.metrics.graph.trajectories import END, START, tool_graph

    calls, process = trace.tool_calls, Process(trace)
    failed = Counter(call.name for call in calls if call.ok is False)
    agents = interaction_graph(trace)
    drawn = {
        "timeline": draw_timeline(trace, process),
        "tools": draw_tool_graph(tool_graph(trace), start=START, end=END, failed=failed) if calls else None,
        "agents": draw_interaction_graph(agents) if len(agents.nodes) > 1 else None,
    }
    return {
        "counts": _counts(trace),
        "timed": bool(process.path_segments),
        "has_repeats": bool(process.repeats.looped or any(one.retry for one in process.repeats.repeated)),
        "process": list(process_blocks(totals_of([process]), traces=1)),
        "problems": [
            (one_line(problem.kind), one_line(problem.what)) for problem in trace.problems[:PROBLEMS_SHOWN]
        ],
        "problems_left_out": max(0, len(trace.problems) - PROBLEMS_SHOWN),
        "drawings": drawn,
        "steps": _steps(trace),
        "steps_left_out": max(0, len(trace.spans) - STEPS_SHOWN),
    }


def _counts(trace: Trace) -> str:
    kinds: Counter[str] = Counter(span.kind for span in trace.spans)
    parts = [counted(kinds[kind], what) for kind, what in _KINDS.items() if kinds[kind]]
    parts += [counted(len(trace.messages), "message")] if trace.messages else []
    failed = sum(span.ok is False for span in trace.spans)
    parts += [f"{failed:,} failed"] if failed else []
    return " · ".join(parts) or "empty"


_KINDS = {"agent": "agent span", "tool": "tool call", "llm": "model request", "other": "other span"}


def _steps(trace: Trace) -> list[dict[str, Any]]:
    """The first spans of a trace, each after the one that it ran under."""
    tree = SpanTree(trace)
    return [
        msgspec.structs.asdict(tree.shown(span))
        | {
            "depth": min(depth, DEEPEST),
            "error": one_line(str(span.attributes.get("error") or ""), at_most=200),
        }
        for span, depth in islice(tree.walk(), STEPS_SHOWN)
    ]


class ShownSpan(msgspec.Struct, frozen=True, kw_only=True):
    """What a row of a table says of a span; its times are from the start of the trace."""

    id: str
    kind: SpanKind
    name: str
    at: str
    took: str
    state: str


class SpanTree:
    """The spans of a trace by their parents, those below one in the order of their start.

    One span of each circle of parents is at the top, so that all of them can be reached.
    """

    def __init__(self, trace: Trace) -> None:
        self.spans = {span.id: span for span in trace.spans}
        self.parents = {
            each: span.parent if span.parent in self.spans else None for each, span in self.spans.items()
        }
        self._zero = min((span.start for span in trace.spans if span.start is not None), default=0.0)
        self._cut_circles()
        self._below: defaultdict[str | None, list[Span]] = defaultdict(list)
        for span in sorted(trace.spans, key=lambda span: math.inf if span.start is None else span.start):
            self._below[self.parents[span.id]].append(span)

    def _cut_circles(self) -> None:
        settled: set[str] = set()
        for span in self.spans:
            way: set[str] = set()
            at: str | None = span
            while at is not None and at not in settled and at not in way:
                way.add(at)
                at = self.parents[at]
            if at is not None and at in way:
                self.parents[at] = None
            settled |= way

    def below(self, parent: str | None) -> Sequence[Span]:
        """The spans below one, or those at the top."""
        return self._below.get(parent, ())

    def walk(self) -> Iterator[tuple[Span, int]]:
        """Yield every span with its depth: each is followed by those below it."""
        waiting = [(span, 0) for span in reversed(self.below(None))]
        while waiting:
            span, depth = waiting.pop()
            yield span, depth
            waiting += [(each, depth + 1) for each in reversed(self.below(span.id))]

    def shown(self, span: Span) -> ShownSpan:
        """The texts of a span."""
        known = span.start is not None and span.end is not None
        return ShownSpan(
            id=span.id,
            kind=span.kind,
            name=one_line(span.name, at_most=80),
            at=wording.NOTHING if span.start is None else wording.seconds(span.start - self._zero),
            took=wording.seconds((span.end or 0.0) - (span.start or 0.0)) if known else wording.NOTHING,
            state="failed" if span.ok is False else "not finished" if span.ok is None else "ok",
        )
