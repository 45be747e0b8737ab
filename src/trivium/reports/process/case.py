"""How one attempt went, for its page: sentences, and whose its time was."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from trivium.reports import wording
from trivium.reports.html.range_svg import range_svg
from trivium.reports.process.words import chained, circuit_words, game_words, looped_words
from trivium.reports.untrusted import one_line
from trivium.traces.process.process import Process
from trivium.traces.process.time_shares import TimeShare

SHARES_SHOWN = 10
SENTENCES_OF_A_KIND = 3
NAME_CHARS = 40


def process_context(process: Process) -> dict[str, Any]:
    """Everything that the template of a trace needs of how it went."""
    shares = [("Time by agent", process.by_agent), ("Time by tool", process.by_tool)]
    return {
        "timed": bool(process.stretches),
        "again": bool(process.looped or any(one.retry for one in process.repeated)),
        "sentences": _sentences(process),
        "shares": [
            (title, [_share(one) for one in found[:SHARES_SHOWN]], max(0, len(found) - SHARES_SHOWN))
            for title, found in shares
            if found and process.seconds
        ],
    }


def _share(one: TimeShare) -> tuple[str, str, Markup]:
    name = "nobody" if one.name is None else one_line(one.name, at_most=NAME_CHARS)
    told = f"{wording.seconds(one.seconds)} · {wording.share(one.share or 0.0)}"
    return name, told, Markup(range_svg(one.share, None))  # noqa: S704 - made of numbers


def _sentences(process: Process) -> list[str]:
    return [*_of_times(process), *_of_repeats(process), *_of_hand_offs(process), *_of_leftovers(process)]


def _of_times(process: Process) -> list[str]:
    whole, path = process.seconds, [step for step in process.path if step.span is not None]
    if not whole or not path:
        return []
    longest = max(path, key=lambda step: step.seconds)
    through = wording.counted(len(path), "span")
    longest_name = one_line(longest.name or "", at_most=NAME_CHARS)
    most = f"{longest.kind} {longest_name}, {wording.seconds(longest.seconds)}"
    said = [
        f"Wall time {wording.seconds(whole)}. The critical path goes through {through}.",
        f"Most of it is {most} ({wording.share(longest.share or 0.0)}).",
    ]
    found = process.concurrency
    if found.overlapped:
        said.append(
            f"Two or more spans were at work {wording.share(found.overlapped / whole)} of the time, in "
            f"{wording.counted(len(found.sections), 'parallel section')}, up to {found.most:,} at once."
        )
    waiting = whole - found.busy
    if waiting > whole / 100:
        said.append(f"No span was at work {wording.share(waiting / whole)} of the time.")
    return said


def _of_repeats(process: Process) -> list[str]:
    calls, said = process.trace.tool_calls, []
    retries = [calls[one.call] for one in process.repeated if one.retry]
    if retries:
        recovered = sum(call.ok is True for call in retries)
        count = wording.counted(len(retries), "retry", "retries")
        said.append(f"{count} of failed calls, {recovered:,} with success.")
    repeats = len(process.repeated) - len(retries)
    if repeats:
        said.append(f"{wording.counted(repeats, 'call')} repeated what had succeeded before.")
    return said + _first([f"Loop: {looped_words(loop)}." for loop in process.loops], "loop")


def _of_hand_offs(process: Process) -> list[str]:
    found = process.hand_offs
    said = [f"Longest chain of hand-offs: {chained(found.longest)}."] if len(found.longest) > 2 else []
    said += _first([f"{game_words(game)}." for game in found.ping_pongs], "game of ping-pong")
    return said + _first([f"{circuit_words(one)}." for one in process.circuits], "loop of hand-offs")


def _of_leftovers(process: Process) -> list[str]:
    if not process.unfinished:
        return []
    told = [
        f"{kind} {one_line(name, at_most=NAME_CHARS)}" + (f" × {number:,}" if number > 1 else "")
        for (kind, name), number in process.unfinished.most_common(SHARES_SHOWN)
    ]
    left = len(process.unfinished) - len(told)
    return [f"Never finished: {', '.join(told)}{f' and {left:,} more' if left else ''}."]


def _first(sentences: Sequence[str], what: str) -> list[str]:
    left = len(sentences) - SENTENCES_OF_A_KIND
    more = [f"And {wording.counted(left, f'further {what}')}."] if left > 0 else []
    return [*sentences[:SENTENCES_OF_A_KIND], *more]
