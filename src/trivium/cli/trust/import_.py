"""``trivium trust import``: bring judgements recorded elsewhere into a run."""

from pathlib import Path

import click

from trivium.cli import options


@click.command("import")
@click.argument("run")
@click.argument("judgements", type=click.Path(path_type=Path))
@options.certificate
@options.store
@options.as_json
@options.quiet
def import_(
    run: str, judgements: Path, certificate: tuple[str, ...], store: str, as_json: bool, quiet: bool
) -> int:
    """Bring JUDGEMENTS recorded elsewhere (JSONL, CSV, Parquet) to the attempts of RUN.

    RUN stays as it is: a new run holds its scores with the judgements beside them.
    """
    from trivium.cli.outcome import present
    from trivium.runs.run import Run

    judged = Run.load(run, store=store).with_judgements(judgements, certificates=certificate)
    present(judged, judged.summary(), as_json=as_json, quiet=quiet)
    return 0
