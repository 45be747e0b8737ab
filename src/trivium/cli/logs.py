"""Writes errors and the log to standard error, and the log as JSON lines to a file; secrets are masked."""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import click

INTERRUPTED = 130
WRONG_INPUT = 2


def configure_logging(level: str, file: str | None) -> None:
    """Send the log of Trivium to standard error and, as JSON lines, to a file.

    Raises:
        InputError: If the file cannot be written.
    """
    logger = logging.getLogger("trivium")
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.setLevel(level.upper())
    logger.propagate = False
    screen = _StandardErrorHandler()
    screen.setFormatter(_TextFormatter())
    logger.addHandler(screen)
    if file is not None:
        try:
            handler = _LogFileHandler(file, encoding="utf-8")
        except OSError as error:
            from trivium.errors import InputError

            raise InputError(file, f"the log cannot be written here: {error.strerror}") from error
        handler.setFormatter(_JsonFormatter())
        logger.addHandler(handler)


class _StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to the current standard error; a closed one is ignored."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of logging's
        """Do nothing: logging's own report would print the message unmasked."""


class _LogFileHandler(logging.FileHandler):
    """Writes to a file; a failure is reported without the message."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of logging's
        """Report only the cause: logging's own report would print the message unmasked."""
        with suppress(OSError, ValueError):
            sys.stderr.write(
                f"warning: {self.baseFilename}: the log cannot be written: {sys.exc_info()[1]}\n"
            )


class _TextFormatter(logging.Formatter):
    """Formats a record as one line of text."""

    def format(self, record: logging.LogRecord) -> str:
        from trivium.masking import mask

        return mask(f"{record.levelname.lower()}: {record.getMessage()}")


class _JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        from trivium.masking import mask

        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = mask(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def print_errors(command: Callable[[], Any]) -> int:
    """Call a command, print its errors without a traceback, and return the exit code."""
    try:
        outcome = command()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        error.show()
        return WRONG_INPUT
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        # Click exits like this when the reader closed the pipe (`| head`): not an error.
        return 0
    except MemoryError:
        click.echo("Error: this machine does not have enough memory for this command", err=True)
        return WRONG_INPUT
    except Exception as error:
        from trivium.errors import TriviumError

        if not isinstance(error, TriviumError):
            raise
        from trivium.safe_text import visible

        click.echo(f"Error: {visible(str(error))}", err=True)
        return WRONG_INPUT
    return outcome if isinstance(outcome, int) else 0
