"""``python -m trivium`` is ``trivium``."""

from trivium.cli.main import main

main()
