"""``trivium doctor``, ``schema`` and ``completion``: what is installed, and texts for editors and shells."""

import platform
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.shell_completion import get_completion_class

from trivium.cli import options
from trivium.cli.options import Choice
from trivium.cli.output import print_answer, write_report
from trivium.errors import EncoderUnavailable, TriviumError
from trivium.values import JsonObject, json_document

if TYPE_CHECKING:
    from trivium.store.judge_cache import CacheSize

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "judge": (("pydantic_ai", "opentelemetry.sdk"), "judges, and PydanticAI agents"),
    "otel": (("opentelemetry.proto", "opentelemetry.sdk"), "traces in OpenTelemetry's protobuf"),
    "semantic": (("onnxruntime", "tokenizers", "huggingface_hub"), "the semantic score, light"),
    "semantic-torch": (("torch", "transformers"), "the semantic score with any encoder, or on a GPU"),
    "text": (("rouge_score", "sacrebleu", "rapidfuzz"), "rouge_l, bleu, chrf and edit"),
    "calibrate": (("sklearn",), "calibrators from scikit-learn"),
    "parquet": (("pyarrow",), "Parquet files, Arrow tables"),
    "cloud": (("upath",), "addresses such as s3://bucket/cases.jsonl"),
    "polars": (("polars", "pyarrow"), "frames of Polars"),
    "pandas": (("pandas", "pyarrow"), "frames of pandas"),
    "report": (("jinja2", "vl_convert"), "the HTML report"),
    "postgres": (("psycopg",), "a PostgreSQL store"),
    "serve": (("litestar", "uvicorn"), "the server that receives traces of production"),
    "inspect": (("zstandard",), "packed logs of Inspect AI"),
    "mcp": (("mcp",), "the server for coding agents"),
}
"""Modules that each extra installs, and what it is for."""

JUDGES = {"openai": "openai:gpt-4o-mini", "anthropic": "anthropic:claude-haiku-4-5"}
"""For each provider of judges, a model to name in a suite."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one component.

    Attributes:
        what: Name of the component.
        ok: Whether it can be used.
        found: Its version, location or size, or what is missing.
        to_do: How to make it usable, or None.
    """

    what: str
    ok: bool
    found: str
    to_do: str | None = None


@options.command("trivium doctor")
@options.encoder
@options.option(
    "--empty-cache",
    is_flag=True,
    help="Delete the cached judge answers of the store; runs stay as they are.",
)
@options.store
@options.as_json
def doctor(encoder: str | None, empty_cache: bool, store: str, as_json: bool) -> None:
    """Say what is installed, which extras and encoders can be used, and how to get the others."""
    if empty_cache:
        click.echo(_empty_cache(store))
        return
    findings = [_trivium(), *map(_extra, EXTRAS), *map(_judge, JUDGES), _encoder(encoder), *_store(store)]
    findings += _worlds()
    print_answer(findings, _lines, as_json=as_json)


def _lines(findings: list[Finding]) -> str:
    width = max(len(finding.what) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{'✓' if finding.ok else '–'} {finding.what:<{width}}  {finding.found}")
        lines += [f"  {'':<{width}}  → {finding.to_do}"] if finding.to_do else []
    return "\n".join(lines)


def _trivium() -> Finding:
    import trivium

    return Finding(
        what="trivium",
        ok=True,
        found=f"{trivium.__version__} on Python {platform.python_version()}, {platform.system()}",
    )


def _extra(name: str) -> Finding:
    modules, purpose = EXTRAS[name]
    missing = [module for module in modules if not installed(module)]
    if not missing:
        return Finding(what=name, ok=True, found=f"{purpose}: {', '.join(map(_version, modules))}")
    return Finding(
        what=name,
        ok=False,
        found=f"{purpose}: not installed ({', '.join(missing)})",
        to_do=f'pip install "trivium[{name}]"',
    )


def _judge(provider: str) -> Finding:
    from trivium.metrics.judge.client.pydantic_ai_models import model_address, why_unavailable

    model = JUDGES[provider]
    off = why_unavailable(model)
    what = f"judge {provider}"
    if off is None:
        return Finding(what=what, ok=True, found=f"can be asked at {model_address(model)}, as {model}")
    return Finding(what=what, ok=False, found="cannot be asked", to_do=off)


def installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _version(module: str) -> str:
    package = module.replace("_", "-").replace(".", "-").replace("pydantic-ai", "pydantic-ai-slim")
    package = package.replace("vl-convert", "vl-convert-python").replace("sklearn", "scikit-learn")
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def _encoder(named: str | None) -> Finding:
    from trivium.metrics.text.encoders.loading import load

    try:
        encoder = load(named)
    except EncoderUnavailable as error:
        return Finding(what="encoder", ok=False, found="no encoder can be loaded", to_do=str(error))
    return Finding(what="encoder", ok=True, found=f"{encoder.name} on {encoder.backend}")


def _empty_cache(url: str) -> str:
    from trivium.store.judge_cache import cache_size, empty_cache
    from trivium.store.store import Store

    with Store(url, create=False) as opened:
        before = cache_size(opened).answers
        empty_cache(opened)
        after = cache_size(opened).answers
        left = f"; {after:,} of runs that go on stay" if after else ""
        return f"{opened.name}: {before - after:,} answers of judges dropped{left}"


def _store(url: str) -> list[Finding]:
    from trivium.store.connection import readable_by_others
    from trivium.store.judge_cache import cache_size
    from trivium.store.store import Store

    try:
        with Store(url, read_only=True) as opened:
            runs, cache = len(opened.runs()), cache_size(opened)
            open_to_others = readable_by_others(opened.engine)
            to_do = open_to_others and f"other users of this machine can read it: chmod 600 {open_to_others}"
            return [
                Finding(what="store", ok=True, found=f"{opened.name}: {runs:,} runs", to_do=to_do or None),
                Finding(what="cache", ok=True, found=_cache(cache)),
            ]
    except TriviumError as error:
        return [Finding(what="store", ok=False, found=str(error))]


def _worlds() -> list[Finding]:
    """Remove the worlds that killed runs left; nothing is said if there are none."""
    from trivium.agents.worlds.making import remove_lost_worlds

    removed = remove_lost_worlds()
    found = f"removed {removed:,} temporary folders that killed runs left"
    return [Finding(what="worlds", ok=True, found=found)] if removed else []


def _cache(cache: "CacheSize") -> str:
    if cache.oldest is None:
        return "no answers of judges"
    since = datetime.fromtimestamp(cache.oldest, tz=UTC).date()
    size = cache.bytes / 1e6
    shown_size = f"{size:,.1f} MB" if size >= 0.1 else f"{cache.bytes:,} bytes"
    stored = f"{cache.answers:,} answers of judges, {shown_size}"
    return f"{stored}, all used since {since} (judge.cache_mb bounds it)"


FORMATS = {
    "suite": "",
    "rubric": "trivium.suites.rubrics.rubric:Rubric",
    "case": "trivium.suites.case:Case",
    "output": "",
    "item": "trivium.runs.items.records:Item",
    "label": "trivium.runs.items.records:Label",
    "judgement": "trivium.runs.items.records:Judgement",
}
"""The record of each file format; a suite and an output may be written in several forms."""

ANSWERS = {
    "run": "trivium.runs.summary:Summary",
    "score": "trivium.runs.summary:Summary",
    "show": "trivium.runs.summary:Summary",
    "list": "trivium.reports.runs_table:RunRow",
    "compare": "trivium.runs.comparing.comparison:Comparison",
    "confirm": "trivium.runs.comparing.comparison:Comparison",
    "plan": "trivium.runs.comparing.planning:ComparisonPlan",
    "pairs": "trivium.runs.pairwise_result:PairComparison",
    "doctor": "trivium.cli.doctor:Finding",
}
"""The record that each command prints with ``--json``."""

LISTS = {"list", "doctor"}
"""Commands that print a list of records."""


def _record(place: str) -> type[msgspec.Struct]:
    module, _, name = place.partition(":")
    record: type[msgspec.Struct] = getattr(import_module(module), name)
    return record


def answer_schema(command: str) -> JsonObject:
    """The JSON Schema of what a command prints with ``--json``."""
    from trivium.suites.json_schema import DIALECT, record_schema

    schema = record_schema(_record(ANSWERS[command]))
    if command in {"compare", "confirm"}:
        from trivium.reports.moved_cases.document import ChangeWithTexts

        with_texts = record_schema(ChangeWithTexts)
        changes = schema["$defs"]["MovedCases"]["properties"]["changes"]
        changes["items"] = {"anyOf": [{"$ref": with_texts["$ref"]}, changes["items"]]}
        schema["$defs"] |= with_texts["$defs"]
    if command in LISTS:
        rows = {"type": "array", "items": {"$ref": schema["$ref"]}}
        return {"$schema": DIALECT, **rows, "$defs": schema["$defs"]}
    return schema


@options.command("trivium schema suite --output suite.schema.json", "trivium schema --command compare")
@click.argument(
    "what",
    type=options.Choice(list(FORMATS)),
    default="suite",
)
@options.option(
    "--command", type=options.Choice(list(ANSWERS)), help="What this command prints with --json, instead."
)
@options.output_file("--output", default="-", help="Write it here, not to standard output.")
def schema(what: str, command: str | None, output: Path) -> None:
    """Print the JSON Schema of a suite file (default) or of a rubric file.

    For cases, outputs, items, labels and judgements: the schema of one line of such a file.
    """
    from trivium.agents.recorded.outputs import output_schema
    from trivium.suites.json_schema import record_schema, suite_schema

    if command is not None:
        document = answer_schema(command)
    elif FORMATS[what]:
        document = record_schema(_record(FORMATS[what]))
    else:
        document = suite_schema() if what == "suite" else output_schema()
    write_report(output, json_document(document))


@options.command("trivium completion bash >> ~/.bashrc", "trivium completion zsh > ~/.zfunc/_trivium")
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that complete trivium's commands and options in SHELL."""
    from trivium.cli.main import trivium

    cls = get_completion_class(shell)
    if cls is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(cls(trivium, {}, "trivium", "_TRIVIUM_COMPLETE").source())
