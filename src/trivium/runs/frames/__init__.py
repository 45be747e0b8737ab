"""A run's data as tables in memory: the rows that an export writes, for Arrow, Polars and pandas."""
