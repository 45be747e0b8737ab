"""What real exporters send is received whole: OpenTelemetry's SDK, and Trivium's own exports."""

from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.monitor.samples import open_alert
from tests.otlp_requests import body, span
from trivium.monitor.intake import Intake
from trivium.monitor.interaction import interaction_of
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.traces.normalize import normalise
from trivium.traces.trace import Message, Span, SpanUsage
from trivium.traces.writers.otlp import TraceToExport, request, resource_spans


def test_spans_of_the_sdk_become_an_interaction(any_url):
    exported = InMemorySpanExporter()
    resource = Resource.create(
        {"service.name": "support", "service.version": "3.1", "deployment.environment.name": "prod"}
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    tracer = provider.get_tracer("app", "1")
    names = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
    with tracer.start_as_current_span("invoke_agent helper", attributes=names) as root:
        root.set_attributes({"gen_ai.conversation.id": "c1", "trivium.tags": ["vip"], "input.value": "Hi?"})
        root.set_attribute("output.value", "Hello.")
        names = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
        with tracer.start_as_current_span("chat m1", attributes=names):
            pass
        names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
        with tracer.start_as_current_span("execute_tool lookup", attributes=names) as tool:
            tool.set_status(otel.StatusCode.ERROR, "no such order")
    spans = exported.get_finished_spans()
    with Store(any_url) as store, Intake(LiveTraces(store)) as intake:
        traces = LiveTraces(store)
        for one in spans:  # the root is the last
            assert intake.receive(encode_spans([one]).SerializeToString(), "protobuf").new == 1
        trace_id = f"{spans[0].context.trace_id:032x}"
        interaction = interaction_of(traces.found(trace_id))
    assert interaction.facets == {
        "agent": ("helper",), "tool": ("lookup",), "failed_tool": ("lookup",), "tag": ("vip",),
        "model": ("m1",), "version": ("3.1",),
        "service": ("support",),
    }  # fmt: skip
    assert (interaction.session, interaction.failed) == ("c1", False)
    assert interaction.trace.metadata["environment"] == "prod"


def test_names_that_no_database_can_hold_become_harmless(any_url):
    """PostgreSQL refuses NUL in texts; terminals obey escape sequences."""
    trace = bytes(range(16))
    sent = span(trace, operation="execute_tool", tool="a\0b\x1b[31m")
    with Store(any_url) as store, Intake(LiveTraces(store)) as intake:
        intake.receive(body([sent]), "protobuf")
        facets = interaction_of(LiveTraces(store).found(trace.hex())).facets
        assert facets["tool"] == ("a\ufffdb\ufffd[31m",)
        open_alert(store, "m", now=1.0, cause=facets["tool"][0])


def test_an_export_of_trivium_is_received_as_it_was(any_url):
    original = normalise(
        [
            Span(id="root", kind="agent", name="planner", start=0.0, end=4.0, input="q", output={"a": 1}),
            Span(id="call", kind="tool", name="search", parent="root", start=1.0, end=2.0, input={"q": "x"}),
            Span(id="chat", kind="llm", name="m", parent="root", start=2.0, end=3.0,
                 usage=SpanUsage(input_tokens=5, output_tokens=7)),
        ],
        [Message(sender="planner", receiver="writer", time=1.5, content="go")],
        trace_id="mine",
        metadata={"started": "2026-01-02T03:04:05.000006Z", "tags": ["a", "b"]},
    )  # fmt: skip
    exports = [TraceToExport(trace=original, key="0")]
    body = request(list(resource_spans(exports)))
    with Store(any_url) as store, Intake(LiveTraces(store)) as intake:
        assert intake.receive(body, "json").rejected == 0
        with store.engine.connect() as connection:
            trace_id = connection.exec_driver_sql("SELECT trace FROM live_traces").scalar()
        found = LiveTraces(store).trace(trace_id)
    assert (found.spans, found.messages) == (original.spans, original.messages)
    assert found.metadata.items() >= original.metadata.items()
