"""A pairwise comparison in the terminal and as Markdown."""

import re

import msgspec
import pytest

from tests.reports import samples
from trivium.display import as_text
from trivium.metrics.judge.budget.ledger import Spending
from trivium.reports import pairwise as phrases
from trivium.reports.pairwise import render_markdown
from trivium.runs.costs import sum_costs
from trivium.runs.judged_pairs import of_both_orders
from trivium.runs.pairwise_result import JudgedPair, OrderVerdict, PairComparison, figure
from trivium.suites.settings import JudgeSettings

SPENT = sum_costs(
    {
        ("openai:gpt-4o", ("clarity", "overall")): Spending(
            requests=9,
            answered=7,
            input_tokens=1234,
            output_tokens=56,
            cost_usd=0.0123,
            unknown=1,
            unknown_usd=0.5,
        )
    },
    JudgeSettings(budget_usd=2),
)


def comparison(text="clear", *, said=(("win", "win"), ("loss", "loss"), ("loss", "win"), (None, "tie"))):
    pairs = tuple(
        JudgedPair(
            case=f"c{at} {text}",
            repeat=0,
            group=f"g{at}",
            how="judged",
            verdicts={
                text: of_both_orders(
                    OrderVerdict(first="base", verdict=one, status="ok", reason=f"because {text}"),
                    OrderVerdict(first="head", verdict=other, status="ok", reason="so"),
                )
            },
        )
        for at, (one, other) in enumerate(said)
    )
    return PairComparison(
        base=f"base {text}",
        head=f"head {text}",
        suite=text,
        models=(text, "anthropic:claude-haiku-4-5"),
        panel=True,
        samples=3,
        level=0.95,
        figures={text: figure(pairs, text, level=0.95)},
        pairs=pairs,
        identical=0,
        failed=0,
        left_out=2,
        errors=1,
        spent=SPENT,
        notes=(text,),
    )


def test_the_terminal_shows_win_rate_record_and_bias():
    expected = (
        "2 attempts left out · $0.0123 of $2.00 · 9 requests, 7 answered · 1,234 input tokens, "
        "56 output tokens · "
        "up to $0.5000 more for requests with unknown outcome"
    )
    text = as_text(comparison(), width=100)
    assert re.search(r"clear +0\.500 +\[\S+ \S+\] +50 % +1\.000 +1/1/1 +1 +33 % \(1/0\)", text)
    assert "4 pairs, each in both orders, judged by a panel of clear, anthropic:claude-haiku-4-5" in text
    assert re.search(r"lost in clear \(1 of 1\)\s+c1 clear +because clear", text)
    assert expected in " ".join(text.split())
    assert "Nominal 95 % intervals by 3 groups" in " ".join(text.split())


def test_markdown_shows_the_same_and_the_contradictions():
    text = render_markdown(comparison())
    assert re.search(r"\| `clear` \| \*\*0\.500\*\* \| .* \| 50 % \| 1\.000 \| 1/1/1 \| 1 \| 33 %", text)
    assert "the two orders contradict each other (1 of 1)" in text


def test_without_any_verdict_there_are_dashes():
    nothing = comparison(said=((None, None),))
    assert re.search(r"clear +– +– +– +– +0/0/0 +1 +–", as_text(nothing))
    assert "lost in" not in render_markdown(nothing)


@pytest.mark.parametrize("attack", samples.HOSTILE)
def test_hostile_texts_are_shown_and_never_obeyed(attack):
    text = as_text(comparison(attack), width=100)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    marked = re.sub(r"`[^`]*`", "", render_markdown(comparison(attack)))
    assert set(re.findall(r"<(\w+)", marked)) <= {"sub", "code", "details", "summary", "br"}


def test_the_note_names_the_number_of_groups_and_exceptions():
    found = comparison()
    few = msgspec.structs.replace(found.figures["clear"], groups=7)
    many = msgspec.structs.replace(few, groups=50)
    none = msgspec.structs.replace(few, groups=0)
    figures = {"clarity": few, "technical_accuracy": none, "overall": many}
    text = phrases.note(msgspec.structs.replace(found, figures=figures))
    assert "by 50 groups (clarity: 7); p:" in text
