"""``trivium init``: writes a first suite from a few answers, and names the next command."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from trivium.cli import first_suite, options
from trivium.cli.options import Choice
from trivium.errors import InputError, Problem, TriviumError
from trivium.keywords import taken

SOURCES = {
    "python": "a Python function, in a file or a module",
    "http": "an endpoint",
    "command": "a program that reads standard input",
    "outputs": "a file of outputs recorded elsewhere",
    "traces": "files of traces recorded elsewhere",
}
"""Where attempts can come from."""

RULES = {
    "contains": "it contains the expected answer",
    "exact": "it equals the expected answer",
    "similarity": "its words are similar to the expected answer",
    "judge": "a model says so",
    "none": "decide later",
}
"""When an answer is right."""

MODEL = "openai:gpt-4o-mini"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to write.

    Attributes:
        folder: Where.
        name: Name of the suite.
        source: A key of SOURCES.
        cases: A file or a prefixed source of cases, or None.
        questions: Question and answer of each case; empty for examples.
        agent: The agent, or None for an example.
        recorded: Files of outputs or traces; empty for an example.
        success: A key of RULES; None chooses one that fits the cases.
        model: The judge's model.
    """

    folder: Path
    name: str
    source: str
    cases: str | None
    questions: tuple[tuple[str, str], ...]
    agent: str | None
    recorded: tuple[str, ...]
    success: str | None
    model: str


@options.command(
    "trivium init",
    "trivium init --yes",
    "trivium init qa --cases questions.csv --agent app.py:answer --yes",
    "trivium init --outputs outputs.csv --cases questions.csv --success exact --yes",
)
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@options.option("--cases", metavar="FILE", help="Cases: .jsonl, .csv, .json, .yaml, .parquet, or hf:NAME.")
@options.option(
    "--question", "questions", nargs=2, multiple=True, metavar="QUESTION ANSWER", help="A case; repeatable."
)
@options.option("--from", "source", type=Choice(list(SOURCES)), help="Where attempts come from.")
@options.option("--agent", metavar="FILE.PY:NAME|URL|cmd:…", help="The agent to call.")
@options.option("--outputs", metavar="FILE", help="Outputs recorded elsewhere.")
@options.option("--traces", multiple=True, metavar="FILE", help="Traces recorded elsewhere; repeatable.")
@options.option("--success", type=Choice(list(RULES)), help="When an answer is right.")
@options.option("--judge", "model", metavar="MODEL", help=f"Model of the judge, such as {MODEL}.")
@options.option("--name", metavar="NAME", help="Name of the suite (default: the folder's).")
@options.option("--yes", is_flag=True, help="Ask nothing: what no option says gets its default.")
@options.option("--force", is_flag=True, help="Replace files that exist.")
def init(folder: Path, force: bool, **given: Any) -> None:
    """Write a first suite into FOLDER and print the command that runs it.

    Asks what the cases are, what answers them and when an answer is right. Writes suite.yaml, its schema for
    editors, and examples of what you do not have yet: cases, an agent, recorded outputs.
    """
    _check(given)
    if not given["yes"]:
        if not sys.stdin.isatty():
            raise click.UsageError("init asks in a terminal, and this is none: add --yes, which asks nothing")
        _ask(given)
    name = given["name"] or folder.resolve().name or "suite"
    plan = Plan(
        folder=folder,
        name=name,
        source=given["source"] or "python",
        recorded=(given["outputs"],) if given["outputs"] else given["traces"],
        model=given["model"] or MODEL,
        **taken(("cases", "questions", "agent", "success"), given),
    )
    files, count, success, then = _compose(plan)
    first_suite.write_files(folder, files, force=force)
    _report(plan, files, count, success, then)


def _check(given: dict[str, Any]) -> None:
    """Derive from where attempts come, and refuse options that exclude each other."""
    if given["cases"] and given["questions"]:
        raise click.UsageError("--cases and --question exclude each other")
    named = [option for option in ("agent", "outputs", "traces") if given[option]]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(f'--{each}' for each in named)} exclude each other")
    if named:
        found = _kind_of_agent(given["agent"]) if named == ["agent"] else named[0]
        if given["source"] not in {None, found}:
            raise click.UsageError(f"--{named[0]} {given[named[0]]} is not --from {given['source']}")
        given["source"] = found
    if given["source"] == "traces" and given["traces"] and (given["cases"] or given["questions"]):
        raise click.UsageError("--traces gives the cases too, one for each trace: leave out --cases")
    if given["model"]:
        if given["success"] not in {None, "judge"}:
            raise click.UsageError(f"--judge is not --success {given['success']}")
        given["success"] = "judge"


def _kind_of_agent(agent: str) -> str:
    if agent.lower().startswith(("http://", "https://")):
        return "http"
    return "command" if agent.startswith("cmd:") else "python"


def _ask(given: dict[str, Any]) -> None:
    """Ask for what no option says."""
    click.echo("A first suite: what answers, what is asked, and when an answer is right.\n")
    if given["source"] is None:
        given["source"] = _choice("What gives the answers?", SOURCES, "python")
    _ask_for_source(given)
    if not given["cases"] and not given["questions"] and not given["traces"]:
        given["cases"] = _prompt("File of cases (Enter: type questions)", _cases)
        if not given["cases"]:
            given["questions"] = _questions()
    if given["success"] is None:
        default = "none" if given["traces"] else "contains"
        given["success"] = _choice("When is an answer right?", RULES, default)
    if given["success"] == "judge" and given["model"] is None:
        given["model"] = click.prompt("Model of the judge", default=MODEL)


def _ask_for_source(given: dict[str, Any]) -> None:
    own = "(Enter: an example is written)"
    match given["source"]:
        case "outputs" if not given["outputs"]:
            given["outputs"] = _prompt(f"File of outputs {own}", _files) or None
        case "traces" if not given["traces"]:
            given["traces"] = tuple(_prompt(f"Files of traces {own}", _files).split())
        case "python" | "http" | "command" if not given["agent"]:
            forms = {"python": "file.py:function", "http": "address", "command": "program and arguments"}

            def agent(typed: str) -> str:
                if given["source"] == "command" and not typed.startswith("cmd:"):
                    typed = f"cmd:{typed}"
                if _kind_of_agent(typed) != given["source"]:
                    raise InputError(typed, f"is no {forms[given['source']]}")
                if (file := typed.rpartition(":")[0]).endswith(".py"):
                    _files(file)
                return typed

            given["agent"] = _prompt(f"Agent: {forms[given['source']]} {own}", agent) or None


def _prompt(question: str, check: Callable[[str], str]) -> str:
    """Ask until Enter, or an answer that the check takes; what is wrong with one is told at once."""

    def checked(typed: str) -> str:
        try:
            return check(typed.strip()) if typed.strip() else ""
        except TriviumError as error:
            raise click.UsageError(str(error)) from error

    answer: str = click.prompt(question, default="", show_default=False, value_proc=checked)
    return answer


def _cases(typed: str) -> str:
    from trivium.suites.suite import Suite

    Suite.load(typed)
    return typed


def _files(typed: str) -> str:
    from trivium.records.documents import check_is_file

    for name in (each for each in typed.split() if not Path(each).is_dir()):
        check_is_file(Path(name))
    return typed


def _choice(question: str, choices: dict[str, str], default: str) -> str:
    click.echo(question)
    for word, words in choices.items():
        click.echo(f"  {word:<12}{words}")
    chosen: str = click.prompt("Choose", type=Choice(list(choices)), default=default, show_choices=False)
    return chosen


def _questions() -> tuple[tuple[str, str], ...]:
    found = []
    while question := click.prompt("Question (Enter: no more)", default="", show_default=False):
        answer = click.prompt("  Good answer (Enter: none)", default="", show_default=False)
        found.append((question, answer))
    return tuple(found)


def _compose(plan: Plan) -> tuple[dict[str, bytes], int, str, list[str]]:
    """Return the files to write, the number of cases, when an answer is right, and the next commands."""
    from trivium.suites.suite import Suite

    folder = plan.folder
    files: dict[str, bytes] = {}
    origin, count = None, 0
    questions = plan.questions or first_suite.EXAMPLES
    if plan.source == "traces" and plan.recorded:
        files["cases.jsonl"], files["outputs.jsonl"], count = first_suite.attempts_of_traces(
            [Path(each) for each in plan.recorded]
        )
        origin = ("cases", "cases.jsonl")
        cases: Any = ()
    elif plan.cases:
        cases = Suite.load(plan.cases).cases  # raises on mistakes, before anything is written
        origin = _origin(plan.cases, folder)
    else:
        raw = [
            {"id": str(n), "input": q, "references": [a] if a else []}
            for n, (q, a) in enumerate(questions, 1)
        ]
        cases = Suite.load(raw).cases
    success = plan.success or ("contains" if cases and any(case.references for case in cases) else "none")
    then = _attempts(plan, cases, files)
    text = first_suite.suite_text(
        name=plan.name,
        success=success,
        model=plan.model,
        origin=origin,
        questions=questions,
        traces=plan.source == "traces",
    )
    suite = {first_suite.SUITE: text.encode(), first_suite.SCHEMA: first_suite.schema_text()}
    return suite | files, count or len(cases), success, then


def _origin(cases: str, folder: Path) -> tuple[str, str]:
    """Return the key of a suite file for a source of cases, and its path seen from the suite."""
    from trivium.suites.sources import NAMED, split_prefix

    prefix, rest = split_prefix(cases)
    if prefix in NAMED and not Path(rest.partition("?")[0]).exists():
        return str(prefix), rest
    return prefix or "cases", os.path.relpath(rest, folder)


def _attempts(plan: Plan, cases: Any, files: dict[str, bytes]) -> list[str]:
    """Add the examples of what is missing to the files; return the commands that come next."""
    folder = plan.folder
    suite = str(folder / first_suite.SUITE)
    example = plan.agent is None and not plan.recorded
    match plan.source:
        case "outputs" | "traces":
            name = "outputs.csv" if plan.source == "outputs" else "outputs.jsonl"
            if example:
                write = (
                    first_suite.example_outputs if plan.source == "outputs" else first_suite.example_traces
                )
                files[name] = write(cases)
            outputs = plan.recorded[0] if plan.source == "outputs" and plan.recorded else str(folder / name)
            if not Path(outputs).is_file() and not example and plan.source == "outputs":
                raise InputError("", Problem(outputs, "there is no such file"))
            score = shlex.join(["trivium", "score", suite, "--outputs", outputs])
            if plan.source == "traces" and plan.recorded:
                return [shlex.join(["trivium", "traces", "score", *plan.recorded]), score]
            return [score]
        case "http":
            start = []
            if example:
                files |= {"agent.py": first_suite.agent_text(), "server.py": first_suite.SERVER.encode()}
                start = [shlex.join(["python3", str(folder / "server.py")]) + " &"]
            agent = plan.agent or first_suite.ADDRESS
            return [*start, shlex.join(["trivium", "run", suite, "--agent", agent])]
        case _:
            path = str(folder / "agent.py")
            if example:
                files["agent.py"] = first_suite.agent_text()
            program = f"cmd:{shlex.join(['python3', path])}"
            agent = plan.agent or (program if plan.source == "command" else f"{path}:answer")
            return [shlex.join(["trivium", "run", suite, "--agent", agent])]


def _report(plan: Plan, files: dict[str, bytes], count: int, success: str, then: list[str]) -> None:
    """Print the written files, what the cases can prove, what is missing, and the next command."""
    for name in files:
        click.echo(f"wrote {plan.folder / name}")
    if success != "none":
        click.echo(first_suite.what_cases_prove(count))
    if success == "judge":
        from trivium.metrics.judge.client.pydantic_ai_models import why_unavailable

        if why := why_unavailable(plan.model):
            click.echo(f"The judge still needs something: {why}")
    click.echo("\nNext:")
    for line in then:
        click.echo(f"  {line}")
