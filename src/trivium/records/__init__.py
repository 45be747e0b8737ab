"""Reads records from files and from memory, each with its place for messages."""
