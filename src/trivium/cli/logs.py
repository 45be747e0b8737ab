"""Logs: what was decided and why, on standard error and on wish in a file, secrets masked."""

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

from trivium.errors import InputError


def set_up_logs(level: str, file: str | None) -> None:
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
    screen = _StandardError()
    screen.setFormatter(_Line())
    logger.addHandler(screen)
    if file is not None:
        try:
            handler = _File(file, encoding="utf-8")
        except OSError as error:
            raise InputError(file, f"the log cannot be written here: {error.strerror}") from error
        handler.setFormatter(_JsonLine())
        logger.addHandler(handler)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the time; where that is closed, there is nobody to tell."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of logging's
        """Say nothing: logging's own report would print the message unmasked."""


class _File(logging.FileHandler):
    """Writes to a file; one that cannot be written to is reported without the message."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of logging's
        """Report the cause alone: logging's own report would print the message unmasked."""
        with suppress(OSError, ValueError):
            sys.stderr.write(
                f"warning: {self.baseFilename}: the log cannot be written: {sys.exc_info()[1]}\n"
            )


class _Line(logging.Formatter):
    """One line for people."""

    def format(self, record: logging.LogRecord) -> str:
        from trivium.masking import mask

        return mask(f"{record.levelname.lower()}: {record.getMessage()}")


class _JsonLine(logging.Formatter):
    """One JSON object for programs."""

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
