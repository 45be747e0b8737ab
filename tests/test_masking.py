import json
import os
from base64 import b32encode, b64encode
from importlib.metadata import distribution
from pathlib import Path
from time import process_time
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.agents.attempt import Attempt
from trivium.agents.response import SECRETS_MASKED, masked, secret_flags
from trivium.masking import _SURE_ASSIGNMENTS, _SURE_PATTERNS, MASK, Masker, OutputMasker, _replaced, mask
from trivium.traces.trace import Message, Span, Trace, TraceProblem

PROSE = [
    "password: see below",
    "the secret = hard work",
    "an access key = nothing special",
    "SG. is the symbol of Sigma",
    "hvs. and lvs.",
    "mail ann@host about http://host:8080/path",
    "postgresql://db/evals is read",
    "https://hooks.slack.com is where they go",
    "-----BEGIN PUBLIC KEY-----",
    "Asia is large, ASIA too",
    "do_v1_ prefixes",
    "the tokens: 4096 in, 512 out",
]
"""Words that stand near secrets elsewhere."""


LETTERS = "abcdefghij0123456789ABCDEFGHIJKL"
LATER = [
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
    ("ASIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"),
    (f"pplx-{LETTERS}", LETTERS),
    ('{"refreshToken": "abc12345"}', "abc12345"),
    (r'{"body": "{\"password\": \"hunter2\"}"}', "hunter2"),
    ("password: hunter2", "hunter2"),
    ("mysql --password hunter2", "hunter2"),
    (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{LETTERS}\n-----END PGP PRIVATE KEY BLOCK-----", LETTERS),
    (f"AccountName=store;AccountKey={LETTERS}==;EndpointSuffix=core", LETTERS),
    (f"SG.{LETTERS}.{LETTERS}", LETTERS),
    (f"https://hooks.slack.com/services/T0000/B0000/{LETTERS}", LETTERS),
    (f"hvs.{LETTERS}", LETTERS),
    ("dop_v1_0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
    ("postgresql://user:hun@ter2@db", "ter2"),
    ("Bearer abcdefgh12345678", "abcdefgh12345678"),
    ("bearer 123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    ("Authorization: Basic YW5uOnMzY3IzdA==", "YW5uOnMzY3IzdA"),
    (f"sk-or-v1-{'0123456789abcdef' * 4}", "0123456789abcdef"),
    (f"sk-ant-api03-{LETTERS}-ab_cd", LETTERS),
    (f"sk_live_{LETTERS}", LETTERS),
    ("sk-lf-123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    (f"hf_{LETTERS}", LETTERS),
    (f"ghp_{LETTERS}abcd", LETTERS),
    (f"github_pat_11{LETTERS}_{LETTERS}", LETTERS),
    (f"glpat-{LETTERS}", LETTERS),
    (f"npm_{LETTERS}", LETTERS),
    (f"pypi-AgEIcHlwaS5vcmc{LETTERS}", LETTERS),
    (f"gsk_{LETTERS}", LETTERS),
    (f"xai-{LETTERS}", LETTERS),
    (f"csk-{LETTERS}", LETTERS),
    (f"tvly-dev-{LETTERS}", LETTERS),
    (f"nvapi-{LETTERS}-{LETTERS}", LETTERS),
    (f"lsv2_pt_{'0123456789abcdef' * 2}_0123456789", "0123456789abcdef"),
    (f"dckr_pat_{LETTERS}", LETTERS),
    (f"GOCSPX-{LETTERS}", LETTERS),
    (f"whsec_{LETTERS}", LETTERS),
    (f"dapi{'0123456789abcdef' * 2}", "0123456789abcdef"),
    ("xoxb-1234567890-abcdef", "xoxb-1234567890"),
]
"""Secrets that outputs lose as well as logs do."""


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
        *LATER,
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
        *PROSE,
    ],
)
def test_plain_words_stay(text):
    assert mask(text) == text


CODE = [
    "sorted(rows, key=len)",
    "def call(token=None, api_key=api_key):",
    'client = Client(api_key=os.environ["OPENAI_API_KEY"])',
    "password = getpass()",
    "token = tokens2[0]",
    "password=form2.password.data()",
    '{"password": "string"}',
    "x = risk_sk-learn",
    "Authorization: see the header",
    "use --password to be asked",
    "secret_key = s3_example_simple",
    'if login["username_password"]==e2.login_method:',
    "postgresql://user:password@db and s3://{access_key}:{secret_key}@bucket",
    "import pypi-charset-normalizer and pypi-importlib-metadata",
    "call hf_raise_for_status with hf_text_generation_models",
    "npm_config_registry_fallback_2",
    "xai-explainability-toolkit-2",
    "sk-kogptv2-kormath-causal, sk-container-id-1, sk_test_suite_runner_v2, pk-test-data-augmentation-2",
    "sk-ant-colony-optimizer-2",
    "a bearer resource_metadata of Basic authentication/authorization2",
    "basic bert-base-uncased-finetuned-2, basic ResNet50Encoder",
    "ASIAPACIFICREGIONALHQX, xoxo-gossip-girls-and-boys",
    "numpy/core.py,sha256=sk_HDVLeOoNeF4VOGHDI0iUT8YHeeOJjxyZTO4q0ddE,99",
    "docker://alpine:3.8@sha256:ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12",
    "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyDatabase-a1b2c3",
    "https://codecov.io/gh/some/repo/branch/main/graph/badge.svg?token=NER6LPI3HS",
    "private_key: x25519.X25519PrivateKey",
    "id 123e4567-e89b-12d3-a456-426614174000, commit 1ba32f75d7a1c0ffee1ba32f75d7a1c0ffee1234",
]
"""Answers about code, with names of secrets before no secret, and with words that begin as keys do."""


@pytest.mark.parametrize("text", PROSE + CODE)
def test_an_output_of_prose_or_code_stays_as_it_is(text):
    masker = OutputMasker()
    assert masker.mask(text) == text
    assert masker.value({"answer": [text]}) == {"answer": [text]}


SHOWS_SECRETS = {
    "docs/limits.md",
    "src/trivium/masking.py",
    "httpx/_urls.py",
    "sqlalchemy/dialects/mssql/base.py",
    "sqlalchemy/dialects/sqlite/pysqlcipher.py",
}
"""Files whose examples are keys or passwords."""


def _documents():
    """Name and text of the project's pages and modules, and of what it requires: readmes, hashes, code."""
    root = Path(__file__).parent.parent
    for path in sorted([*root.glob("docs/**/*.md"), *root.glob("src/trivium/**/*.py")]):
        yield str(path.relative_to(root)), path.read_text()
    for name in ("click", "httpx", "msgspec", "numpy", "rich", "scipy", "sqlalchemy"):
        found = distribution(name)
        yield from ((f"{name}/{file}", found.read_text(file) or "") for file in ("METADATA", "RECORD"))
        for file in sorted(found.files or [])[:80]:
            if file.suffix in {".py", ".pyi", ".md", ".rst", ".txt"}:
                yield str(file), file.read_text()


@pytest.fixture
def no_secrets_here(monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_secrets_here")
def test_of_two_megabytes_of_readmes_code_and_hashes_nothing_is_masked():
    masker = OutputMasker()
    texts = {name: text for name, text in _documents() if name not in SHOWS_SECRETS}
    assert sum(map(len, texts.values())) > 2_000_000
    assert [name for name, text in texts.items() if masker.mask(text) != text] == []


@given(
    st.binary(min_size=16, max_size=64), st.sampled_from(["", "sha256:", "sha512-", "@", "/", "#", "v1.2-"])
)
def test_hashes_and_uuids_stay(random, before):
    masker = OutputMasker()
    encoded = (
        random.hex(),
        str(UUID(bytes=random[:16])),
        b64encode(random).decode(),
        b32encode(random).decode(),
    )
    for text in encoded:
        assert masker.mask(f"see https://h.org/x{before}{text} and {before}{text}.") == (
            f"see https://h.org/x{before}{text} and {before}{text}."
        )


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        *LATER,
        ("sk-proj-abc_DEF-123456-ghi", "abc_DEF-123456"),
        ("the key is AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("https://ann:pa55@host/x", "pa55"),
        ("https://h/v1?token=AbC123def", "AbC123def"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIiOiIxIn0"),
    ],
)
def test_an_output_loses_what_is_surely_a_secret(text, secret):
    masker = OutputMasker()
    for value in (f"before {text}\nafter", {"a": [1, f"before {text}\nafter"]}):
        masked = json.dumps(masker.value(value))
        assert secret not in masked
        assert MASK in masked
        assert "before" in masked
    assert masker.value({"password": "hunter2"}) == {"password": MASK}


@given(st.lists(st.sampled_from([*(text for text, _ in LATER), *PROSE, "\n", " x "])).map("".join))
def test_what_is_not_looked_at_closely_would_have_stayed(text):
    masker = OutputMasker()
    if not masker.may_hold_a_secret(text):
        assert _replaced(text, (*_SURE_PATTERNS, *_SURE_ASSIGNMENTS)) == text


@given(
    st.lists(st.sampled_from([*(text for text, _ in LATER), *PROSE, *'"\\\n\t\1', " x ", "a://u"])).map(
        "".join
    )
)
def test_the_quick_look_at_all_texts_of_a_value_never_misses_what_one_of_them_holds(text):
    masker = OutputMasker()
    for value in ({"input": [text, "key", (text,)]}, {text: 1}):
        if not masker.any_may_hold_a_secret(value):
            assert [masker.mask(each) for each in (text, "key")] == [text, "key"]


@pytest.mark.parametrize("before", ["", "\n", "\t", '"', "\\", "a "])
@pytest.mark.parametrize(("text", "secret"), LATER)
def test_a_trace_loses_a_secret_whatever_stands_before_it(before, text, secret):
    span = Span(id="a", kind="llm", name="model", input={"text": before + text})
    assert secret not in str(_stored(Trace(spans=(span,))))


def _stored(trace):
    flags = secret_flags(None, {}, trace)
    assert flags == (SECRETS_MASKED,)
    return masked(Attempt(case="c", trace=trace, flags=flags)).trace


SECRET = "sk-proj-abc_DEF-123456-ghi"
SPAN = {"id": "a", "kind": "llm", "name": "model"}
MESSAGE = {"sender": "a", "receiver": "b"}
PROBLEM = {"kind": "orphan", "what": "it has no parent"}
WITHOUT_TEXT = {"kind", "start", "end", "ok", "usage", "time"}


@pytest.mark.parametrize(
    ("part", "given", "field"),
    [
        *(("spans", SPAN, field) for field in Span.__struct_fields__ if field not in WITHOUT_TEXT),
        *(("messages", MESSAGE, field) for field in Message.__struct_fields__ if field not in WITHOUT_TEXT),
        *(("problems", PROBLEM, field) for field in TraceProblem.__struct_fields__),
    ],
)
def test_a_trace_loses_a_secret_in_any_field(part, given, field):
    value = {"x": [SECRET]} if field in {"attributes", "input"} else SECRET
    trace = msgspec.convert({part: [given | {field: value}]}, Trace)
    assert SECRET not in str(_stored(trace))


def test_a_trace_loses_a_secret_in_its_id_and_its_metadata():
    for trace in (Trace(trace_id=SECRET), Trace(metadata={"x": SECRET}), Trace(metadata={SECRET: 1})):
        assert SECRET not in str(_stored(trace))


def test_an_output_loses_the_secrets_of_this_process(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "my-own-key-value")
    monkeypatch.setenv("DATABASE_PASSWORD", "postgres")  # a word, which answers may need
    monkeypatch.setenv("DEPLOY_KEY", "A1b2C3d4E5f6G7h8I9")
    monkeypatch.setenv("SORT_KEY", "document_identifier")
    plain = "my-own-key-value postgres A1b2C3d4E5f6G7h8I9 document_identifier"
    assert OutputMasker().mask(plain) == "[masked] postgres [masked] document_identifier"


def test_masking_twice_changes_nothing_more():
    text = (
        "Authorization: Bearer abcdefgh12345 api_key=abc {'token': 'x y'} https://a:b@h password: abc-12345"
    )
    assert mask(mask(text)) == mask(text)


@given(st.text())
def test_any_text_can_be_masked(text):
    assert isinstance(mask(text), str)


@pytest.mark.parametrize("masked", [mask, OutputMasker().mask], ids=["log", "output"])
@pytest.mark.parametrize(
    "piece",
    [
        *("api_", "a://", "a.", "eyJ-", "-----BEGIN A", "eyJ", "sk-", "key=", "token: ", "authorization: "),
        *("://a:b@", "password = ", '\\\\"password\\\\": ', "--password ", "SG.aaaaaaaaaaaaaaaaa", "?key=1"),
        *("a://b:c?", "aws_secret_", "bearer ", "hvs.", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_a_hostile_text_takes_time_in_proportion_to_its_length(masked, piece):
    def seconds(text: str) -> float:
        began = process_time()
        masked(text)
        return process_time() - began

    once = min(seconds(piece * 1_000) for _ in range(3))
    # Eight times as long takes 8 times as long; where a pattern backtracks, 64 times.
    assert any(seconds(piece * 8_000) < 25 * max(once, 0.001) for _ in range(3))


def test_secrets_of_the_environment_are_masked_in_any_form(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "plain words here")
    monkeypatch.setenv("OTHER_TOKEN", "plain words here and more")
    monkeypatch.setenv("SHORT_TOKEN", "on")
    monkeypatch.setenv("SOME_FOLDER", "a folder of mine")
    plain = "on: plain words here and more, plain words here, a folder of mine"
    assert mask(plain) == "on: [masked], [masked], a folder of mine"


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
