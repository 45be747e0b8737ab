"""The version of Trivium, in a module that imports nothing: pyproject.toml and the package both read it."""

__version__ = "0.1.0"
