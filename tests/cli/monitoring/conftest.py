"""Fixtures: URLs of empty stores."""

from tests.store.conftest import url

__all__ = ["url"]
