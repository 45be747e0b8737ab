"""How sure a number is: pure statistics on arrays, which know nothing of suites, runs or files."""
