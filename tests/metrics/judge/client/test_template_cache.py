"""Request templates of earlier commands: sent alike, without PydanticAI, and without a secret on disk."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.judge_server import JudgeServer, at, failure
from tests.metrics.judge.client.test_direct_client import call
from trivium.metrics.judge.client import template_cache
from trivium.metrics.judge.client.direct_client import DirectClient, open_direct_client
from trivium.metrics.judge.client.model_factory import ModelUnavailable
from trivium.metrics.judge.client.request import RequestError
from trivium.metrics.judge.client.template_cache import TemplateCache, model_address
from trivium.metrics.judge.client.template_capture import OfflineModel
from trivium.suites.settings import ServerSettings

OPENAI, CLAUDE = "openai:gpt-4o-mini", "anthropic:claude-sonnet-5"
KEY, OTHER_KEY = "sk-not-a-real-key-1234567890", "sk-another-key-that-is-not-real"
SECRET = "the-gateway's-own-pass\"word"
SERVER = ServerSettings(headers={"X-Gateway": "${GATEWAY}"})
HEADERS = {"X-Gateway": SECRET}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch):
    with JudgeServer() as server:
        for prefix, url in (("OPENAI", server.openai_url), ("ANTHROPIC", server.anthropic_url)):
            monkeypatch.setenv(f"{prefix}_BASE_URL", url)
            monkeypatch.setenv(f"{prefix}_API_KEY", KEY)
        yield server


@pytest.fixture
def unopened(monkeypatch):
    """Lets no model be opened from when it is called."""

    def refuse(_: OfflineModel) -> None:
        raise ModelUnavailable("PydanticAI was needed")

    return lambda: monkeypatch.setattr(OfflineModel, "open", refuse)


def send(name, *calls, server=None, headers=None):
    """Send requests with a client of their own."""

    async def sent():
        client = open_direct_client(name, server, headers)
        assert isinstance(client, DirectClient)
        try:
            return [await client.send(each) for each in calls]
        finally:
            await client.close()

    return asyncio.run(sent())


def stored(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("output", ["native", "tool"])
@pytest.mark.parametrize("name", [OPENAI, "openai:gpt-5-mini", CLAUDE])
def test_the_second_command_sends_the_same_without_pydantic_ai(folder, server, unopened, name, output):
    calls = [
        call(name, output=output, case="A case.", marks="case" if name == CLAUDE else ""),
        call(name, output=output, turns=("First.", "{bad", "Again."), seed=None, temperature=0.5),
        call(name, output=output, limit="" if name == CLAUDE else "max_tokens", max_tokens=50),
    ]
    first = send(name, *calls, server=SERVER, headers=HEADERS)
    unopened()
    assert send(name, *calls, server=SERVER, headers=HEADERS) == first
    before, after = server.requests[: len(calls)], server.requests[len(calls) :]
    for one, other in zip(before, after, strict=True):
        assert (one.path, one.body, one.headers) == (other.path, other.body, other.headers)
    assert server.requests[-1].headers["x-gateway"] == SECRET


def test_a_judged_command_imports_pydantic_ai_once_only(folder, server, tmp_path):
    suite = {"name": "s", "cases": [{"id": "1", "input": "Review."}], "metrics": ["clarity"]}
    (tmp_path / "suite.json").write_text(json.dumps(suite | {"judge": {"models": OPENAI}}))
    (tmp_path / "outputs.jsonl").write_text(json.dumps({"case": "1", "output": "It is clear."}))
    program = (
        "import sys\n"
        "from trivium.cli.main import main\n"
        "try: main()\n"
        "finally: print({'pydantic_ai', 'openai', 'alembic'} & set(sys.modules))"
    )
    loaded, scores = [], []
    for number in range(2):
        command = ["score", "suite.json", "--outputs", "outputs.jsonl", "--store", f"{number}.db", "--json"]
        done = subprocess.run(
            [sys.executable, "-c", program, *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        document, _, modules = done.stdout.rstrip().rpartition("\n")
        loaded.append(modules)
        scores.append(json.loads(document)["metrics"]["clarity"]["mean"])
    assert "pydantic_ai" in loaded[0]
    assert loaded[1] == "set()"
    assert scores[0] == scores[1]
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", [OPENAI, CLAUDE])
def test_no_secret_is_on_disk(folder, server, monkeypatch, name):
    for prefix, url in (("OPENAI", server.openai_url), ("ANTHROPIC", server.anthropic_url)):
        monkeypatch.setenv(f"{prefix}_BASE_URL", url.replace("127.0.0.1", "localhost"))
    send(name, call(name, instructions="A private case."), server=SERVER, headers=HEADERS)
    content = stored(folder)
    assert b"additionalProperties" in content
    for secret in (KEY, SECRET, json.dumps(SECRET)[1:-1], "A private case.", "The text.", "localhost"):
        assert secret.encode() not in content
    assert [file.stat().st_mode & 0o077 for file in folder.rglob("*.json")] == [0]


def test_another_key_is_sent_with_the_same_template(folder, server, unopened, monkeypatch):
    send(OPENAI, call(OPENAI))
    unopened()
    monkeypatch.setenv("OPENAI_API_KEY", OTHER_KEY)
    send(OPENAI, call(OPENAI), server=ServerSettings())
    assert [each.headers["authorization"] for each in server.requests] == [
        f"Bearer {KEY}",
        f"Bearer {OTHER_KEY}",
    ]


def test_a_header_that_is_not_known_is_not_stored(folder, server, monkeypatch):
    monkeypatch.setattr(template_cache, "KEY_HEADERS", frozenset())
    send(OPENAI, call(OPENAI))
    assert stored(folder) == b""


def test_a_template_that_holds_a_secret_all_the_same_is_not_stored(folder, server):
    schema = {"type": "object", "properties": {"score": {"type": "string", "description": f"not {KEY}"}}}
    send(OPENAI, call(OPENAI, schema=schema))
    assert stored(folder) == b""


def test_settings_of_which_pydantic_ai_warns_are_said_to_be_ignored_each_time(folder, server):
    for _ in range(2):
        with pytest.warns(UserWarning, match="top_p.* will be ignored"):
            send(CLAUDE, call(CLAUDE, body={"top_p": 0.5}))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENAI_ORG_ID", "org-1"),
        ("OPENAI_CUSTOM_HEADERS", "X-Secret: abc"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1?key=abc"),
        ("OPENAI_BASE_URL", "http://user:abc@127.0.0.1:9/v1"),
        ("TRIVIUM_CACHE", ""),
    ],
)
def test_where_more_than_a_key_may_be_secret_nothing_is_stored(folder, server, monkeypatch, variable, value):
    assert TemplateCache.open(OPENAI) is not None
    monkeypatch.setenv(variable, value)
    assert TemplateCache.open(OPENAI) is None


def test_only_providers_whose_variables_are_known_are_stored(folder, server):
    assert TemplateCache.open("anthropic:claude-sonnet-5") is not None
    assert TemplateCache.open("deepseek:deepseek-chat") is None
    assert TemplateCache.open("python:own:model") is None


def test_what_a_template_depends_on_makes_another(folder, server, monkeypatch):
    send(OPENAI, call(OPENAI))

    def is_stored(name=OPENAI, settings=None):
        opened = TemplateCache.open(name, settings)
        return opened is not None and opened.description is not None

    assert is_stored()
    assert not is_stored("openai:gpt-4o")
    assert not is_stored(settings=SERVER)
    assert not is_stored(settings=ServerSettings(base_url="http://127.0.0.1:9/v1"))
    with monkeypatch.context() as changed:
        changed.setattr(template_cache, "version", lambda package: f"{package} 99")
        assert not is_stored()
    with monkeypatch.context() as changed:
        changed.setattr(template_cache, "_code_digest", lambda: "other code")
        assert not is_stored()
    with monkeypatch.context() as changed:
        changed.delenv("OPENAI_API_KEY")
        assert not is_stored()
    assert is_stored()


@pytest.mark.parametrize(
    "fields",
    [{"temperature": 1.0}, {"seed": 4}, {"max_tokens": 5}, {"output": "tool"}, {"schema": {"type": "object"}},
     {"turns": ("a", "b", "c")}, {"body": {"top_p": 0.5}}, {"limit": "none"}, {"reasoning_effort": "low"}],
)  # fmt: skip
def test_another_setting_of_a_request_is_another_template(folder, server, unopened, fields):
    send(OPENAI, call(OPENAI))
    unopened()
    send(OPENAI, call(OPENAI, instructions="Other texts.", case="Another case."))
    with pytest.raises(RequestError, match="PydanticAI was needed"):
        send(OPENAI, call(OPENAI, **fields))


def test_an_error_is_read_by_pydantic_ai_as_before(folder, server):
    faults = dict.fromkeys(range(1, 3), failure(400, message="No such thing."))
    server.conditions = msgspec.structs.replace(server.conditions, plan=at(faults))
    send(OPENAI, call(OPENAI))
    errors = []
    for _ in range(2):
        with pytest.raises(RequestError) as caught:
            send(OPENAI, call(OPENAI))
        errors.append((str(caught.value), caught.value.kind))
        for file in folder.rglob("*.json"):
            file.unlink()
    assert errors[0] == errors[1]


def test_a_missing_key_is_reported_as_before(folder, server, monkeypatch):
    send(OPENAI, call(OPENAI))
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable)
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY is not set, which openai:gpt-4o-mini needs"):
        open_direct_client(OPENAI)


def test_the_address_of_a_model_is_that_of_pydantic_ai(folder, server, unopened):
    address = model_address(OPENAI)
    send(OPENAI, call(OPENAI))
    unopened()
    assert model_address(OPENAI) == address == f"{server.openai_url}/"


def test_a_damaged_file_is_made_anew(folder, server, unopened, caplog):
    send(OPENAI, call(OPENAI))
    (file,) = folder.rglob("*.json")
    good = file.read_bytes()
    file.write_bytes(good[:100])
    send(OPENAI, call(OPENAI))
    assert "cannot be read, so that PydanticAI is imported" in caplog.text
    assert file.read_bytes() == good


def test_a_folder_that_cannot_be_written_to_stops_nothing(tmp_path, server, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "file"))
    assert len(send(OPENAI, call(OPENAI))) == 1


def test_the_oldest_templates_and_files_go_first(folder, server, monkeypatch):
    monkeypatch.setattr(template_cache, "MAX_FILES", 2)
    monkeypatch.setattr(template_cache, "MAX_TEMPLATES", 2)
    names = ["openai:gpt-4o-mini", "openai:gpt-4o", "openai:gpt-4.1"]
    for name in names:
        send(name, *(call(name, seed=seed) for seed in range(3)))
    files = [TemplateCache.open(name) for name in names]
    assert [each is not None and each.description is not None for each in files] == [False, True, True]
    newest = files[-1]
    assert newest is not None
    assert len(json.loads(newest._file.read_bytes())["templates"]) == 2


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("TRIVIUM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert template_cache.cache_folder() == tmp_path / "trivium" / "requests"
