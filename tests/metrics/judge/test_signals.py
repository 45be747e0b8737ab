"""Token signals against closed forms, and no number where it would be a wrong one."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import entropy

from trivium.metrics.judge.client.wire_formats import read_logprobs
from trivium.metrics.judge.signals import score_spans
from trivium.metrics.judge.signals import token_signals as signals_of_tokens

HALF = math.log(0.5)
NO_TOKEN_SIGNALS = {"token_msp": None, "token_pe": None, "token_energy": None}


def token_signals(given, text, dimension, *, tokens):
    return signals_of_tokens(read_logprobs(given, text), text, dimension, tokens=tokens)


def logprob_token(piece, logprob=0.0, tops=None, *, raw=False):
    token = {"token": piece if isinstance(piece, str) else "\\x", "logprob": logprob}
    token["top_logprobs"] = [{"logprob": each} for each in (tops or [logprob])]
    if raw or isinstance(piece, bytes):
        token["bytes"] = list(piece if isinstance(piece, bytes) else piece.encode())
    return token


def of_scores(pieces, text=None, *, dimension="a"):
    joined = b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece, _ in pieces)
    tokens = [logprob_token(piece, logprob) for piece, logprob in pieces]
    return token_signals(tokens, joined.decode() if text is None else text, dimension, tokens="score")


def test_a_score_of_several_tokens_counts_them_all():
    pieces = [('{"a":{"level":"', -9), ("excel", HALF), ("lent", 0.0), ('"}}', -9)]
    assert of_scores(pieces)["token_msp"] == pytest.approx(0.75)
    halves = [('{"a":{"criteria":{"x":{"score": ', -9), ("4", HALF), (".", 0.0), ("5", HALF), ("}}}}", -9)]
    assert of_scores(halves)["token_msp"] == pytest.approx((0.5 + 1 + 0.5) / 3)


def test_of_a_score_that_is_written_as_a_text_the_number_alone_counts():
    pieces = [('{"a":{"score":"', -9), ("  ", -9), (" 4", HALF), (".0", 0.0), (" ", -9), ('"}}', -9)]
    assert of_scores(pieces)["token_msp"] == pytest.approx(0.75)


def test_verdicts_of_claims_and_what_is_covered_are_scores():
    claim = [('{"a":{"claims":[{"claim":"c","verdict":"', -9), ("partly", HALF), ('"}]}}', -9)]
    aspect = [('{"a":{"aspects":[{"quote":"q","covered":"', -9), ("no", HALF), ('"}]}}', -9)]
    assert of_scores(claim)["token_msp"] == of_scores(aspect)["token_msp"] == 0.5


def test_a_token_that_holds_more_than_the_score_counts_once():
    assert of_scores([('{"a":{"score"', -9), (":4},", HALF), ('"b":{"score":1}}', -9)])["token_msp"] == 0.5


def test_quotes_within_strings_and_escaped_names_are_parsed_correctly():
    reason = json.dumps('he wrote "score": 5, "level": "good"')
    head = f'{{"a":{{"reason":{reason},"sc\\u006fre":'
    assert json.loads(head + "3}}")["a"]["score"] == 3
    assert of_scores([(head, -9), ("3", HALF), ("}}", -9)])["token_msp"] == 0.5
    assert score_spans('{"a":{"\\udone":1, oops:2}}', "a") == []


@given(
    st.lists(st.floats(-20, 0), min_size=1, max_size=8),
    st.lists(st.lists(st.floats(-20, 0), min_size=1, max_size=5), min_size=8, max_size=8),
)
def test_all_tokens_give_the_closed_forms_of_scipy(own, tops):
    tokens = [logprob_token("x", logprob, top) for logprob, top in zip(own, tops, strict=False)]
    signals = token_signals(tokens, "x" * len(own), "a", tokens="all")
    tops = tops[: len(own)]
    expected = {
        "token_msp": sum(math.exp(each) for each in own) / len(own),
        "token_pe": sum(entropy([math.exp(each) for each in top]) for top in tops) / len(own),
        "token_energy": sum(logsumexp(top) for top in tops) / len(own),
    }
    assert signals == pytest.approx(expected, abs=1e-9)


@given(st.text(), st.data())
def test_tokens_may_split_characters_anywhere_if_their_bytes_are_given(reason, data):
    text = json.dumps({"a": {"reason": reason, "score": 4}, "b": {"score": 1}}, ensure_ascii=False)
    whole = text.encode(errors="replace")
    text = whole.decode()
    first, _ = next(iter(score_spans(text, "a")))
    place = len(text[:first].encode())
    cut = data.draw(st.integers(0, place))
    pieces = [(whole[:cut], -9), (whole[cut:place], -9), (b"4", HALF), (whole[place + 1 :], -9)]
    assert of_scores([piece for piece in pieces if piece[0]], text)["token_msp"] == 0.5


@pytest.mark.parametrize(
    "pieces",
    [
        [('{"a":{"score":', -9), ("5", HALF), ("}}", -9)],  # another answer than the text
        [('{"a":{"reason":"\\xe2\\x80","score":', -9), ("4", HALF), ("}}", -9)],  # bytes written out
        [("▁4", HALF)],
    ],
)
def test_tokens_that_do_not_spell_the_answer_give_null_and_no_wrong_number(pieces):
    assert of_scores(pieces, '{"a":{"score":4}}') == NO_TOKEN_SIGNALS


def test_marks_around_an_answer_are_no_part_of_it():
    pieces = [
        ('<think>{"a":{"score":1}}</think>', -9),
        ('{"a":{"score":', -9),
        ("4", HALF),
        ("}}<|end|>", -9),
    ]
    assert of_scores(pieces, '{"a":{"score":4}}')["token_msp"] == 0.5


def test_an_abstention_has_tokens_too():
    assert of_scores([('{"a":{"score":', -9), ("null", HALF), ("}}", -9)])["token_msp"] == 0.5


@pytest.mark.parametrize("logprob", [None, "0", True, math.nan, 3.0])
def test_a_token_without_a_log_probability_leaves_the_signals_null(logprob):
    tokens = [
        logprob_token("x"),
        logprob_token("y") | {"logprob": logprob, "top_logprobs": [{"logprob": logprob}]},
    ]
    assert token_signals(tokens, "xy", "a", tokens="all") == NO_TOKEN_SIGNALS


def test_missing_alternatives_leave_only_their_signals_null():
    signals = token_signals(
        [logprob_token("x", HALF), {"token": "y", "logprob": 0.0}], "xy", "a", tokens="all"
    )
    assert signals == NO_TOKEN_SIGNALS | {"token_msp": 0.75}


@pytest.mark.parametrize("own", [None, [], [52]])
def test_bytes_that_say_nothing_more_than_the_text_change_nothing(own):
    tokens = [logprob_token('{"a":{"score":'), logprob_token("4", HALF) | {"bytes": own}, logprob_token("}}")]
    assert token_signals(tokens, '{"a":{"score":4}}', "a", tokens="score")["token_msp"] == 0.5


def test_an_impossible_alternative_adds_nothing():
    signals = token_signals([logprob_token("x", 0.0, [0.0, -math.inf])], "x", "a", tokens="all")
    assert signals == {"token_msp": 1.0, "token_pe": 0.0, "token_energy": 0.0}


@pytest.mark.parametrize("end", ["", "\\", "\\\n", '"'])
def test_an_answer_of_quotation_marks_alone_is_read_once(end):
    """By the square of its length this would take minutes."""
    assert score_spans('\\"' * 300_000 + end, "clarity") == []
    assert score_spans('{"clarity": {"reason": "' + '\\"' * 300_000 + end, "clarity") == []


def test_values_before_an_unterminated_text_are_found():
    broken = '{"clarity": {"score": 4, "reason": "it brea'
    assert [broken[first:stop] for first, stop in score_spans(broken, "clarity")] == ["4"]
