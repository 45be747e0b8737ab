"""The size of a benchmark: its own, or one at which a test can run it in seconds (``BENCHMARKS_TINY=1``).

The figures of a tiny run mean nothing; that it runs to its end does.
"""

import os
from typing import TypeVar

T = TypeVar("T")


def sized(full: T, tiny: T) -> T:
    """The one or the other."""
    return tiny if os.environ.get("BENCHMARKS_TINY") == "1" else full
