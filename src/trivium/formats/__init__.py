"""Readers of other tools' files: one module or package for each tool, with cases, attempts and traces."""
