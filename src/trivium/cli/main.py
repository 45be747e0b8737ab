"""The command ``trivium``. Each command is one file, imported when it is called, and one line in COMMANDS."""

from typing import Any

import click

from trivium.cli.lazy import LazyCommands
from trivium.cli.options import Words
from trivium.cli.overview import COMMANDS, LOG_FILE_HELP, LOG_LEVEL_HELP, LOG_LEVELS, PURPOSE, columns

INTERRUPTED = 130
WRONG_INPUT = 2


@click.group(
    cls=LazyCommands,
    help=PURPOSE,
    table=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "terminal_width": columns(),
    },
)
@click.version_option(package_name="trivium", message="trivium %(version)s")
@click.option(
    "--log-level",
    type=Words(LOG_LEVELS),
    default="warning",
    envvar="TRIVIUM_LOG_LEVEL",
    show_default=True,
    help=LOG_LEVEL_HELP,
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False),
    envvar="TRIVIUM_LOG_FILE",
    help=LOG_FILE_HELP,
)
def trivium(log_level: str, log_file: str | None) -> None:
    """The group of all commands."""
    from trivium.cli.logs import set_up_logs

    set_up_logs(log_level, log_file)


def run_command(arguments: list[str]) -> int:
    """Run a command line and return its exit code: errors in plain words, codes as the specification says."""
    try:
        outcome: Any = trivium.main(arguments, prog_name="trivium", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        error.show()
        return WRONG_INPUT
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        # Click's answer when the reader of our output left (`| head`): nothing is wrong.
        return 0
    except MemoryError:
        click.echo("Error: this machine has not enough memory for what was to be read or computed", err=True)
        return WRONG_INPUT
    except Exception as error:
        from trivium.errors import TriviumError

        if not isinstance(error, TriviumError):
            raise
        from trivium.reports.untrusted import visible

        click.echo(f"Error: {visible(str(error))}", err=True)
        return WRONG_INPUT
    return outcome if isinstance(outcome, int) else 0
