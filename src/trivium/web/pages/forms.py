"""Reads the fields of forms: their numbers, and what a person typed."""

import re
from collections.abc import Mapping
from typing import Any, Final

from litestar import Request

from trivium.errors import InputError
from trivium.safe_text import one_line
from trivium.web.errors import Refused
from trivium.web.sessions import check_form

__all__ = ["figure_in", "form_in", "typed_in", "whole_in"]

TYPED: Final = {"answer": "Answer", "value": "Score", "note": "Note"}
"""Fields of forms that people type, and what they are called on a page."""


async def form_in(request: Request[Any, Any, Any]) -> dict[str, str]:
    """The fields of a form of this server."""
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    try:
        check_form(request.scope, form.get("form"))
    except Refused as refusal:
        refusal.typed = typed_in(form)
        raise
    return form


def typed_in(form: Mapping[str, str]) -> dict[str, str]:
    """The values that a person typed into a form, by name of the field."""
    shown = {name: form.get(field, "") for field, name in TYPED.items()}
    answer = shown["Answer"].removeprefix("value ")
    shown["Answer"] = {"label": "", "cannot_tell": "cannot tell"}.get(answer, answer)
    return {name: value for name, value in shown.items() if value}


def whole_in(what: str, text: str) -> int:
    """A whole number of a form, of a size that a store can hold."""
    if not re.fullmatch("[0-9]{1,18}", text):
        raise InputError(what, f'found "{one_line(text, at_most=40)}", expected a whole number from 0 on')
    return int(text)


def figure_in(what: str, text: str) -> float:
    """A number of a form."""
    try:
        return float(text)
    except ValueError:
        raise InputError(what, f'found "{one_line(text, at_most=40)}", expected a number') from None
