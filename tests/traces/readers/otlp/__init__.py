"""Tests of the reader of OTLP."""
