"""Where runs are kept: one SQL schema, SQLite by default, PostgreSQL by URL."""
