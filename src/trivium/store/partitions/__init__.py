"""Attempts and evaluations of large runs in Parquet files, at which rows of the database point."""
