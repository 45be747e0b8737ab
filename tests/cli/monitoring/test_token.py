"""``trivium token``: tokens are shown once, listed without their secrets, rotated and revoked."""

import json
import time

import pytest

from trivium.cli.main import run_command
from trivium.store.audit import audit_log
from trivium.store.store import Store
from trivium.store.tokens import Tokens, matching


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def token(url, capfd):
    """Runs a command; returns its exit code, standard output and standard error."""

    def run(*arguments: str):
        code = run_command(["token", *arguments, "--store", url])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def active(url: str):
    with Store(url) as store:
        return Tokens(store).active(time.time())


def test_a_token_is_shown_once_and_alone_on_standard_output(token, url):
    code, out, err = token("create", "bot", "--scope", "ingest", "--scope", "read")
    assert code == 0
    assert matching(out.strip(), active(url)).scopes == ("ingest", "read")
    assert "not shown again" in err
    code, listed, err = token("list")
    assert "bot" in listed
    assert out.strip() not in listed + err


def test_a_token_expires_after_its_days(token, url):
    token("create", "bot", "--scope", "ingest", "--days", "2")
    ((made, _),) = active(url)
    assert made.expires - made.created == 2 * 86_400


def test_rotating_makes_a_new_token_and_ends_the_old_one(token, url):
    old = token("create", "bot", "--scope", "ingest")[1].strip()
    new = token("rotate", "bot")[1].strip()
    assert matching(old, active(url)) is None
    assert matching(new, active(url)).name == "bot"
    newer = token("rotate", "bot", "--grace-hours", "1")[1].strip()
    assert matching(new, active(url)) is not None
    assert matching(newer, active(url)) is not None


def test_revoking_ends_a_token(token, url):
    secret = token("create", "bot", "--scope", "ingest")[1].strip()
    code, out, _ = token("revoke", "bot")
    assert (code, "revoked" in out) == (0, True)
    assert matching(secret, active(url)) is None
    assert "revoked" in token("list")[1]


def test_json_has_the_same_facts(token):
    made = json.loads(token("create", "bot", "--scope", "label", "--json")[1])
    assert made["token"].startswith("trv_")
    (listed,) = json.loads(token("list", "--json")[1])
    assert listed == {key: value for key, value in made.items() if key != "token"}
    assert json.loads(token("revoke", made["id"], "--json")[1])["state"] == "revoked"


def test_an_empty_list_says_how_to_make_one(token):
    assert "trivium token create" in token("list")[1]


def test_a_name_is_listed_as_it_is_also_with_brackets(token):
    token("create", "[red]b[/] :smile:", "--scope", "ingest")
    assert "[red]b[/] :smile:" in token("list")[1]


def test_mistakes_are_answered_with_the_nearest_word(token):
    code, _, err = token("create", "bot", "--scope", "ingst")
    assert (code, 'Did you mean "ingest"' in err) == (2, True)
    token("create", "bot", "--scope", "ingest")
    token("rotate", "bot", "--grace-hours", "1")
    code, _, err = token("revoke", "bot")
    assert (code, "name an id" in err) == (2, True)
    code, _, err = token("revoke", "bott")
    assert (code, 'Did you mean "bot"' in err) == (2, True)
    code, _, err = token("create", "bot", "--scope", "ingest")
    assert (code, "rotate it" in err) == (2, True)


def test_the_audit_log_names_who_changed_tokens(token, url):
    token("create", "bot", "--scope", "ingest")
    token("rotate", "bot")
    token("revoke", "bot")
    with Store(url) as store:
        entries = audit_log(store)
    assert [entry.action for entry in entries] == ["token revoked", "token rotated", "token created"]
    assert all("@" in entry.actor for entry in entries)
