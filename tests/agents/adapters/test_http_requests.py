"""Each key of ``agent`` in a suite changes what a real server gets, or what is read of its answer."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

import trivium as tv
from tests.agents.adapters.test_http import answering, serving
from trivium.cli.main import run_command
from trivium.errors import InputError, SuiteError
from trivium.store.store import Store
from trivium.suites.suite import Suite

CASES = [{"id": "c", "input": {"q": "é"}}]
TOKEN = "tok-0123456789abcdef"
BROKEN = '{"choices": [{"finish_reason": "stop", "text": "hidden"}], "n": 1}'


def asked(tmp_path, agent, *, cases=CASES, answer="{}", **headers):
    """The requests that a run of a suite with this agent sends, its first attempt, and the run."""
    got = []

    def reply(handler, body):
        got.append((handler.command, handler.path, handler.headers, body))
        handler.reply(200, answer, **headers)

    with serving(reply) as server:
        agent = {"url": server.url, **agent} if isinstance(agent, dict) else server.url
        suite = {"name": "s", "cases": cases, "metrics": ["time"], "agent": agent}
        run = tv.evaluate(suite, store=Store(str(tmp_path / "s.db")))
    return got, next(run.attempts()), run


def sent(tmp_path, body, **given):
    return json.loads(asked(tmp_path, {"body": body}, **given)[0][0][3])


def test_the_agent_of_a_suite_is_asked_as_one_that_is_named(tmp_path):
    ((method, path, _, body),), attempt, run = asked(tmp_path, "plain", answer='{"answer": "A"}')
    assert (method, path, attempt.output) == ("POST", "/agent", "A")
    assert json.loads(body).keys() == {"input", "case", "repeat", "seed"}
    assert run.record.settings.agent == run.provenance.agent


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_method_and_headers_are_those_of_the_suite(tmp_path, method):
    agent = {"method": method, "headers": {"X-Team": "nlp", "content-type": "application/x+json"}}
    ((found, _, headers, _),), _, _ = asked(tmp_path, agent)
    assert (found, headers["X-Team"], headers.get_all("Content-Type")) == (
        method,
        "nlp",
        ["application/x+json"],
    )


def test_get_sends_the_fields_of_the_body_as_query_parameters(tmp_path):
    ((method, path, _, body),), _, _ = asked(tmp_path, {"method": "GET", "body": {"q": "{input}", "n": 2}})
    assert (method, parse_qs(urlsplit(path).query), body) == ("GET", {"q": ['{"q":"é"}'], "n": ["2"]}, b"")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"a": ["{input}", 1, None]}, {"a": [{"q": "é"}, 1, None]}),
        ("{repeat}", 0),
        ("Q: {input} ({case}, {repeat}; {else})", 'Q: {"q":"é"} (c, 0; {else})'),
        ({"messages": "{messages}"}, {"messages": [{"role": "user", "content": '{"q":"é"}'}]}),
    ],
)
def test_a_body_is_filled_in(tmp_path, body, expected):
    assert sent(tmp_path, body) == expected


def test_what_is_filled_in_is_not_filled_in_again(tmp_path):
    assert sent(tmp_path, "<{input}>", cases=[{"id": "c", "input": "{case}"}]) == "<{case}>"


def test_messages_of_a_case_are_sent_as_they_are(tmp_path):
    talk = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for held in (talk, {"messages": talk}):
        assert sent(tmp_path, "{messages}", cases=[{"id": "c", "input": held}]) == talk


def test_the_output_is_at_the_path(tmp_path):
    answer = {"choices": [{"message": {"content": "no"}}, {"message": {"content": [1]}}], "model": "m"}
    agent = {"output": "choices[-1].message.content"}
    _, attempt, _ = asked(tmp_path, agent, answer=json.dumps(answer), Content_Type="text/plain")
    assert (attempt.output, attempt.metadata) == ([1], {"model": "m"})


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("choices[0].message.content", "choices[0] is an object with the keys finish_reason, text"),
        ("choices[1].text", "choices is a list of 1"),
        ("choices[0].text.x", "choices[0].text is a text"),
        ("[0]", "it is an object with the keys choices, n"),
        ("n.x", "n is a number"),
    ],
)
def test_of_an_answer_without_the_path_the_keys_are_named_and_no_values(tmp_path, path, why):
    _, attempt, _ = asked(tmp_path, {"output": path}, answer=BROKEN)
    assert attempt.error == f"the answer has nothing at {path}: {why}"


def test_a_secret_comes_from_the_environment_and_is_kept_nowhere(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("AGENT_AUTH", TOKEN)
    caplog.set_level("DEBUG")
    heard = []

    def refuse(handler, body):
        heard.append((handler.headers["Authorization"], handler.path))
        handler.reply(401, f"{handler.headers['Authorization']} is unknown")

    with serving(refuse) as server:
        agent = {"url": f"{server.url}/${{AGENT_AUTH}}", "headers": {"Authorization": "Bearer ${AGENT_AUTH}"}}
        suite = Suite.from_dict({"cases": CASES, "metrics": ["time"], "agent": agent})
        run = tv.evaluate(suite, store=Store(str(tmp_path / "s.db")))
        assert heard == [(f"Bearer {TOKEN}", f"/agent/{TOKEN}")]
        run.store.close()
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert (TOKEN.encode() in held, b"AGENT_AUTH" in held) == (False, True)
    assert run.record.settings.agent.headers == {"Authorization": "[masked]"}
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("trivium")]
    assert not [line for line in ours if TOKEN in line]


def test_a_variable_that_is_not_set_is_named_before_anything_is_asked(tmp_path):
    agent = {"url": "http://127.0.0.1:9/", "headers": {"X-Key": "${NO_SUCH_KEY}"}}
    with pytest.raises(InputError, match="NO_SUCH_KEY is not set, which agent names"):
        tv.evaluate({"cases": CASES, "agent": agent}, store=str(tmp_path / "s.db"))


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (
            {"headers": {"Authorization": f"Bearer {TOKEN}"}},
            r"headers.Authorization: holds a secret: write \${NAME}",
        ),
        ({"headers": {"X Y": "z"}}, "is not a valid name of a header"),
        ({"headers": {"X": "é"}}, "a character that a header cannot have"),
        ({"url": "https://h/?api_key=abcdef123"}, r"agent.url: holds a secret: write \${NAME}"),
        ({"url": "ftp://h/"}, "agent.url: is no address"),
        ({"body": {"api_key": "sk-proj-0123456789abcdefghijklmnop"}}, "agent.body: holds a secret"),
        (
            {"method": "GET", "body": [1]},
            "agent.body: found a list of 1, expected a mapping of query parameters",
        ),
        ({"method": "DELETE"}, "agent.method: found"),
        ({"output": "a..b"}, 'agent.output: found the text "a..b", expected a path'),
        ({"ouput": "a"}, 'Did you mean "output"?'),
    ],
)
def test_mistakes_are_named_with_the_way_out(agent, message):
    with pytest.raises(SuiteError, match=message):
        Suite.from_dict({"cases": CASES, "agent": {"url": "https://h/", **agent}})


def test_a_run_without_agent_goes_on_and_a_suite_without_one_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with answering('{"answer": "A"}') as server:
        (tmp_path / "s.json").write_text(
            json.dumps(
                {"cases": CASES, "metrics": ["time"], "agent": {"url": server.url, "output": "answer"}}
            )
        )
        assert run_command(["run", "s.json", "--quiet"]) == 0
        assert run_command(["run", "s.json", "--agent", server.url, "--quiet"]) == 0
    (tmp_path / "t.json").write_text(json.dumps({"cases": CASES}))
    assert run_command(["run", "t.json"]) == 2
    assert "the suite names no agent (agent: …) either" in capsys.readouterr().err
    outputs = [{"case": "c", "output": "x"}]
    run = tv.evaluate("s.json", outputs=outputs, store=str(tmp_path / "o.db"))
    assert run.record.settings.agent is None
