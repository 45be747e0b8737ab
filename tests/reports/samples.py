"""Made-up runs to draw."""

import random
from collections.abc import Iterable

from trivium.agents.attempt import Attempt, Usage
from trivium.metrics.evaluation import Composite, composite
from trivium.metrics.metric import Score
from trivium.reports.view import EvaluationView
from trivium.runs.summary import CompositeFigure, Failure, Figure, GateAnswer, HumanFigure, Rate, Summary
from trivium.store.records import Commit, Provenance
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.settings import CompositeSettings
from trivium.traces.trace import Message, Span, SpanUsage, Trace

WORKFLOW = ("manager", "researcher", "analyst", "synthesizer")


TOOLS = ("get_paper", "get_section", "search_text", "extract_claims", "check_numbers", "write_review")


HOSTILE = (
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><svg onload=alert(1)>",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "\x1b[31mred\x1b[0m \x07\x00",
    "a|b`c`<b>@someone</b> [link](http://evil.example/x)",
    "]]>&amp;<!--",
    "{{ 7*7 }}{% raw %}",
    "\ud800 lone",
)


PAPER = """The paper proposes a parser that shares its encoder between constituency and dependency trees. \
Experiments on two treebanks show small but consistent gains over training each task alone."""


REVIEW = """Strengths: the idea of one encoder for both formalisms is clean, the description is easy \
to follow, and the ablation separates the effect of sharing from that of size.

Weaknesses: the gains are within what another random seed would give and no interval is reported; \
the comparison leaves out the strongest published dependency parser; the error analysis stays anecdotal.

Recommendation: weak accept, on condition that variance over seeds is added."""


REFERENCE = """This paper presents a joint model for constituency and dependency parsing with one encoder.

The writing is clear and the motivation convincing. I am less convinced by the evaluation: improvements of \
0.2 F1 need a significance test, and the choice of treebanks is not explained. I would like to see \
results on a morphologically rich language.

Overall a solid short paper that I lean to accept."""


def trace(seed: int = 1, *, calls: int = 9, times: bool = True) -> Trace:
    """Four agents at work, one call failing now and then."""
    rng = random.Random(seed)
    clock = 0.0
    spans: list[Span] = []
    messages: list[Message] = []
    agents = WORKFLOW
    per_agent = max(1, calls // len(agents))
    root_end = 0.0
    for position, agent in enumerate(agents):
        start = clock
        identity = f"a{position}"
        inner: list[Span] = []
        for index in range(per_agent):
            used = rng.uniform(0.3, 1.6)
            inner.append(
                Span(
                    id=f"{identity}l{index}",
                    parent=identity,
                    kind="llm",
                    name="model-1",
                    agent=agent,
                    start=clock if times else None,
                    end=clock + used if times else None,
                    usage=SpanUsage(input_tokens=rng.randint(200, 3000), output_tokens=rng.randint(20, 600)),
                )
            )
            clock += used
            took = rng.uniform(0.05, 0.9)
            tool = TOOLS[min(len(TOOLS) - 1, position + rng.randint(0, 2))]
            inner.append(
                Span(
                    id=f"{identity}t{index}",
                    parent=identity,
                    kind="tool",
                    name=tool,
                    agent=agent,
                    start=clock if times else None,
                    end=clock + took if times else None,
                    ok=rng.random() > 0.15,
                    input={"section": index},
                    output="…",
                )
            )
            clock += took
        root_end = clock
        spans.append(
            Span(
                id=identity,
                kind="agent",
                name=agent,
                agent=agent,
                start=start if times else None,
                end=clock if times else None,
            )
        )
        spans += inner
        if position:
            messages.append(
                Message(
                    sender=agents[position - 1],
                    receiver=agent,
                    type="task_request",
                    time=start if times else None,
                    content="go on",
                )
            )
            messages.append(
                Message(
                    sender=agent,
                    receiver="manager",
                    type=rng.choice(["result_delivery", "status_update"]),
                    time=clock if times else None,
                )
            )
        clock += 0.1
    del root_end
    return Trace(trace_id=f"t{seed}", spans=tuple(spans), messages=tuple(messages))


def view(number: int, *, with_trace: bool = True) -> EvaluationView:
    """One attempt; every seventh failed, every fifth has no reference."""
    rng = random.Random(number)
    identity = f"paper-{number // 2 + 101}"
    error = "TimeoutError: gave up after 600 s" if number % 7 == 6 else None
    referenced = number % 5 != 4
    case = Case(
        id=identity,
        input=f"Review this paper.\n\n{PAPER}",
        references=(REFERENCE, REFERENCE[::-1][:200] + " (a second reviewer)") if referenced else (),
        expect=Expect(
            tools=(
                ExpectedTool(name="get_paper", arguments={"id": identity}),
                ExpectedTool(name="write_review"),
            ),
            workflow=WORKFLOW,
        ),
        tags=("acl", "nlp") if number % 2 else ("acl",),
        complexity="complex" if number % 3 == 0 else "medium",
    )
    attempt = Attempt(
        case=identity,
        repeat=number % 2,
        output=None if error else REVIEW * (1 + number % 4),
        seconds=rng.uniform(2, 30),
        trace=trace(number, calls=8 + number % 16) if with_trace and not error else None,
        usage=Usage(input_tokens=9000, output_tokens=1200, cost_usd=0.0123),
        error=error,
    )
    scores = _scores(rng, referenced=referenced, error=error)
    folded = composite(scores, CompositeSettings(), failed=error)
    success = scores["success"].value
    return EvaluationView(
        case=case,
        attempt=attempt,
        scores=scores,
        composite=folded,
        passed=False if error else None if success is None else success == 1.0,
    )


def _scores(rng: random.Random, *, referenced: bool, error: str | None) -> dict[str, Score]:
    scores = {}
    for name, tier, centre in (
        ("cosine", "text", 0.22),
        ("jaccard", "text", 0.15),
        ("similarity", "text", 0.36),
        ("time", "text", 0.4),
        ("tool_selection", "trace", 0.7),
        ("tool_success", "trace", 0.9),
        ("path_convergence", "trace", 0.55),
        ("coordination_quality", "trace", 0.6),
        ("tool_efficiency", "trace", 0.63),
        ("planning_rationality", "judge", 0.7),
    ):
        value = min(1.0, max(0.0, rng.gauss(centre, 0.12)))
        if error:
            scores[name] = Score(
                name=name, tier=tier, status="skipped", reason=f"the attempt failed: {error}"
            )
        elif tier == "text" and name != "time" and not referenced:
            scores[name] = Score(name=name, tier=tier, status="skipped", reason="the case has no reference")
        elif name == "similarity":
            scores[name] = Score(
                name=name,
                tier=tier,
                value=value,
                status="fallback",
                method="0.6·cosine + 0.4·jaccard",
                reason="semantic has no encoder",
                raw=[value, value / 2],
                detail={"parts": {"cosine": value, "jaccard": value}},
            )
        elif name == "planning_rationality" and rng.random() < 0.2:
            scores[name] = Score(name=name, tier=tier, status="abstained", reason="not enough evidence")
        elif name == "time":
            scores[name] = Score(name=name, tier=tier, value=value, raw=rng.uniform(2, 30))
        else:
            scores[name] = Score(name=name, tier=tier, value=value)
    similarity = scores["similarity"]
    scores["success"] = (
        Score(name="success", tier="text", value=0.0, reason=f"the attempt failed: {error}")
        if error
        else Score(name="success", tier="text", status="skipped", reason="similarity has no value")
        if similarity.value is None
        else Score(name="success", tier="text", value=float(similarity.value >= 0.45))
    )
    scores["complexity"] = Score(
        name="complexity", tier="trace", raw=2.31, detail={"diameter": 4, "cycles": 2, "clustering": 0.31}
    )
    return scores


def views(count: int = 24) -> list[EvaluationView]:
    return [view(number) for number in range(count)]


def worst_first(views: Iterable[EvaluationView]) -> list[EvaluationView]:
    """The order in which a store gives them."""
    ranks = ["error", "failed", "undecided", "passed"]
    return sorted(views, key=lambda view: (ranks.index(view.verdict), view.composite.value))


def _beside(people: list[float], run: float) -> HumanFigure:
    figure = _figure(people, 3, {"ok": 3}, tier="text", raw=None)
    fields = {name: getattr(figure, name) for name in figure.__struct_fields__}
    return HumanFigure(**fields, run_mean=run, run_ci95=(run - 0.05, run + 0.05))


def _figure(
    values: list[float], total: int, status: dict[str, int], *, tier: str, raw: float | None
) -> Figure:
    mean = sum(values) / len(values) if values else None
    half = 0.9 / max(1, len(values)) ** 0.5 * 0.3
    return Figure(
        mean=mean,
        ci95=None if mean is None or len(values) < 2 else (max(0.0, mean - half), min(1.0, mean + half)),
        n=len(values),
        coverage=len(values) / total if total else 0.0,
        groups=max(1, len(values) // 2),
        status=status,
        method="cluster-robust t" if values else None,
        tier=tier,
        raw_mean=raw,
    )


def summary(shown: list[EvaluationView] | None = None, **changes: object) -> Summary:
    """What those attempts say; the intervals are made up, the counts are not."""
    shown = views() if shown is None else shown
    total = len(shown)
    metrics: dict[str, Figure] = {}
    for name in shown[0].scores if shown else ():
        scores = [one.scores[name] for one in shown]
        status: dict[str, int] = {}
        for score in scores:
            status[score.status] = status.get(score.status, 0) + 1
        values = [score.value for score in scores if score.value is not None]
        raw = [score.raw for score in scores if isinstance(score.raw, float)]
        metrics[name] = _figure(
            values, total, status, tier=scores[0].tier, raw=sum(raw) / len(raw) if raw else None
        )
    composites = [one.composite for one in shown]
    means = [folded.value for folded in composites if folded.value is not None]
    passed = sum(one.passed is True for one in shown)
    failed = sum(one.passed is False for one in shown)
    failures = [
        Failure(case=one.case.id, repeat=one.attempt.repeat, why=one.reason or "success is 0, 1 is needed")
        for one in shown
        if one.passed is False
    ]
    fields = {
        "run": "2026-03-14T09-26-53-reviews-5f3a",
        "suite": "paper-reviews",
        "cases": len({one.case.id for one in shown}),
        "attempts": total,
        "total_tests": total + 1,
        "passed": passed,
        "failed": failed,
        "missing": 1,
        "errors": {"attempts": sum(one.attempt.failed for one in shown), "scores": 0},
        "pass_rate": Rate(
            value=passed / max(1, passed + failed),
            ci95=(0.05, 0.31),
            n=passed + failed,
            groups=12,
            method="Wilson",
        ),
        "metrics": metrics,
        "dimension_averages": {"planning_rationality": 0.71},
        "composite": _composite(means, composites),
        "human_ceiling": {
            "cosine": _beside([0.3, 0.34, 0.28], 0.291),
            "similarity": _beside([0.42, 0.4, 0.36], 0.377),
            "jaccard": _beside([0.16, 0.19, 0.12], 0.143),
        },
        "failures": tuple(failures),
        "failures_left_out": 0,
        "gates": (
            GateAnswer(
                gate="composite at least 0.4", answer="pass", value=0.553, ci95=(0.5, 0.6), needs_cases=None
            ),
            GateAnswer(
                gate="pass_rate at least 0.85", answer="fail", value=0.13, ci95=(0.05, 0.31), needs_cases=None
            ),
            GateAnswer(
                gate="tool_selection at least 0.7",
                answer="inconclusive",
                value=0.71,
                ci95=(0.64, 0.78),
                needs_cases=160,
            ),
        ),
        "warnings": (
            'similarity is a fallback in 17 of 24. No encoder: pip install "trivium[semantic]"',
            "12 groups: the intervals are rough under 20.",
        ),
        "metadata": {"seed": 42},
    }
    return Summary(**(fields | changes))


def _composite(means: list[float], composites: list[Composite]) -> CompositeFigure:
    parts: dict[str, list[float]] = {}
    recommendations: dict[str, int] = {}
    for folded in composites:
        for name, value in folded.parts.items():
            parts.setdefault(name, []).extend([] if value is None else [value])
        if folded.recommendation:
            recommendations[folded.recommendation] = recommendations.get(folded.recommendation, 0) + 1
    mean = sum(means) / len(means) if means else None
    return CompositeFigure(
        mean=mean,
        ci95=None if mean is None else (mean - 0.05, mean + 0.05),
        n=len(means),
        coverage=len(means) / max(1, len(composites)),
        groups=12,
        status={"ok": 3, "fallback": max(0, len(composites) - 3)},
        method="cluster-robust t",
        recommendation=None if mean is None else "weak_reject",
        distance=None if mean is None else 0.047,
        p_change=None if mean is None else 0.12,
        recommendations=recommendations,
        parts={name: sum(values) / len(values) if values else None for name, values in parts.items()},
    )


PROVENANCE = Provenance(
    trivium="0.1.0",
    python="3.11.9",
    seed=42,
    agent="examples.paper_review.agent:review",
    git=Commit(commit="5f3a9c1e0b7d", dirty=False),
    packages={"numpy": "2.3.1", "networkx": "3.5", "msgspec": "0.20.0"},
    judges=[],
)
