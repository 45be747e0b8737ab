"""``python -m trivium`` is ``trivium``."""

from trivium.cli.start import main

main()
