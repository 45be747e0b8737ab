"""The pytest plugin: evaluates a suite and turns its attempts into tests.

``EvaluatedRun`` and ``TestedAttempt`` are the types of the fixtures ``trivium_run`` and ``trivium_attempt``,
for annotations. pytest imports ``plugin`` at every start, so that module imports nothing else of Trivium.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trivium.integrations.pytest.results import EvaluatedRun as EvaluatedRun
    from trivium.integrations.pytest.results import TestedAttempt as TestedAttempt

__all__ = ["EvaluatedRun", "TestedAttempt"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.results"), name)
