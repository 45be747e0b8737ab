"""Which confidence functions there are; anyone can add one with a decorator."""

import re
from collections.abc import Callable

from trivium.errors import TrustError, suggest
from trivium.trust.confidence.signals import Floats, Signals

ConfidenceFunction = Callable[[Signals], Floats]
"""From the signals of n items to their confidences, shape (n,); higher is surer."""

REGISTERED: dict[str, ConfidenceFunction] = {}

RESERVED = frozenset({"all", "default", "confidence", "calibrated", "verbalized_calibrated"})
"""Words that mean something else where a confidence is named."""


def confidence_function(*names: str) -> Callable[[ConfidenceFunction], ConfidenceFunction]:
    """Register a confidence function under one or more names.

        @confidence_function("agreement_of_quotes")
        def agreement_of_quotes(signals: Signals) -> Floats:
            return signals.number("quote_agreement", low=0, high=1)

    Raises:
        ValueError: If a name is taken, reserved, or not made of letters, digits, ``_``, ``.`` and ``-``.
    """
    for name in names:
        if name in REGISTERED or name in RESERVED:
            raise ValueError(f'a confidence is already called "{name}"')
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f'"{name}" cannot name a confidence: letters, digits, "_", "." and "-" only')

    def register(function: ConfidenceFunction) -> ConfidenceFunction:
        REGISTERED.update(dict.fromkeys(names, function))
        return function

    return register


def base_function(name: str, *, within: str) -> ConfidenceFunction:
    """A registered confidence function.

    Args:
        name: Of the function.
        within: The whole variant that names it, for the error.

    Raises:
        TrustError: If none is called that.
    """
    try:
        return REGISTERED[name]
    except KeyError:
        part = "" if name == within else f' (in "{within}")'
        raise TrustError(
            f'no confidence is called "{name}"{part}.{suggest(name, REGISTERED)}\n'
            f"  known: {', '.join(REGISTERED)}, secondary:<a>+<b>:<average|product>, "
            "verbalized_calibrated, calibrated, calibrated:<any of these>"
        ) from None
