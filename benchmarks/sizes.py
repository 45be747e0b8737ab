"""The size of a benchmark: the full one, or a tiny one that a test runs in seconds (``BENCHMARKS_TINY=1``).

The figures of a tiny run are meaningless; it only shows that the benchmark works.
"""

import os
from typing import TypeVar

T = TypeVar("T")


def sized(full: T, tiny: T) -> T:
    """The one or the other."""
    return tiny if os.environ.get("BENCHMARKS_TINY") == "1" else full
