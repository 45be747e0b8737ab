import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.masking import MASK, Masker, mask


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def-123", "abc.def-123"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ('{"Authorization": "Bearer abcdefgh", "x": 1}', "abcdefgh"),
        ("headers={'authorization': 'token s3cr3t'}", "s3cr3t"),
        ("[(b'Authorization', b'Bearer abcdefgh')]", "abcdefgh"),
        ("Proxy-Authorization: Basic c2VjcmV0", "c2VjcmV0"),
        ("Cookie: session=tastycookie; other=1", "tastycookie"),
        ("x-api-key: plainkey99", "plainkey99"),
        ("sent Bearer abcdefgh12345678 to it", "abcdefgh12345678"),
        ("Incorrect API key provided: sk-proj-abc_DEF-123456", "sk-proj-abc_DEF-123456"),
        ("sk-ant-api03-abcdefgh_ij", "sk-ant-api03-abcdefgh_ij"),
        ("sk_live_abcdefghijk", "sk_live_abcdefghijk"),
        ("https://h/v1?key=AbC123&q=1", "AbC123"),
        ("https://h/v1?q=1&api_key=AbC123", "AbC123"),
        ("https://h/v1?access_token=AbC123#x", "AbC123"),
        ("https://h/blob?sig=a%2Bb%3D&se=1", "a%2Bb%3D"),
        ("https://ann:pa55@host/x", "pa55"),
        ("postgresql+psycopg://ann:pa55@host/db", "pa55"),
        ("redis://:pa55@host", "pa55"),
        ('{"client_secret": "hush hush"}', "hush hush"),
        ("{'password': 'hunter2'}", "hunter2"),
        ("OPENAI_API_KEY=abc123", "abc123"),
        ("aws_secret_access_key=abc/DEF+1", "abc/DEF+1"),
        ("password: hunter2-and-more", "hunter2-and-more"),
        ("ghp_abcdefghijklmnopqrst", "ghp_abcdefghijklmnopqrst"),
        ("github_pat_11ABCDEFG0abcdefgh", "github_pat_11ABCDEFG0abcdefgh"),
        ("glpat-abcdefghijklmnopqrst", "glpat-abcdefghijklmnopqrst"),
        ("hf_abcdefghijklmnopqrst", "hf_abcdefghijklmnopqrst"),
        ("gsk_abcdefghijklmnopqrst", "gsk_abcdefghijklmnopqrst"),
        ("xai-abcdefghijklmnopqrst", "xai-abcdefghijklmnopqrst"),
        ("AIzaSyA-abcdefghijklmnopqrstuvwxyz12345", "AIzaSyA-abcdefghijklmnopqrstuvwxyz12345"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("xoxb-1234567890-abcdef", "xoxb-1234567890-abcdef"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIiOiIxIn0"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----", "MIIEabc"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEcut", "MIIEcut"),
    ],
)
def test_secrets_of_known_shapes_are_masked(text, secret):
    masked = mask(f"before {text}\nafter")
    assert secret not in masked
    assert MASK in masked
    assert masked.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "the token limit of 4096 tokens was exceeded",
        "KeyError: 'references'",
        "unexpected keyword argument key",
        "maximum context length is 8192 tokens: 9000 given",
        "a bearer of news",
        "basic training",
        "http://127.0.0.1:8000/agent",
        "task-sk-1",
        "signature: wrong",
        "risk-averse strategies",
        "secret: unknown",
    ],
)
def test_plain_words_stay(text):
    assert mask(text) == text


def test_masking_twice_changes_nothing_more():
    text = (
        "Authorization: Bearer abcdefgh12345 api_key=abc {'token': 'x y'} https://a:b@h password: abc-12345"
    )
    assert mask(mask(text)) == mask(text)


@given(st.text())
def test_any_text_can_be_masked(text):
    assert isinstance(mask(text), str)


def test_a_hostile_text_takes_no_time_worth_speaking_of():
    # Patterns that backtrack would not come back within the life of a test run.
    for piece in (
        "api_",
        "a://",
        "a.",
        "eyJ-",
        "-----BEGIN A",
        "eyJ",
        "sk-",
        "key=",
        "token: ",
        "authorization: ",
    ):
        mask(piece * 4_000)


def test_what_the_environment_calls_a_secret_is_masked_whatever_it_looks_like(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "plain words here")
    monkeypatch.setenv("OTHER_TOKEN", "plain words here and more")
    monkeypatch.setenv("SHORT_TOKEN", "on")
    monkeypatch.setenv("SOME_FOLDER", "a folder of mine")
    said = "on: plain words here and more, plain words here, a folder of mine"
    assert mask(said) == "on: [masked], [masked], a folder of mine"


PIECES = [
    "Authorization: ",
    "x-api-key=",
    "cookie: ",
    "Bearer ",
    "basic ",
    "api_key=",
    '"token": "',
    "secret: ",
    "https://me:pw@",
    "sk-",
    "PK_",
    "ghp_",
    "glpat-",
    "hf_",
    "AKIA",
    "ASIA",
    "xoxb-",
    "ya29.",
    "AIza",
    "eyJ",
    "-----BEGIN RSA PRIVATE KEY-----",
    "key=",
    "sig=",
    "credential=",
    "pypi-",
    "xai-",
    "gsk_",
    "r8_",
    "npm_",
    "pplx-",
    ".",
    " ",
    '"',
    "passwd=",
    "client_secret='",
    "value-9-value",
    "abcdefgh12345678",
    "",
    "Z" * 40,
]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_the_quick_look_never_misses_what_the_patterns_find(text):
    masker = Masker()
    assert masker.mask(text) == mask(text)
    if not masker.may_hold_a_secret(text):
        assert mask(text) == text


def test_a_secret_that_the_environment_gains_is_masked_at_once(monkeypatch):
    masker = Masker()
    assert masker.mask("say tulip-tulip") == "say tulip-tulip"
    monkeypatch.setenv("GARDEN_TOKEN", "tulip-tulip")
    assert masker.mask("say tulip-tulip") == "say [masked]"
