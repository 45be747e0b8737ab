"""Trivium: a suite with a judge over recorded outputs, with store, limiter, kept answers and signals."""

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.judges.measured import MODEL, Asked, Outcomes, measure


def judge(asked: Asked) -> Outcomes:
    import trivium as tv
    from trivium.suites.suite import Suite

    suite, outputs = Path(asked.folder, "suite.json"), Path(asked.folder, "outputs.jsonl")
    settings = {
        "models": f"openai:{MODEL}",
        "timeout": asked.timeout,
        "concurrency": asked.concurrency,
        "on_failure": "fail",
    }
    cases = [{"id": text, "input": text} for text in asked.texts]
    suite.write_text(json.dumps({"name": "s", "cases": cases, "metrics": ["clarity"], "judge": settings}))
    lines = [json.dumps({"case": text, "output": output}) for text, output in asked.texts.items()]
    outputs.write_text("\n".join(lines))
    run = tv.evaluate(Suite.load(suite), outputs=outputs, store=str(Path(asked.folder, "s.db")))
    return (_outcome(evaluation.scores["clarity"]) for evaluation in run.evaluations())


def _outcome(score: Any) -> tuple[Any, str | None]:
    # Requests differ in how often they were tried, which is no other reason.
    return score.value, re.sub(r" \(\d+ requests\)", "", score.reason) if score.status == "error" else None


if __name__ == "__main__":
    measure(judge)
