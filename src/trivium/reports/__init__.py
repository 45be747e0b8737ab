"""Reports: what a run says, in a terminal, a page, a CI comment and a CI test list."""
