"""Cases, suites, their settings, and the files that hold them."""
