"""Logs: what was decided and why, on standard error and on wish in a file, secrets masked."""

import json
import logging
import sys
from datetime import UTC, datetime

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
    screen = logging.StreamHandler(sys.stderr)
    screen.setFormatter(_Line())
    logger.addHandler(screen)
    if file is not None:
        try:
            handler = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            raise InputError(file, f"the log cannot be written here: {error.strerror}") from error
        handler.setFormatter(_JsonLine())
        logger.addHandler(handler)


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
