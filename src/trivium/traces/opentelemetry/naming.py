"""Naming: agents whose name some spans leave out, and agent spans that are none."""

from collections.abc import Sequence

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.recorded import RecordedSpan

_UNNAMED = "agent"
"""What PydanticAI calls an agent whose name it does not know yet."""


def name_agents(spans: Sequence[RecordedSpan], readings: list[Reading], *, by_run: bool) -> None:
    """Changes the readings of agent spans without a name, and of runs that go by two names.

    Where named agents run too, a nameless agent span is the workflow around them; else its span's name
    is its name. PydanticAI says the name of an unnamed agent on some spans of a run only: all spans of
    the run get it.

    Args:
        spans: Of one trace.
        readings: What each is; changed.
        by_run: Whether any says which run it is of.
    """
    nameless = [index for index, what in enumerate(readings) if what.kind == "agent" and not what.name]
    if nameless:
        named = any(what.kind == "agent" and what.name for what in readings)
        for index in nameless:
            readings[index] = Reading("other" if named else "agent", spans[index].name)
    if not by_run:
        return
    runs = [span.attributes.get(wanted.RUN) for span in spans]
    names: dict[str, str] = {}
    for run, what in zip(runs, readings, strict=True):
        name = what.name if what.kind == "agent" else what.agent
        if name and isinstance(run, str) and names.get(run, _UNNAMED) == _UNNAMED:
            names[run] = name
    for index, run in enumerate(runs):
        name = names.get(run) if isinstance(run, str) else None
        what = readings[index]
        if name and what.kind == "agent":
            readings[index] = msgspec.structs.replace(what, name=name)
        elif name and what.agent is not None:
            readings[index] = msgspec.structs.replace(what, agent=name)
