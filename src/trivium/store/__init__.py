"""Stores runs in a database: one SQL schema, SQLite by default, PostgreSQL by URL."""
