"""An attempt that judges looked at."""

import msgspec

from tests.reports.samples import PAPER, view
from trivium.metrics.metric import Score
from trivium.reports.view import EvaluationView

SOURCE = f"""Abstract. {PAPER}

1 Introduction. {"Parsing is an old task with many treebanks. " * 60}

4 Results. Sharing the encoder gains 0.2 F1 on the first
treebank and 0.1 on the second; we did not test significance."""


VOTES = (
    ("openai:gpt-4o", 0.8, 4),
    ("openai:gpt-4o-mini", 0.6, 3),
    ("anthropic:claude-haiku-4-5", None, None),
)


def judgement_detail() -> dict[str, object]:
    """What a panel records of one judgement."""
    quotes = {
        "one encoder for BOTH formalisms": True,
        "gains 0.2 F1 on the first treebank": True,
        "the error analysis stays anecdotal": True,
        "the authors release their code": False,
    }
    claim = "The review names the missing significance test, which the paper admits to."
    return {
        "model": " + ".join(model for model, _, _ in VOTES),
        "prompt": "9f31c0de77ab21e4",
        "tokens": {"input": 5210, "output": 610},
        "cost_usd": 0.001236,
        "latency_seconds": 2.31,
        "requests": 3,
        "shared_by": 3,
        "reason": claim,
        "evidence": [{"quote": quote, "found": found} for quote, found in quotes.items()],
        "evidence_similarity": "cosine",
        "criteria": {
            "factual_correctness": {
                "score": 4,
                "explanation": "What it says of the results is in the paper.",
            },
            "methodology_understanding": {"score": 3.5, "explanation": "The ablation is taken at its word."},
            "domain_knowledge": {"score": None, "explanation": "Nothing to tell by."},
        },
        "signals": {
            "llm_evidence_count": 3,
            "verbalized_confidence": 4,
            "retrieval_similarity_mean": 0.412345,
            "token_msp": None,
            "panel_agreement": 1 / 3,
        },
        "panel": {
            "asked": 4,
            "failed": [{"model": "openai:o3-mini", "reason": "o3-mini did not answer within 60 s (5 tries)"}],
        },
        "votes": [
            {
                "model": model,
                "value": value,
                "reason": claim if value else "not enough evidence",
                "criteria": {"factual_correctness": {"score": score, "explanation": "so"}},
                "signals": {"verbalized_confidence": 4, "token_msp": 0.91},
                "tokens": {"input": 1737, "output": 203},
                "cost_usd": 0.000412,
            }
            for model, value, score in VOTES
        ],
    }


def claims_detail() -> dict[str, object]:
    """What a judge records of a dimension that is scored by claims."""
    verdicts = ("supported", "partly", "contradicted", "unverifiable")
    return {
        "model": "openai:gpt-4o",
        "level": "acceptable",
        "claims": [
            {"claim": f"The gain is {place / 10} F1.", "importance": "major", "verdict": verdict}
            for place, verdict in enumerate(verdicts)
        ],
        "aspects": [{"aspect": "significance", "covered": "partly", "quote": "the gains are within"}],
        "samples": [0.6, 0.6, None],
        "samples_asked": 4,
        "passed_over": ["claude-haiku-4-5: HTTP 529"],
        "evidence": [],
    }


def judged_view(number: int = 1) -> EvaluationView:
    """An attempt that judges looked at."""
    found = view(number)
    scores = found.scores | {
        "technical_accuracy": Score(
            name="technical_accuracy",
            tier="judge",
            value=0.7,
            reason="The review names the missing significance test, which the paper admits to.",
            detail=judgement_detail(),
        ),
        "factual_accuracy": Score(
            name="factual_accuracy", tier="judge", value=0.6, reason="Half holds.", detail=claims_detail()
        ),
        "clarity": Score(
            name="clarity",
            tier="judge",
            value=0.41,
            status="fallback",
            method="similarity",
            reason="no judge: gpt-4o: HTTP 503 (5 tries)",
        ),
    }
    case = msgspec.structs.replace(found.case, source=SOURCE)
    return msgspec.structs.replace(found, case=case, scores=scores)
