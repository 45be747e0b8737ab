"""Fixtures: URLs of empty stores."""

from tests.store.conftest import url
from tests.store.postgres import any_made_url

__all__ = ["any_made_url", "url"]
