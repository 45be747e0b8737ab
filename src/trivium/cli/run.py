"""``trivium run``: ask an agent, score what it did, store and print it."""

from typing import Any

import click

from trivium.cli import options


@click.command()
@click.argument("suite", shell_complete=options.file_names)
@options.option("--agent", required=True, metavar="PKG.MOD:NAME|URL|cmd:…", help="Who is asked.")
@options.option("--repeats", type=click.IntRange(min=1), help="Attempts of each case (else the suite's).")
@options.option("--at-once", type=click.IntRange(min=1), help="Attempts in flight (else the suite's).")
@options.option("--tag", metavar="TAG", help="Only the cases with this tag.")
@options.option("--sample", type=click.IntRange(min=1), help="Only so many cases, drawn by the suite's seed.")
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
def run(suite: str, **given: Any) -> int:
    """Ask an agent every case of SUITE, score what it did, store and print it.

    SUITE is a suite file, a file of cases, or a source such as peerread:FOLDER. Every attempt is stored as
    soon as it is there: a run that is cut short goes on with --resume.
    """
    from trivium.cli.evaluating import evaluate_and_present, load_suite

    loaded = load_suite(
        suite,
        config=given["config"],
        encoder=given["encoder"],
        certificates=given["certificate"],
        repeats=given["repeats"],
        at_once=given["at_once"],
        tag=given["tag"],
        sample=given["sample"],
    )
    return evaluate_and_present(loaded, given, agent=given["agent"])
