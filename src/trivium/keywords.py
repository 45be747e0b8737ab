"""Keywords of functions that are written once, as a record that several functions take."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, get_args

F = TypeVar("F", bound=Callable[..., Any])


def keywords(otherwise: Any = None, **defaults: Any) -> Callable[[F], F]:
    """Give a function the keywords of a record, as if each was written in its signature.

    The function's last parameter is ``**name: Unpack[Record]``, where the record is a TypedDict. The function
    receives every keyword of the record, those that are not given with their defaults. ``help`` and
    ``inspect.signature`` list them with types and defaults, and the docstring explains them (see
    :func:`explained`). An unknown keyword is a TypeError that names the nearest one.

    Args:
        otherwise: The default of the keywords that ``defaults`` does not have.
        **defaults: Defaults by keyword.
    """

    def with_keywords(function: F) -> F:
        signature = inspect.signature(function)
        *own, unpacked = signature.parameters.values()
        (record,) = get_args(unpacked.annotation)
        complete = {name: defaults.get(name, otherwise) for name in record.__annotations__}
        expanded = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=complete[name], annotation=annotation
            )
            for name, annotation in record.__annotations__.items()
        ]
        known = {*(each.name for each in own), *complete}

        def completed(given: Mapping[str, Any]) -> dict[str, Any]:
            if unknown := next((name for name in given if name not in known), None):
                from trivium.errors import suggest

                what = f"got an unexpected keyword argument '{unknown}'"
                raise TypeError(f"{function.__qualname__}() {what}.{suggest(unknown, known)}")
            return {**complete, **given}

        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            return function(*args, **completed(given))

        @wraps(function)
        async def call_async(*args: Any, **given: Any) -> Any:
            return await function(*args, **completed(given))

        result: Any = call_async if inspect.iscoroutinefunction(function) else call
        result.__signature__ = signature.replace(parameters=[*own, *expanded])
        result.__doc__ = explained(function.__doc__ or "", record.__doc__ or "", unpacked.name)
        return result  # type: ignore[no-any-return]

    return with_keywords


def taken(names: type | Iterable[str], given: Mapping[str, object]) -> Any:
    """Return the keywords with some names, or those given of a record's fields, as a dictionary.

    Raises:
        KeyError: If one of the names is not given.
    """
    if isinstance(names, type):
        fields = getattr(names, "__struct_fields__", names.__annotations__)  # also those of its base
        names = [name for name in fields if name in given]
    return {name: given[name] for name in names}


def explained(text: str, record: str, name: str) -> str:
    """Put what a record says of its fields in place of what a docstring says of the record.

    Args:
        text: The docstring of a function, whose ``Args`` may have an entry ``**name``.
        record: The docstring of the record, with a section ``Attributes``.
        name: Name of the parameter that takes the keywords.
    """
    fields = inspect.cleandoc(record).partition("Attributes:\n")[2].rstrip()
    entry = rf"^ {{4}}\*\*{name}: .*(?:\n {{8}}.*)*"
    return re.sub(entry, lambda _: fields, inspect.cleandoc(text), flags=re.MULTILINE)
