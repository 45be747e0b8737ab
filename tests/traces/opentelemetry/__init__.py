"""Tests of what recorded spans are read as."""
