"""The files that hold suites and cases: documents, lines, tables; read and written."""
