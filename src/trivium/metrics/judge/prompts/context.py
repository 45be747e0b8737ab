"""Builds the context a judge sees: document excerpts, a digest of the trace, truncated texts."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec

from trivium.metrics.judge.evidence import EvidenceSimilarity, passages
from trivium.metrics.judge.pairwise import Pair
from trivium.metrics.metric import MetricInput
from trivium.suites.sanitize import sanitise
from trivium.traces.trace import Message, Span, Trace

BESIDE, APART = "\n\n", "\n\n[…]\n\n"
"""What stands between passages that follow each other in the document, and between those that do not."""

NEAREST = 5
"""Passages of a sentence that are compared with it: those that share most words."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"\w\w+")


class Cut(msgspec.Struct, frozen=True):
    """How much of something a judge is shown.

    Attributes:
        shown: Of it.
        of: All there is.
        unit: What is counted: characters, or steps of a trace.
    """

    shown: int
    of: int
    unit: str = "characters"


class Excerpt(NamedTuple):
    """A text as it is shown, with a note of what is left out, and how much that is; None of a whole one."""

    text: str
    cut: Cut | None


def head(text: str, most: int) -> Excerpt:
    """The first ``most`` characters."""
    if len(text) <= most:
        return Excerpt(text, None)
    note = f"\n[cut: {len(text) - most:,} more characters]"
    return Excerpt(text[:most] + note, Cut(most, len(text)))


def retrieved(text: str, output: str, most: int) -> Excerpt:
    """The passages of a document that are nearest to what an output says, in the order of the document.

    Passages are ranked by their largest similarity (T1.1) to a sentence of the output, and taken as long as
    they fit; what room is left goes to the document's beginning. Equal inputs give equal excerpts.

    Args:
        text: The document.
        output: What is judged.
        most: Characters of the excerpts, marks between them included.

    Returns:
        At most ``most`` characters and a note of how much that is of the document; its head where the
        output shares no word with it.
    """
    if len(text) <= most:
        return Excerpt(text, None)
    parts = passages(text)
    ranked = _ranked(parts, output)
    if not ranked:
        return head(text, most)
    chosen: set[int] = set()
    for index in (*ranked, *range(len(parts))):
        if index not in chosen and len(_joined_of_excerpts(parts, chosen | {index})) <= most:
            chosen.add(index)
    shown = _joined_of_excerpts(parts, chosen) if chosen else parts[ranked[0]][:most]
    note = f"\n[excerpts: {len(shown):,} of {len(text):,} characters]"
    return Excerpt(shown + note, Cut(len(shown), len(text)))


def _ranked(parts: list[str], output: str) -> list[int]:
    """Indices of the passages that are near to a sentence of the output, the nearest first."""
    words = [frozenset(_WORDS.findall(part.casefold())) for part in parts]
    nearest: dict[int, float] = {}
    for sentence in dict.fromkeys(_SENTENCE.split(output)):
        own = frozenset(_WORDS.findall(sentence.casefold()))
        shared = [len(own & theirs) for theirs in words]
        near = sorted((index for index in range(len(parts)) if shared[index]), key=lambda i: (-shared[i], i))
        pairs = [(sentence, parts[index]) for index in near[:NEAREST]]
        for index, similarity in zip(near, _cosine()(pairs) or (), strict=False):
            if similarity > nearest.get(index, 0.0):
                nearest[index] = similarity
    return sorted(nearest, key=lambda index: (-nearest[index], index))


@cache
def _cosine() -> EvidenceSimilarity:
    return EvidenceSimilarity("cosine")


def _joined_of_excerpts(parts: list[str], chosen: set[int]) -> str:
    made: list[str] = []
    last = 0
    for index in sorted(chosen):
        if made or index > 0:
            made.append(BESIDE if made and index == last + 1 else APART if made else "[…]\n\n")
        made.append(parts[index])
        last = index
    return "".join(made)


MOST_CHARS = 100_000
"""Of a text that is neither a document nor a trace."""


class Shown(NamedTuple):
    """What a judge may be shown of a case and an attempt.

    Attributes:
        texts: By name; what is not there is left out.
        cut: Of those that are shown in part, how much.
    """

    texts: dict[str, str]
    cut: dict[str, Cut]


def shown(
    subject: MetricInput, *, excerpt_chars: int, excerpts: Literal["head", "retrieval"] = "head"
) -> Shown:
    """What there is to show of a case and an attempt.

    Args:
        subject: The case and the attempt.
        excerpt_chars: Characters of the source, of each reference and of the trace that are shown.
        excerpts: Which of a document: its first ones, or the passages that the output's sentences lead to.
    """

    def excerpt(text: str) -> Excerpt:
        if excerpts == "head":
            return head(text, excerpt_chars)
        return retrieved(text, "\n".join(outputs.values()), excerpt_chars)

    case, attempt = subject.case, subject.attempt
    outputs = {"output": attempt.text}
    if isinstance(subject, Pair):
        outputs = {"first": attempt.text, "second": subject.second.text}
    expect = case.expect
    aspects = "\n".join(f"{number}. {_entry(text)}" for number, text in enumerate(expect.aspects, 1))
    found = {
        "input": head(_text(case.input), MOST_CHARS),
        "source": excerpt(case.source or ""),
        "references": _joined(excerpt(text) for text in case.references),
        "facts": head(_lines(expect.facts), MOST_CHARS),
        "sources": head(_lines(expect.sources), MOST_CHARS),
        "aspects": head(aspects, MOST_CHARS),
        "workflow": head(" → ".join(expect.workflow or ()), MOST_CHARS),
        "trace": Excerpt("", None) if attempt.trace is None else digest(attempt.trace, excerpt_chars),
    }
    found = {name: each for name, each in found.items() if each.text.strip()}
    found |= {name: head(text, MOST_CHARS) for name, text in outputs.items()}
    # What no request can carry is replaced, as everywhere at the door.
    texts: dict[str, str] = sanitise({name: each.text for name, each in found.items()})[0]
    return Shown(texts, {name: each.cut for name, each in found.items() if each.cut is not None})


def _joined(excerpts: Iterable[Excerpt]) -> Excerpt:
    """Excerpts one after the other, and what is cut of all of them together."""
    each = list(excerpts)
    text = "\n---\n".join(excerpt.text for excerpt in each)
    if all(excerpt.cut is None for excerpt in each):
        return Excerpt(text, None)
    cuts = [excerpt.cut or Cut(len(excerpt.text), len(excerpt.text)) for excerpt in each]
    return Excerpt(text, Cut(sum(cut.shown for cut in cuts), sum(cut.of for cut in cuts)))


def _text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(sanitise(value)[0], order="deterministic").decode()


def _lines(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {_entry(text)}" for text in texts)


def _entry(text: str) -> str:
    """A text as one entry of a list, its further lines indented, so that none of them passes for another."""
    return "\n  ".join(text.splitlines())


VALUE_CHARS = 160
PARTS = 60
"""Messages, and parts of one, that are searched for a model's words."""

_SAID = ("text", "thinking", "reasoning")
"""Parts of a message that are words."""


def digest(trace: Trace, most: int) -> Excerpt:
    """What an agent did, bounded however long the trace is.

    Counts first, then the steps in order: who, which tool, what went in and came out (cut), what failed, and
    what a model said before it called (its answers are outputs, not steps). Of a trace of too many steps the
    first and the last are told.

    Args:
        trace: Of the attempt.
        most: Characters of its steps.
    """
    tools = Counter(span.name for span in trace.tool_calls)
    requests = sum(span.kind == "llm" for span in trace.spans)
    failed = sum(span.ok is False for span in trace.spans)
    steps = _steps(trace)
    head = [
        f"agents: {_names(trace.agents)}",
        f"tool calls: {len(trace.tool_calls)} ({_counts(tools)})",
        f"model requests: {requests}; failed steps: {failed}; messages: {len(trace.agent_messages)}",
    ]
    if not steps:
        return Excerpt("\n".join(head), None)
    first, last = _ends([len(step) + 1 for step in steps], most)
    cut = None
    if left_out := len(steps) - first - last:
        cut = Cut(first + last, len(steps), "steps")
        steps = [*steps[:first], f"[cut: {left_out:,} steps]", *steps[len(steps) - last :]]
    return Excerpt("\n".join([*head, "steps:", *steps]), cut)


def _ends(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """How many lines from the beginning and how many from the end have no more characters together."""
    first = last = 0
    while first + last < len(lengths):
        most -= lengths[first] if first == last else lengths[-1 - last]
        if most < 0:
            break
        first, last = (first + 1, last) if first == last else (first, last + 1)
    return first, last


def _steps(trace: Trace) -> list[str]:
    """One line a thought, a tool call and a message, in the order of time where it is known."""
    told: list[tuple[float, str]] = []
    latest = float("-inf")
    for span in trace.spans:
        if span.kind == "llm" and (thought := _thought(span.output)):
            latest = span.start if span.start is not None else latest
            told.append((latest, f"{_cut(span.agent or 'agent')} thought: {_cut(thought)}"))
    latest = float("-inf")
    for span in trace.tool_calls:
        latest = span.start if span.start is not None else latest
        told.append((latest, _call(span)))
    latest = float("-inf")
    for message in trace.agent_messages:
        latest = message.time if message.time is not None else latest
        told.append((latest, _message(message)))
    told.sort(key=lambda step: step[0])
    return [f"{number}. {line}" for number, (_, line) in enumerate(told, 1)]


def _thought(output: Any) -> str:
    """What a model said beside calling tools, in messages as OpenTelemetry or OpenAI have them."""
    messages = output if isinstance(output, list) else [output]
    said: list[Any] = []
    for message in messages[:PARTS]:
        if not isinstance(message, dict):
            continue
        parts = message.get("parts")
        if message.get("tool_calls"):
            said.append(message.get("content"))
        elif isinstance(parts, list):
            known = [part for part in parts[:PARTS] if isinstance(part, dict)]
            if any(part.get("type") == "tool_call" for part in known):
                said += [part.get("content") for part in known if part.get("type") in _SAID]
    return " ".join(text for text in said if isinstance(text, str)).strip()


def _call(span: Span) -> str:
    end = {True: "", False: " FAILED", None: " never finished"}[span.ok]
    who = _cut(span.agent or "agent")
    return f"{who} called {_cut(span.name)}({_cut(span.input)}){end} → {_cut(span.output)}"


def _message(message: Message) -> str:
    return (
        f"{_cut(message.sender)} → {_cut(message.receiver)} [{_cut(message.type)}]: {_cut(message.content)}"
    )


def _cut(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(sanitise(value)[0]).decode()
    text = " ".join(text[: 4 * VALUE_CHARS].split())
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(_cut(name) for name in names[:20])
    return f"{shown}, …" if len(names) > 20 else shown or "-"


def _counts(counts: Counter[str]) -> str:
    shown = ", ".join(f"{_cut(name)} ×{count}" for name, count in counts.most_common(20))
    return f"{shown}, …" if len(counts) > 20 else shown or "none"
