"""A comparison of two runs, for the terminal, as Markdown, as a chart and as a page."""
