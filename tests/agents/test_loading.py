import sys

import pytest

from tests.agents.asked import asked
from trivium.agents.adapters.command import CommandAgent
from trivium.agents.adapters.function import FunctionAgent
from trivium.agents.adapters.http import EndpointAgent
from trivium.agents.loading import load_agent
from trivium.errors import AgentError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with agents in it; nothing of them stays imported."""
    (tmp_path / "reviewers").mkdir()
    (tmp_path / "reviewers" / "__init__.py").write_text("")
    (tmp_path / "reviewers" / "simple.py").write_text(
        "class Reviewers:\n    @staticmethod\n    def kind(question): return f'kind {question}'\n"
        "def write_review(question): return f'review of {question}'\n"
        "LIMIT = 3\n"
    )
    (tmp_path / "script.py").write_text(
        "import beside\ndef write_review(question): return beside.PREFIX + question\n"
    )
    (tmp_path / "beside.py").write_text("PREFIX = 'beside '\n")
    (tmp_path / "needs_more.py").write_text("import a_module_nobody_has\n")
    (tmp_path / "broken.py").write_text("def write_review(question)\n    return 1\n")
    (tmp_path / "raises.py").write_text("\n\nraise RuntimeError('no key sk-abcdefgh12345678')\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit('bye')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"reviewers", "beside"} or name.startswith("trivium_agent_"):
            del sys.modules[name]


def test_a_function_is_found_from_the_working_folder(folder):
    assert asked("reviewers.simple:write_review", input="x").output == "review of x"
    assert load_agent("reviewers.simple:write_review").name == "reviewers.simple:write_review"


def test_a_name_may_have_dots(folder):
    assert asked("reviewers.simple:Reviewers.kind", input="x").output == "kind x"


def test_a_file_is_a_place_too_and_finds_what_lies_beside_it(folder):
    assert asked("script.py:write_review", input="x").output == "beside x"
    assert asked(f"{folder / 'script.py'}:write_review", input="x").output == "beside x"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("reviewers", 'names no agent; expected "package.module:name", "file.py:name"'),
        ("reviewers.simple:", "names no agent"),
        (":name", "names no agent"),
        ("reviewers/plain:write_review", '"reviewers/plain" is no module name'),
        (
            "reviewrs.simple:x",
            'there is no module "reviewrs" here or in this Python. Did you mean "reviewers"?',
        ),
        (
            "reviewers.simpel:x",
            'there is no module "reviewers.simpel" here or in this Python. Did you mean "simple"?',
        ),
        (
            "reviewers.simple:write_reveiw",
            'reviewers.simple has no "write_reveiw". Did you mean "write_review"?',
        ),
        ("reviewers.simple:Reviewers.knid", 'Reviewers has no "knid". Did you mean "kind"?'),
        ("reviewers.simple:LIMIT", "is an int, which cannot be called; expected a function, or an agent"),
        ("script.py:write_reveiw", 'script.py has no "write_reveiw". Did you mean "write_review"?'),
        ("scripts.py:write_review", 'there is no file scripts.py. Did you mean "script.py"?'),
        ("needs_more:x", "importing needs_more failed (needs_more.py, line 1): ModuleNotFoundError"),
        ("broken:write_review", "importing broken failed: SyntaxError"),
        ("broken.py:write_review", "importing broken.py failed: SyntaxError"),
        ("raises:x", "importing raises failed (raises.py, line 3): RuntimeError: no key [masked]"),
        ("raises.py:x", "importing raises.py failed (raises.py, line 3): RuntimeError"),
        ("leaves:x", "importing leaves failed (leaves.py, line 2): SystemExit: bye"),
    ],
)
def test_an_agent_that_cannot_be_loaded_says_why(folder, spec, says):
    with pytest.raises(AgentError) as caught:
        load_agent(spec)
    assert str(caught.value).startswith(f"{spec}: {says}")


def test_every_kind_of_agent_has_its_adapter():
    assert isinstance(load_agent("http://127.0.0.1:1/x"), EndpointAgent)
    assert isinstance(load_agent("HTTPS://host.example/x"), EndpointAgent)
    assert isinstance(load_agent("cmd:cat -u"), CommandAgent)
    assert isinstance(load_agent(["cat", "-u"]), CommandAgent)
    assert isinstance(load_agent(str.upper), FunctionAgent)


def test_an_adapter_of_one_s_own_is_taken_as_it_is():
    class Mine:
        name = "mine"

        async def call(self, request):
            raise NotImplementedError

        async def close(self):
            pass

    mine = Mine()
    assert load_agent(mine) is mine


@pytest.mark.parametrize("spec", [3, None, [], ["cat", 3]])
def test_what_is_no_agent_is_refused(spec):
    with pytest.raises(AgentError):
        load_agent(spec)


def test_functions_carry_their_own_name():
    def write_review(question):
        return question

    assert load_agent(write_review).name.endswith("write_review")


class Crew:
    def kickoff(self, question):
        return f"the crew on {question}"


class Graph:
    async def ainvoke(self, question):
        return f"the graph on {question}"

    def invoke(self, question):
        raise AssertionError("the coroutine is preferred")


class Runner:
    def run(self, question, case):
        return f"{case.id} on {question}"


@pytest.mark.parametrize(
    ("agent", "output"), [(Crew(), "the crew on x"), (Graph(), "the graph on x"), (Runner(), "c1 on x")]
)
def test_an_agent_that_is_not_callable_is_run_by_its_method(agent, output):
    assert asked(agent, input="x").output == output
