"""Writes the means of a run as a record of Every Eval Ever, a shared schema of evaluation results (0.3.0).

The schema describes models; a run measures an agent, which stands in the model's place. What Trivium cannot
know (who evaluated, how the model is deployed) is ``unknown`` or ``other``, for the sender to fill in.
"""

from importlib.metadata import version

from trivium.store.records import RunRecord
from trivium.values import JsonObject, dict_, is_number, list_

VERSION = "0.3.0"
UNKNOWN = "unknown"


def record_of(run: RunRecord) -> JsonObject:
    """The record: one result for each metric with a mean, each with its interval and number of attempts."""
    agent = run.provenance.agent or UNKNOWN
    metrics = dict_(dict_(run.summary).get("metrics"))
    results = [
        _result(run.suite_name, name, figure)
        for name, figure in metrics.items()
        if isinstance(figure, dict) and is_number(figure.get("mean"))
    ]
    return {
        "schema_version": VERSION,
        "evaluation_id": f"{run.suite_name}/{agent}/{run.created}",
        "evaluation_timestamp": str(run.created),
        "retrieved_timestamp": str(run.created if run.finished is None else run.finished),
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            "evaluator_relationship": "other",
            "additional_details": {"run": run.id, "suite_digest": run.suite, "state": run.state},
        },
        "eval_library": {"name": "trivium", "version": version("trivium")},
        "model_info": {
            "name": agent,
            "id": agent,
            "additional_details": {"deployment_type": UNKNOWN, "model_availability": UNKNOWN},
        },
        "evaluation_results": results,
    }


def _result(suite: str, name: str, figure: JsonObject) -> JsonObject:
    """The result of a metric; a score of Trivium is in [0, 1] and higher is better."""
    uncertainty: JsonObject = {"num_samples": figure.get("n", 0)}
    interval = list_(figure.get("ci95"))
    if len(interval) == 2 and all(map(is_number, interval)):
        uncertainty["confidence_interval"] = {
            "lower": interval[0],
            "upper": interval[1],
            "confidence_level": figure.get("level") or 0.95,
            "method": str(figure.get("method") or UNKNOWN),
        }
    details = {
        key: str(figure[key]) for key in ("tier", "coverage", "groups", "raw_mean", "unit") if figure.get(key)
    }
    return {
        "evaluation_result_id": name,
        "evaluation_name": suite,
        "source_data": {"dataset_name": suite, "source_type": "other"},
        "metric_config": {
            "metric_id": f"trivium.{name}",
            "metric_name": name,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 1,
        },
        "score_details": {"score": figure["mean"], "uncertainty": uncertainty, "details": details},
    }
