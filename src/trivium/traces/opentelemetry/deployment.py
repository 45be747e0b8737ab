"""Reads which service recorded a trace, and its tags and conversation, from attributes of OpenTelemetry."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trivium.traces.opentelemetry import semconv
from trivium.values import JsonObject

SERVICE: Final = "service"
VERSION: Final = "version"
ENVIRONMENT: Final = "environment"
TAGS: Final = "tags"
CONVERSATION: Final = "conversation_id"
"""Keys of a trace's metadata."""

_OF_RESOURCE: Final[Mapping[str, tuple[str, ...]]] = {
    SERVICE: ("service.name",),
    VERSION: ("service.version",),
    ENVIRONMENT: ("deployment.environment.name", "deployment.environment"),
}
_CONVERSATION: Final = tuple(
    name for name, read_as in semconv.READ_AS.items() if read_as in {semconv.CONVERSATION, semconv.SESSION}
)
_TAGS: Final = ("trivium.tags", "tag.tags", "langfuse.trace.tags")
"""Attributes of Trivium, OpenInference and Langfuse: a list of texts, or one text with commas."""

READ_OF_SPANS: Final = frozenset({*_CONVERSATION, *_TAGS})
"""Attributes of spans that :func:`deployment_metadata` reads."""

MOST_TAGS: Final = 50
MOST_CHARS: Final = 200
"""Most tags of a trace, and most characters of a tag, name or version; more is cut off."""


def deployment_metadata(
    resources: Iterable[Mapping[str, Any]], spans: Iterable[Mapping[str, Any]]
) -> JsonObject:
    """Metadata of a trace: service, version, environment, tags and conversation, as far as they are given.

    Args:
        resources: Attributes of the resources of its spans, that of its root first: the first value counts.
        spans: Attributes of its spans, the root's first: the first conversation counts, and every tag.
    """
    resources, spans = list(resources), list(spans)
    metadata = {key: _first_text(resources, names) for key, names in _OF_RESOURCE.items()}
    metadata[CONVERSATION] = _first_text(spans, _CONVERSATION)
    tags = dict.fromkeys(tag for attributes in (*resources, *spans) for tag in _tags(attributes))
    stated: JsonObject = {key: value for key, value in metadata.items() if value}
    return stated | {TAGS: list(tags)[:MOST_TAGS]} if tags else stated


def _first_text(holders: Iterable[Mapping[str, Any]], names: Sequence[str]) -> str:
    texts = (text_of(attributes.get(name)) for attributes in holders for name in names)
    return next(filter(None, texts), "")


def text_of(value: Any) -> str:
    """A text without control characters, at most ``MOST_CHARS`` long; empty for other values."""
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[: 2 * MOST_CHARS] if letter.isprintable())[:MOST_CHARS].strip()


def _tags(attributes: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name in _TAGS:
        value = attributes.get(name)
        if isinstance(value, str):
            value = value.split(",", MOST_TAGS)[:MOST_TAGS]
        if isinstance(value, list | tuple):
            found += filter(None, map(text_of, value[:MOST_TAGS]))
    return found
