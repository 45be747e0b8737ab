"""CPU time of recording a span, in one thread, compared with OpenTelemetry's SDK.

Run: python -m benchmarks.recording

Each contender records a tool call with its arguments and its result. The contenders alternate, and the best
of several rounds counts, because other load can only add time.
"""

from contextlib import ExitStack
from functools import partial
from tempfile import TemporaryDirectory
from time import process_time

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult

import trivium as tv
from benchmarks.sizes import sized

CALLS = sized(5_000, 20)
ROUNDS = sized(7, 1)
GOAL, GOAL_OFF = 20, 1  # microseconds


def work(query: str, limit: int = 3) -> str:
    """The function whose calls are recorded."""
    return query[:limit]


class Nowhere:
    """An exporter that does nothing, so that only the SDK's own cost is measured."""

    def export(self, spans):
        return SpanExportResult.SUCCESS

    def shutdown(self):
        """Do nothing."""

    def force_flush(self, timeout_millis=0):
        return True


def by_opentelemetry(processor):
    """The same call recorded by the SDK with the attribute names of the GenAI conventions."""
    provider = TracerProvider(shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("benchmark")

    def call(query: str, limit: int = 3) -> str:
        with tracer.start_as_current_span("execute_tool work") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "work")
            span.set_attribute("gen_ai.tool.call.arguments", f'{{"query": "{query}", "limit": {limit}}}')
            result = work(query, limit)
            span.set_attribute("gen_ai.tool.call.result", result)
            return result

    return call, provider


def microseconds(call) -> float:
    """CPU time of one call."""
    start = process_time()
    for number in range(CALLS):
        call("what is the weather in Paris", limit=number)
    return (process_time() - start) / CALLS * 1e6


def main() -> None:
    """Print the table."""
    tool = tv.trace.tool(work)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        providers = []

        def ours(call=tool, **settings):
            tv.trace.configure(**settings)
            return microseconds(call)

        def collected():
            with tv.trace.recorded():
                return microseconds(tool)

        contenders = {
            "not recorded": lambda: microseconds(work),
            "trivium, off": partial(ours, folder=None),
            "trivium, to a file": partial(ours, folder=folder),
            "trivium, to a file, no content": partial(ours, folder=folder, content=False),
            "trivium, collected": collected,
        }
        for name, processor in (
            ("OpenTelemetry, no processor", None),
            ("OpenTelemetry, simple, exported nowhere", SimpleSpanProcessor(Nowhere())),
            ("OpenTelemetry, batch, exported nowhere", BatchSpanProcessor(Nowhere())),
        ):
            call, provider = by_opentelemetry(processor)
            providers.append(provider)
            contenders[name] = partial(microseconds, call)
        for provider in providers:
            stack.callback(provider.shutdown)
        stack.callback(tv.trace.configure, folder=None, content=True)
        best = dict.fromkeys(contenders, float("inf"))
        for _ in range(ROUNDS):
            for name, run in contenders.items():
                best[name] = min(best[name], run())
    bare = best.pop("not recorded")
    peer = best["OpenTelemetry, batch, exported nowhere"] - bare
    print(f"{'cost of a span':<42}{'µs':>8}   × OpenTelemetry's batch processor")
    for name, taken in best.items():
        goal = f"   (goal {GOAL_OFF if 'off' in name else GOAL} µs)" if "trivium" in name else ""
        print(f"{name:<42}{taken - bare:>8.2f}{(taken - bare) / peer:>8.2f}{goal}")


if __name__ == "__main__":
    main()
