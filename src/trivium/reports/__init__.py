"""Reports of runs and comparisons: terminal tables, HTML pages, Markdown comments and JUnit XML."""
