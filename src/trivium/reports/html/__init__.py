"""The report of a run as one self-contained HTML file.

Raises:
    MissingExtra: On import, if ``trivium[report]`` is not installed.
"""

from trivium.errors import MissingExtra

try:
    import markupsafe as markupsafe  # comes with Jinja; most modules here import it
except ImportError as error:
    raise MissingExtra("report", "The HTML report") from error
