"""Selects traces by id, tag, agent and time."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trivium.errors import Problem, TraceError, suggest
from trivium.traces.outcome import started, tags_of
from trivium.traces.trace import Trace

_NAMED_ZONE = re.compile(r"(.+?)\s*[\s\[]([A-Za-z]+(?:/[\w+-]+)+|UTC)\]?")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

MOST_SEEN = 10_000
"""Most ids, tags and agents among which the nearest is suggested."""

MOST_NAMED = 8
"""Tags or agents that a message lists."""

Moment = datetime | str
"""A time: a datetime, an ISO date or time, or how long ago: 30m, 24h, 7d, 2w.

A date or time may name its zone, by an offset (``2026-11-22T14:30+01:00``) or a name (``2026-11-22
Europe/Berlin``); without one it is UTC.
"""


def unix_time(moment: Moment, *, option: str) -> float:
    """Seconds since 1970.

    Args:
        moment: The time.
        option: Its name in messages.

    Raises:
        TraceError: If it is no time.
    """
    if isinstance(moment, str):
        text = moment.strip()
        ago = _AGO.fullmatch(text.lower())
        try:
            if ago:
                past = timedelta(**{_UNITS[ago[2]]: float(ago[1])})
                return (datetime.now(tz=UTC) - past).timestamp()
            named = _NAMED_ZONE.fullmatch(text)
            moment = datetime.fromisoformat(named[1] if named else text)
            if named:
                moment = moment.replace(tzinfo=ZoneInfo(named[2]))
        except (ValueError, OverflowError, ZoneInfoNotFoundError):
            what = (
                f'found "{text}", expected a date or time such as 2026-11-22T14:30, also with a zone '
                "(+01:00, Europe/Berlin), or 24h, 7d, 2w ago"
            )
            raise TraceError("", Problem(option, what)) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class Selection:
    """Which traces are wanted; every condition that is given must hold.

    Args:
        trace_ids: Ids, of which the trace must have one.
        tags: Tags, of which the trace must have one.
        agents: Agents, of which one must have acted in the trace.
        since: The trace began at this time or later.
        until: The trace began before this time.

    Raises:
        TraceError: If ``since`` or ``until`` is no time.
    """

    def __init__(
        self,
        *,
        trace_ids: Sequence[str] = (),
        tags: Sequence[str] = (),
        agents: Sequence[str] = (),
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> None:
        self._trace_ids, self._tags, self._agents = frozenset(trace_ids), frozenset(tags), frozenset(agents)
        self._since = None if since is None else unix_time(since, option="since")
        self._until = None if until is None else unix_time(until, option="until")
        self._seen: dict[str, dict[str, None]] = {"trace id": {}, "tag": {}, "agent": {}}
        self._earliest: float | None = None
        self._latest: float | None = None
        self.left_out = 0
        self.undated = 0

    def wants(self, trace: Trace) -> bool:
        """Whether a trace is selected; remembers what there is, for messages."""
        wanted = self._meets(trace)
        self.left_out += not wanted
        return wanted

    def _meets(self, trace: Trace) -> bool:
        ids, tags = (trace.trace_id,), tags_of(trace)
        agents = trace.agents if self._agents else ()
        meets = True
        for wanted, kind, names in (
            (self._trace_ids, "trace id", ids),
            (self._tags, "tag", tags),
            (self._agents, "agent", agents),
        ):
            if wanted:
                seen = self._seen[kind]
                if len(seen) < MOST_SEEN:
                    seen.update(dict.fromkeys(names))
                meets = meets and not wanted.isdisjoint(names)
        return meets and self._in_time(trace)

    def _in_time(self, trace: Trace) -> bool:
        if self._since is None and self._until is None:
            return True
        moment = started(trace)
        if moment is None:
            self.undated += 1
            return False
        self._earliest = moment if self._earliest is None else min(moment, self._earliest)
        self._latest = moment if self._latest is None else max(moment, self._latest)
        return (self._since is None or moment >= self._since) and (
            self._until is None or moment < self._until
        )

    def problems(self) -> list[Problem]:
        """Why nothing was selected: each name that no trace has, with the nearest one."""
        found = []
        for option, wanted, kind in (
            ("--trace-id", self._trace_ids, "trace id"),
            ("--tag", self._tags, "tag"),
            ("--agent", self._agents, "agent"),
        ):
            seen = self._seen[kind]
            for name in sorted(wanted - seen.keys()):
                near = suggest(name, seen) or _there_are(kind, [each for each in seen if each])
                found.append(Problem(option, f'no trace has the {kind} "{name}".{near}'))
        if not found and self._earliest is not None and self._latest is not None:
            span = f"{_shown(self._earliest)} to {_shown(self._latest)}"
            found.append(Problem("--since, --until", f"no trace began in that time; they began {span}"))
        if not found and self.undated:
            found.append(Problem("--since, --until", f"{self.undated:,} traces state no time of day"))
        return found or [Problem("", f"none of the {self.left_out:,} traces meets all conditions")]


def _there_are(kind: str, names: list[str]) -> str:
    if not names:
        return f" No trace has any {kind}."
    more = len(names) - MOST_NAMED
    return f" There are: {', '.join(names[:MOST_NAMED])}{f' and {more:,} more' if more > 0 else ''}."


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
