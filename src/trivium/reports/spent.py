"""What judges cost, in words and as rows."""

from collections.abc import Iterator

from trivium.reports.untrusted import one_line
from trivium.reports.wording import counted
from trivium.runs.summary import Spent, SpentOn


def dollars(usd: float | None) -> str:
    """``$0.0123``, ``$12.30``, ``<$0.0001``; a dash where no price is known."""
    if usd is None:
        return "–"
    if 0 < usd < 0.0001:
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def spent_sentence(spent: Spent) -> str:
    """What a run spent, in a line."""
    cost = dollars(spent.cost_usd) if spent.cost_usd is not None else "cost unknown"
    if spent.unpriced and spent.cost_usd is not None:
        cost = f"at least {cost}"
    if spent.budget_usd is not None:
        cost += f" of {dollars(spent.budget_usd)}"
    tokens = f"{whole(spent.input_tokens)} input tokens, {whole(spent.output_tokens)} output tokens"
    if spent.budget_tokens is not None:
        tokens += f", of {spent.budget_tokens:,}"
    parts = [cost, f"{requests(spent)}, {whole(spent.answered)} answered", tokens]
    if spent.from_cache:
        parts.insert(2, f"{whole(spent.from_cache)} from the cache")
    if spent.unknown or spent.unknown_usd or spent.unknown_tokens:
        most = [dollars(spent.unknown_usd)] if spent.unknown_usd else []
        if spent.budget_tokens is not None or not most:
            most.append(f"{whole(spent.unknown_tokens)} tokens")
        parts.append(f"up to {' and '.join(most)} more for what came to an unknown end")
    return " · ".join(parts)


def requests(spent: SpentOn) -> str:
    """``1 request``, ``1,200 requests``."""
    return counted(round(spent.requests), "request")


def spent_rows(spent: Spent) -> Iterator[tuple[str, str, SpentOn]]:
    """(kind, name, what was spent) of every model and every dimension."""
    for name, found in spent.models.items():
        yield "model", one_line(name), found
    for name, found in spent.dimensions.items():
        yield "dimension", one_line(name), found


def whole(number: float) -> str:
    """A count, or a share of one, without decimals that say nothing."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.1f}"
