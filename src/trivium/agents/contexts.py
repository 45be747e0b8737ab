"""The documents that an agent retrieved for an attempt, as it or its trace recorded them.

An agent returns them beside its output, under one of ``CONTEXT_KEYS``; they are metadata of the attempt then.
Else they are what the retrievers of its trace returned.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import InputError
from trivium.records.names import OUTPUT_NAMES
from trivium.traces.trace import Span, Trace, parents_first
from trivium.values import is_number

CONTEXT_KEYS = (*OUTPUT_NAMES["contexts"], "documents")
"""Names under which agents give retrieved documents, the most common first."""

NO_CONTEXTS = "no retrieved documents were recorded"

_RESULT_KEYS = (*CONTEXT_KEYS, "nodes", "results", "output")
"""Names under which retrievers give them, which may return more."""
_HOLDERS = ("document", "node", "kwargs")
"""Fields that hold a document beside its score (LlamaIndex), or its class (LangChain)."""
_IDS = ("id", "_id", "id_", "node_id", "doc_id", "document_id", "chunk_id", "docid")
_TEXTS = ("text", "content", "page_content", "document")
_SCORES = ("score", "similarity", "relevance_score")


class Context(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A retrieved document, or a part of one. It has an id, a text, or both.

    Attributes:
        id: Its id; a number is its decimal text.
        text: What the agent saw of it.
        score: The retriever's own score, which is not interpreted: the order is the ranking.
    """

    id: str | None = None
    text: str | None = None
    score: float | None = None


def contexts_of(attempt: Attempt) -> tuple[Context, ...] | None:
    """Return the retrieved documents of an attempt in their order; None if none were recorded.

    Raises:
        InputError: If what was recorded is no list of texts or documents.
    """
    for key in CONTEXT_KEYS:
        given = attempt.metadata.get(key)
        if given is not None:
            return tuple(_contexts(given, key))
    return None if attempt.trace is None else _of_trace(attempt.trace)


def numbered_texts(contexts: Sequence[Context]) -> str:
    """The retrieved documents as one text, numbered in their order; one without a text has its id alone."""
    numbered = (
        f"[{number}]{'' if each.id is None else f' id: {each.id}'}\n{each.text or ''}"
        for number, each in enumerate(contexts, 1)
    )
    return "\n---\n".join(numbered)


def _of_trace(trace: Trace) -> tuple[Context, ...] | None:
    """Return the results of a trace's retriever calls, in order; None without such a call, or such a result.

    Calls that another retriever makes do not count, and the result of a reranker takes the place of all that
    was retrieved since the reranker before.
    """
    calls = [span for span in trace.tool_calls if _retrieves(span)]
    if not calls:
        return None
    inner = _within_others(trace.spans)
    recorded = [span for span in calls if span.output is not None and span.id not in inner]
    if not recorded and not all(span.ok is False for span in calls):
        return None
    found: list[Context] = []
    kept = 0
    for span in recorded:
        results = _results(span)
        if span.attributes.get("reranking") is True:
            del found[kept:]
            kept += len(results)
        found += results
    return tuple(found)


def _retrieves(span: Span) -> bool:
    return span.kind == "tool" and span.attributes.get("retrieval") is True


def _within_others(spans: Sequence[Span]) -> set[str]:
    """Ids of the spans below a retriever whose result was recorded, such as the parts of an ensemble."""
    below: set[str] = set()
    stated = {span.id for span in spans if span.output is not None and _retrieves(span)}
    for index in parents_first(spans):
        span = spans[index]
        if span.parent in stated or span.parent in below:
            below.add(span.id)
    return below


def _results(call: Span) -> list[Context]:
    """The documents that a retriever returned."""
    output = call.output
    if isinstance(output, Mapping):
        output = next((output[key] for key in _RESULT_KEYS if key in output), [output])
    return list(_contexts(output, f"the call of {call.name}"))


def _contexts(given: Any, where: str) -> Iterator[Context]:
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list | tuple):
        raise InputError(where, "is no list of texts or documents")
    for number, each in enumerate(given):
        yield _context(each, f"{where}[{number}]")


def _context(given: Any, where: str) -> Context:
    if isinstance(given, str):
        return Context(text=given)
    if not isinstance(given, Mapping):
        raise InputError(where, "is neither a text nor an object with id or text")
    held = next((given[key] for key in _HOLDERS if isinstance(given.get(key), Mapping)), given)
    own = held.get("metadata")  # where documents of LangChain have their id
    places = (held, own) if isinstance(own, Mapping) else (held,)
    found = next((place[key] for place in places for key in _IDS if _is_id(place.get(key))), None)
    text = next((held[key] for key in _TEXTS if isinstance(held.get(key), str)), None)
    if found is None and text is None:
        raise InputError(where, "has neither id nor text")
    score = next(
        (place[key] for place in (held, given) for key in _SCORES if is_number(place.get(key))), None
    )
    return Context(id=None if found is None else str(found), text=text, score=score)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
