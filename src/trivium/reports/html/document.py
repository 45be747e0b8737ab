"""What every page shares: templates, style, a strict policy, and being written whole or not at all."""

import base64
import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trivium.errors import MissingExtra
from trivium.reports.untrusted import visible

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def asset(name: str) -> str:
    """A file that stands beside the templates."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def policy(style: str, script: str | None = None) -> str:
    """A Content-Security-Policy under which a page runs this style and this script and nothing else."""
    scripts = "'none'" if script is None else f"'{_hash(script)}'"
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def environment() -> "jinja2.Environment":
    """Jinja, escaping everything, with the words of the reports as filters.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtra("report", "The HTML report") from error
    from trivium.reports import wording

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "number": wording.number,
        "interval": wording.interval,
        "share": wording.share,
        "words": wording.words,
    }
    return made


def write_whole(target: Path, parts: Iterable[bytes]) -> None:
    """Write beside the target and put it in place when it is complete.

    A link stays one; a device or a pipe, which nothing may take the place of, is written to as it is.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.writelines(parts)
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            file.writelines(parts)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _shown(value: Any) -> Any:
    """What a template prints: texts of strangers with nothing in them that is obeyed rather than read."""
    return visible(value) if type(value) is str else value
