"""Fixtures: URLs of empty stores."""

from tests.store.conftest import any_url, url

__all__ = ["any_url", "url"]
