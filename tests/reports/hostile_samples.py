"""Attempts and a summary in which every text is an attack."""

from tests.reports.samples import HOSTILE, summary
from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite
from trivium.metrics.metric import Score
from trivium.reports.view import EvaluationView
from trivium.runs.summary import Failure, GateAnswer, Summary
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.traces.trace import Message, Span, Trace, TraceProblem


def hostile_judgement(attack: str, every: str) -> Score:
    """A judgement in which every text is an attack, and some things are not what they should be."""
    vote = {"model": attack, "value": attack, "level": every, "reason": every, "signals": {attack: attack}}
    detail = dict.fromkeys(("model", "prompt", "cost_usd", "requests", "shared_by", "tokens"), attack)
    detail |= {
        "evidence": [{"quote": quote, "found": True} for quote in (attack, every)] + [attack, {"quote": 1}],
        "criteria": {attack: {"score": every, "explanation": every}, every: attack},
        "claims": [{"claim": every, "importance": attack, "verdict": attack}, attack],
        "aspects": [{"aspect": every, "covered": attack}],
        "signals": {attack: every},
        "panel": {"asked": 2, "failed": [{"model": attack, "reason": every}, attack]},
        "votes": [vote, attack, {}],
        "samples": [attack, None],
        "samples_asked": attack,
        "passed_over": [every, 1],
        "level": attack,
        "evidence_similarity": attack,
        attack: every,
    }
    return Score(name=attack, tier="judge", value=0.5, reason=every, method=attack, detail=detail)


def hostile_view(number: int = 0) -> EvaluationView:
    """An attempt in which every text is an attack."""
    attack = HOSTILE[number % len(HOSTILE)]
    every = "\n".join(HOSTILE)
    spans = (
        Span(id="1", kind="agent", name=attack, agent=attack, start=0.0, end=2.0),
        Span(
            id="2",
            kind="tool",
            name=attack,
            agent=attack,
            start=0.5,
            end=0.2,
            ok=False,
            input=every,
            output=every,
        ),
        Span(id="3", kind="tool", name=every, agent=attack, start=1.0, end=None, ok=None),
    )
    return EvaluationView(
        case=Case(
            id=f"{number}{attack}",
            input=every,
            references=(every, attack),
            source=every,
            tags=(attack,),
            metadata={attack: attack},
            expect=Expect(workflow=(attack,), tools=(ExpectedTool(name=attack),)),
        ),
        attempt=Attempt(
            case=f"{number}{attack}",
            output={attack: [every]},
            seconds=1.0,
            error=None if number % 2 else attack,
            flags=(attack,),
            metadata={attack: attack},
            trace=Trace(
                spans=spans,
                messages=(Message(sender=attack, receiver=every, type=attack, content=every),),
                problems=(TraceProblem(kind=attack, span=attack, what=every),),
            ),
        ),
        scores={
            attack: Score(
                name=attack,
                tier="text",
                status="error",
                reason=every,
                method=attack,
                raw=every,
                detail={attack: every},
            ),
            f"judged {attack}": hostile_judgement(attack, every),
        },
        composite=Composite(value=0.5, parts={attack: 0.5, every: None}, recommendation=attack, reason=every),
        passed=None,
    )


def hostile_summary() -> Summary:
    """A summary in which every text is an attack."""
    attack = "".join(HOSTILE)
    base = summary()
    return summary(
        run=attack,
        suite=attack,
        metrics=dict(zip(HOSTILE, base.metrics.values(), strict=False)),
        dimension_averages={attack: 0.5},
        human_ceiling={HOSTILE[0]: next(iter(base.human_ceiling.values()))},
        failures=tuple(Failure(case=one, repeat=1, why=attack) for one in HOSTILE),
        failures_left_out=12_345,
        gates=tuple(GateAnswer(gate=one, answer=one, value=0.5, ci95=None, needs_cases=3) for one in HOSTILE),
        warnings=HOSTILE,
        errors=dict.fromkeys(HOSTILE, 1),
        metadata={"seed": attack},
    )
