"""What is asked: cases, suites, their settings, and the files that hold them."""
