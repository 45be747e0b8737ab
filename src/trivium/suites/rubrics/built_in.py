"""The built-in rubrics: files beside this module, written as users write their own.

Definitions: docs/definitions/judge.md#review, docs/definitions/judge.md#agent,
docs/definitions/judge.md#documents, docs/definitions/judge.md#conversation,
docs/definitions/judge.md#user-mistakes.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from trivium.records.documents import read_document
from trivium.suites.rubrics.rubric import Rubric

NAMES = ("review", "agent", "documents", "conversation", "simulated_user")


@cache
def built_in_rubrics() -> Mapping[str, Rubric]:
    """The rubrics by name."""
    files = {name: Path(__file__).with_name(f"{name}.yaml") for name in NAMES}
    return {name: msgspec.convert(read_document(file), Rubric) for name, file in files.items()}


@cache
def user_mistakes() -> tuple[str, ...]:
    """Metrics that are 0 where the simulated user of a conversation made a mistake."""
    return tuple(dimension.name for dimension in built_in_rubrics()["simulated_user"].dimensions)
