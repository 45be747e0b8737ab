"""Importing what users name: from what is installed, or from their working folder."""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def import_here(module: str) -> ModuleType:
    """Import a module that the working folder may hold too, however Python was started."""
    make_importable(Path.cwd())
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder
    return importlib.import_module(module)


def make_importable(folder: Path) -> None:
    """Let modules be found in a folder, first of all."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
