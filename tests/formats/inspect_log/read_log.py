"""What Inspect reads in a log: run as a program, so that it changes nothing here.

python read_log.py LOG AGAIN prints it as JSON, and writes the log again, as Inspect writes it, to AGAIN.
"""

import json
import sys

from inspect_ai.log import EvalSample, read_eval_log, write_eval_log


def read(sample: EvalSample) -> dict[str, object]:
    usage = {model: used.model_dump(exclude_none=True) for model, used in sample.model_usage.items()}
    return {
        "input": sample.input if isinstance(sample.input, str) else [m.text for m in sample.input],
        "target": sample.target,
        "output": sample.output.completion,
        "messages": [[message.role, message.text] for message in sample.messages],
        "calls": [
            [call.function, call.arguments]
            for message in sample.messages
            for call in getattr(message, "tool_calls", None) or []
        ],
        "events": [[event.event, event.span_id] for event in sample.events],
        "failed": [event.error.message for event in sample.events if event.event == "tool" and event.error],
        "error": sample.error and sample.error.message,
        "seconds": sample.total_time,
        "usage": usage,
        "scores": {name: repr(score.value) for name, score in sample.scores.items()},
        "reasons": {name: score.reason for name, score in sample.scores.items() if score.reason},
        "metadata": sample.metadata,
    }


def main(path: str, again: str) -> None:
    header, log = read_eval_log(path, header_only=True), read_eval_log(path)
    assert header.results == log.results
    results = {score.name: {m.name: m.value for m in score.metrics.values()} for score in log.results.scores}
    found = {
        "header": [header.status, header.eval.task, header.eval.config.epochs, header.results.headline.score],
        "stats": {model: usage.input_tokens for model, usage in header.stats.model_usage.items()},
        "results": results,
        "samples": {f"{sample.id} {sample.epoch}": read(sample) for sample in log.samples},
    }
    write_eval_log(log, again)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
