"""``trivium score``: score outputs and traces recorded elsewhere."""

from typing import Any

import click

from trivium.cli import options


@click.command()
@click.argument("suite", shell_complete=options.file_names)
@options.option(
    "--outputs", metavar="FILE", shell_complete=options.file_names, help="The recorded outputs (JSONL)."
)
@options.option("--attempts-of", metavar="RUN", help="Score a stored run's attempts again; nobody is asked.")
@options.option("--leave-one-out", is_flag=True, help="Score people's own outputs against each other's.")
@options.metrics
@options.config
@options.encoder
@options.certificate
@options.store
@options.resume
@options.as_json
@options.quiet
@options.inconclusive
@options.reports
def score(suite: str, **given: Any) -> int:
    """Score outputs of SUITE that were recorded elsewhere, store and print it.

    SUITE is a suite file, a file of cases, or a source that holds suite and outputs at once:
    tau-bench:FILE, agents-eval:FOLDER, or peerread:FOLDER with --leave-one-out.
    """
    from trivium.cli.evaluating import evaluate_and_present, load_suite

    outputs = given["outputs"]
    if outputs is None and given["attempts_of"] is None:
        if ":" not in suite:
            raise click.UsageError("say what to score: --outputs FILE, or --attempts-of RUN")
        outputs = suite
    if outputs is not None and given["attempts_of"] is not None:
        raise click.UsageError("--outputs and --attempts-of exclude each other")
    loaded = load_suite(
        suite, config=given["config"], encoder=given["encoder"], certificates=given["certificate"]
    )
    return evaluate_and_present(
        loaded,
        given,
        outputs=outputs,
        attempts_of=given["attempts_of"],
        leave_one_out=given["leave_one_out"],
    )
