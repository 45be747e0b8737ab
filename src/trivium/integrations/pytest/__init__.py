"""Suites as tests. When pytest starts, only ``plugin`` is imported, which imports nothing."""
