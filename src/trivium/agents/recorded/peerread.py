"""People's reviews as attempts: ``peerread:FOLDER`` with leave-one-out, the human ceiling."""

from pathlib import Path

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.entering import attempt_of
from trivium.errors import OutputsError
from trivium.suites.case import Case
from trivium.suites.sources.peerread import human_outputs
from trivium.suites.suite import Suite


def read(path: Path, suite: Suite) -> list[tuple[Case, Attempt]]:
    """Every review of the suite's papers, with the paper's other reviews as the references of its case.

    Reviews of papers that the suite leaves out, and those without another beside them, are left out.

    Raises:
        OutputsError: If none is left.
    """
    limit = suite.settings.limits.output_bytes
    pairs = [
        (
            msgspec.structs.replace(suite.case(human.case), references=human.other_references),
            attempt_of(case=human.case, repeat=human.repeat, output=human.text, limit=limit),
        )
        for human in human_outputs(path)
        if suite.position(human.case) is not None
    ]
    if not pairs:
        raise OutputsError(str(path), "no paper of the suite has two reviews by people")
    return pairs
