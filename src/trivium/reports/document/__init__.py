"""A report as blocks (blocks.py), and a writer of blocks for each place in which reports are read."""
