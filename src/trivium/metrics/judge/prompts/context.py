"""Builds the context a judge sees: document excerpts, a digest of the trace, truncated texts.

Definition: docs/definitions/judge.md#excerpts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from trivium.agents.attempt import NOT_RECORDED, Attempt, ChatMessage, dialogue, numbered
from trivium.agents.contexts import NO_CONTEXTS, contexts_of, numbered_texts
from trivium.agents.response import masked
from trivium.errors import InputError
from trivium.metrics.judge.evidence import EvidenceSimilarity, passages
from trivium.metrics.judge.pairwise import Pair
from trivium.metrics.metric import MetricInput
from trivium.safe_text import sanitise
from trivium.suites.chat import dialogue_text
from trivium.traces.trace import Message, Span, Trace
from trivium.values import text_or_json

ADJACENT, GAP = "\n\n", "\n\n[…]\n\n"
"""Separators between passages that are adjacent in the document, and between those that are not."""

MAX_CANDIDATES = 5
"""Passages compared with each sentence of an output: those that share most words with it."""

MAX_CHARS = 100_000
"""Length limit of a text that is neither a document nor a trace."""

MAX_VALUE_CHARS = 160
"""Length limit of an argument, a result or a name in the digest of a trace."""

MAX_PARTS = 60
"""Messages, and parts of a message, that are searched for a model's words."""

_TEXT_PARTS = ("text", "thinking", "reasoning")
"""Types of message parts that hold a model's words."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"\w\w+")


class Truncation(msgspec.Struct, frozen=True):
    """How much of a text or trace a judge is shown.

    Attributes:
        shown: Characters, steps or turns shown.
        of: Characters, steps or turns in total.
        unit: ``characters``, ``steps`` or ``turns``.
    """

    shown: int
    of: int
    unit: str = "characters"


class Excerpt(NamedTuple):
    """A text as it is shown, with a note if part of it is left out; ``cut`` is None for a whole text."""

    text: str
    cut: Truncation | None


def head(text: str, most: int) -> Excerpt:
    """Return the first ``most`` characters."""
    if len(text) <= most:
        return Excerpt(text, None)
    note = f"\n[cut: {len(text) - most:,} more characters]"
    return Excerpt(text[:most] + note, Truncation(most, len(text)))


def relevant_excerpt(text: str, output: str, most: int) -> Excerpt:
    """Select the passages of a document that are most similar to an output, in document order.

    Passages are ranked by their largest similarity (docs/definitions/text.md#cosine) to a sentence of the
    output and taken while they fit; the remaining room is filled from the document's beginning. The selection
    is deterministic.

    Args:
        text: The document.
        output: The output that is judged.
        most: Length limit in characters, separators included.

    Returns:
        At most ``most`` characters, and a note that states their share of the document; the document's head
        if the output shares no word with it.
    """
    if len(text) <= most:
        return Excerpt(text, None)
    parts = passages(text)
    ranked = _ranked_passages(parts, output)
    if not ranked:
        return head(text, most)
    chosen: set[int] = set()
    for index in (*ranked, *range(len(parts))):
        if index not in chosen and len(_joined_passages(parts, chosen | {index})) <= most:
            chosen.add(index)
    shown = _joined_passages(parts, chosen) if chosen else parts[ranked[0]][:most]
    note = f"\n[excerpts: {len(shown):,} of {len(text):,} characters]"
    return Excerpt(shown + note, Truncation(len(shown), len(text)))


def _ranked_passages(parts: list[str], output: str) -> list[int]:
    """Indices of the passages that share words with the output, most similar first."""
    words = [frozenset(_WORDS.findall(part.casefold())) for part in parts]
    nearest: dict[int, float] = {}
    for sentence in dict.fromkeys(_SENTENCE.split(output)):
        sentence_words = frozenset(_WORDS.findall(sentence.casefold()))
        shared = [len(sentence_words & passage_words) for passage_words in words]
        candidates = sorted(
            (index for index in range(len(parts)) if shared[index]), key=lambda i: (-shared[i], i)
        )
        pairs = [(sentence, parts[index]) for index in candidates[:MAX_CANDIDATES]]
        for index, similarity in zip(candidates, _cosine()(pairs) or (), strict=False):
            if similarity > nearest.get(index, 0.0):
                nearest[index] = similarity
    return sorted(nearest, key=lambda index: (-nearest[index], index))


@cache
def _cosine() -> EvidenceSimilarity:
    return EvidenceSimilarity("cosine")


def _joined_passages(parts: list[str], chosen: set[int]) -> str:
    pieces: list[str] = []
    last = 0
    for index in sorted(chosen):
        if pieces or index > 0:
            pieces.append(ADJACENT if pieces and index == last + 1 else GAP if pieces else "[…]\n\n")
        pieces.append(parts[index])
        last = index
    return "".join(pieces)


class Context(NamedTuple):
    """The texts of a case and an attempt that a judge may be shown.

    Attributes:
        texts: Texts by name; absent ones are left out.
        cut: How much is shown of each truncated text, by name.
        unrecorded: Why a question, an answer or contexts cannot be shown, by name of the text.
    """

    texts: dict[str, str]
    cut: dict[str, Truncation]
    unrecorded: Mapping[str, str] = MappingProxyType({})


def why_without(needs: Sequence[str]) -> str:
    """Say why a dimension is not judged that needs one of these inputs, all of which are absent."""
    return NO_CONTEXTS if set(needs) == {"contexts"} else f"there is no {' or '.join(needs)} to judge it by"


def build_context(
    metric_input: MetricInput,
    *,
    excerpt_chars: int,
    excerpts: Literal["head", "retrieval"] = "head",
    contexts: bool = False,
) -> Context:
    """Build the context of a case and an attempt.

    Args:
        metric_input: The case and the attempt.
        excerpt_chars: Length limit of the source, of each reference and of the trace, in characters.
        excerpts: How to shorten documents: to their ``head``, or by ``retrieval`` of the passages most
            similar to the output.
        contexts: Whether a dimension sees the retrieved documents.
    """

    def excerpt(text: str) -> Excerpt:
        if excerpts == "head":
            return head(text, excerpt_chars)
        return relevant_excerpt(text, "\n".join(outputs.values()), excerpt_chars)

    case, attempt = metric_input.case, masked(metric_input.attempt)  # a provider is sent no secrets
    outputs = {"output": attempt.text}
    if isinstance(metric_input, Pair):
        each = (attempt, masked(metric_input.second))  # of a conversation all that was said
        outputs = {name: _text(one.shown) for name, one in zip(("first", "second"), each, strict=True)}
    expect = case.expect
    aspects = "\n".join(f"{number}. {_entry(text)}" for number, text in enumerate(expect.aspects, 1))
    found = {
        "input": _input(metric_input, attempt),
        "conversation": _conversation(metric_input, attempt),
        "user": head("" if case.user is None else case.user.part, MAX_CHARS),
        "source": excerpt(case.source or ""),
        "references": _joined_excerpts(excerpt(text) for text in case.references),
        "facts": head(_lines(expect.facts), MAX_CHARS),
        "sources": head(_lines(expect.sources), MAX_CHARS),
        "aspects": head(aspects, MAX_CHARS),
        "workflow": head(" → ".join(expect.workflow or ()), MAX_CHARS),
        "trace": Excerpt("", None) if attempt.trace is None else digest(attempt.trace, excerpt_chars),
    }
    unrecorded = {}
    if contexts:
        try:
            found["contexts"] = excerpt(_retrieved(attempt))
        except InputError as wrong:
            unrecorded["contexts"] = f"the retrieved documents cannot be shown to the judge: {wrong}"
    found = {name: each for name, each in found.items() if each.text.strip()}
    found |= {name: head(text, MAX_CHARS) for name, text in outputs.items()}
    # Replace lone surrogates, which no request can carry.
    texts: dict[str, str] = sanitise({name: each.text for name, each in found.items()})[0]
    stated = (NOT_RECORDED[flag] for flag in attempt.flags if flag in NOT_RECORDED)
    unrecorded |= {name: why for name, why in stated if not texts.get(name)}
    cut = {name: each.cut for name, each in found.items() if each.cut is not None}
    return Context(texts, cut, unrecorded)


def _retrieved(attempt: Attempt) -> str:
    """The texts of the retrieved documents, numbered, best first; empty if none were recorded.

    Raises:
        InputError: If they cannot be read, or the text of one was not recorded.
    """
    contexts = contexts_of(attempt)
    if contexts is None:
        return ""
    if without := sum(each.text is None for each in contexts):
        raise InputError("contexts", f"{without:,} of {len(contexts):,} have no text")
    return numbered_texts(contexts) or "[no document was retrieved]"


def _input(metric_input: MetricInput, attempt: Attempt) -> Excerpt:
    """What was asked: of a conversation all that precedes the last reply, cut by whole turns."""
    said = attempt.messages
    if not said or isinstance(metric_input, Pair):
        return head(_text(metric_input.case.input_shown), MAX_CHARS)
    return excerpt_of_dialogue(said[:-1] if said[-1].role == "assistant" else said, MAX_CHARS)


def _conversation(metric_input: MetricInput, attempt: Attempt) -> Excerpt:
    """All that was said, if it was a conversation: that of the attempt, or the chat that its input is."""
    said, case = attempt.messages, metric_input.case
    if not said and not case.turns and dialogue_text(case.input) is not None:
        reply = {"role": "assistant", "content": attempt.output}
        said = tuple(numbered([*case.input, *([] if attempt.output is None else [reply])]))
    return excerpt_of_dialogue(said, MAX_CHARS)


def excerpt_of_dialogue(messages: Sequence[ChatMessage], most: int) -> Excerpt:
    """Format a conversation; of a long one the first and the last turns, whole, and how many are left out.

    Further lines of a message are indented, so that none looks like the beginning of a turn.
    """
    sanitised = msgspec.convert(sanitise(msgspec.to_builtins(list(messages)))[0], tuple[ChatMessage, ...])
    turns = [
        "\n\n".join(_entry(dialogue([message]) or "") for message in part)
        for _, part in groupby(sanitised, key=lambda message: message.turn)
    ]
    first, last = _fitting_ends([len(turn) + 2 for turn in turns], most)
    if first + last == 0:
        return head("\n\n".join(turns), most)
    left_out = len(turns) - first - last
    if not left_out:
        return Excerpt("\n\n".join(turns), None)
    note = f"[cut: {left_out:,} turn{'s' if left_out > 1 else ''}]"
    shown = [*turns[:first], note, *turns[len(turns) - last :]]
    return Excerpt("\n\n".join(shown), Truncation(first + last, len(turns), "turns"))


def _joined_excerpts(excerpts: Iterable[Excerpt]) -> Excerpt:
    """Join excerpts, and add up how much of them is shown."""
    each = list(excerpts)
    text = "\n---\n".join(excerpt.text for excerpt in each)
    if all(excerpt.cut is None for excerpt in each):
        return Excerpt(text, None)
    cuts = [excerpt.cut or Truncation(len(excerpt.text), len(excerpt.text)) for excerpt in each]
    return Excerpt(text, Truncation(sum(cut.shown for cut in cuts), sum(cut.of for cut in cuts)))


def _text(value: object) -> str:
    return text_or_json(value if isinstance(value, str) else sanitise(value)[0], canonical=True)


def _lines(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {_entry(text)}" for text in texts)


def _entry(text: str) -> str:
    """Format a text as one list entry; further lines are indented, so that none looks like a new entry."""
    return "\n  ".join(text.splitlines())


def digest(trace: Trace, most: int) -> Excerpt:
    """Summarise what an agent did, in bounded length.

    Counts come first, then the steps in order: agent, tool, shortened arguments and result, failures, and a
    model's words before its tool calls (its final answers are outputs, not steps). If the steps do not fit,
    the first and the last are shown.

    Args:
        trace: The trace of the attempt.
        most: Length limit of the steps, characters.
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
    first, last = _fitting_ends([len(step) + 1 for step in steps], most)
    cut = None
    if left_out := len(steps) - first - last:
        cut = Truncation(first + last, len(steps), "steps")
        steps = [*steps[:first], f"[cut: {left_out:,} steps]", *steps[len(steps) - last :]]
    return Excerpt("\n".join([*head, "steps:", *steps]), cut)


def _fitting_ends(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """Return how many lines fit from the beginning and from the end, taken in turn."""
    first = last = 0
    while first + last < len(lengths):
        most -= lengths[first] if first == last else lengths[-1 - last]
        if most < 0:
            break
        first, last = (first + 1, last) if first == last else (first, last + 1)
    return first, last


def _steps(trace: Trace) -> list[str]:
    """One line for each thought, tool call and message, ordered by time where it is known."""
    thoughts = [
        (span.start, f"{_shortened(span.agent or 'agent')} thought: {_shortened(thought)}")
        for span in trace.spans
        if span.kind == "llm" and (thought := _model_words(span.output))
    ]
    calls = [(span.start, _call(span)) for span in trace.tool_calls]
    messages = [(message.time, _message(message)) for message in trace.agent_messages]
    steps: list[tuple[float, str]] = []
    for each in (thoughts, calls, messages):
        latest = float("-inf")
        for time, line in each:
            latest = latest if time is None else time
            steps.append((latest, line))
    steps.sort(key=lambda step: step[0])
    return [f"{number}. {line}" for number, (_, line) in enumerate(steps, 1)]


def _model_words(output: Any) -> str:
    """Return a model's words beside its tool calls, from messages in OpenTelemetry's or OpenAI's format."""
    messages = output if isinstance(output, list) else [output]
    texts: list[Any] = []
    for message in messages[:MAX_PARTS]:
        if not isinstance(message, dict):
            continue
        parts = message.get("parts")
        if message.get("tool_calls"):
            texts.append(message.get("content"))
        elif isinstance(parts, list):
            known = [part for part in parts[:MAX_PARTS] if isinstance(part, dict)]
            if any(part.get("type") == "tool_call" for part in known):
                texts += [part.get("content") for part in known if part.get("type") in _TEXT_PARTS]
    return " ".join(text for text in texts if isinstance(text, str)).strip()


def _call(span: Span) -> str:
    end = {True: "", False: " FAILED", None: " never finished"}[span.ok]
    who = _shortened(span.agent or "agent")
    return f"{who} called {_shortened(span.name)}({_shortened(span.input)}){end} → {_shortened(span.output)}"


def _message(message: Message) -> str:
    sender, receiver = _shortened(message.sender), _shortened(message.receiver)
    return f"{sender} → {receiver} [{_shortened(message.type)}]: {_shortened(message.content)}"


def _shortened(value: Any) -> str:
    if value is None:
        return "-"
    text = text_or_json(value if isinstance(value, str) else sanitise(value)[0])
    text = " ".join(text[: 4 * MAX_VALUE_CHARS].split())
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(_shortened(name) for name in names[:20])
    return f"{shown}, …" if len(names) > 20 else shown or "-"


def _counts(counts: Counter[str]) -> str:
    shown = ", ".join(f"{_shortened(name)} ×{count}" for name, count in counts.most_common(20))
    return f"{shown}, …" if len(counts) > 20 else shown or "none"
