"""Tests of the commands for production."""
