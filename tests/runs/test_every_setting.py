"""Every key of a suite file changes something that a user can see."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import trivium as tv
from trivium.store.export.tables import score_rows
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

AGENT_KEYS = {
    # Bounds on asking: shown with agents that meet them, in tests/agents.
    "limits.seconds",
    "limits.output_bytes",
    "limits.attempts_at_once",
    "limits.retries",
    "repeats",
    "seed",
}
ELSEWHERE = {
    "agent",
    "decide",
    "judge",
    "margin",
    "monitor",
    "retrieval",
    "success.unless",
    "until_decided",
    "user",
    "world",
}
"""Shown in tests/agents/adapters/test_http_requests.py, tests/runs/comparing/test_policies.py,
tests/metrics/judge (success.unless too), tests/runs/comparing, tests/monitor,
tests/metrics/text/test_retrieval.py, tests/runs/test_until_decided.py,
tests/metrics/judge/test_user_models.py and tests/agents/worlds."""

CHANGES: list[dict[str, Any]] = [
    {"metrics": ["jaccard"]},
    {"references": "mean"},
    {"group": "venue"},
    {"reduce": "best"},
    {"failed_attempts": "skip"},
    {"encoder": "nowhere/to-be-found"},
    {"similarity": {"jaccard": 1}},
    {"success": {"metric": "jaccard", "at_least": 0.8}},
    {"success": {"metric": "similarity", "at_least": 0.1}},
    {"success": {"exact": True}},
    {"success": {"contains": "any"}},
    {"success": {"contains": "all", "ignore_case": False}},
    {"success": {"number": 0}},
    {"success": {"regex": "sound"}},
    {"success": {"predicate": "tests.runs.test_every_setting:never"}},
    {"success": {"reward": 0.5}},
    {"success": {"state": True}},
    {"success": {"turns": True}},
    {"pass": {"metric": "cosine", "at_least": 0.1}},
    {"pass": {"metric": "cosine", "at_least": 0.9}},
    {"tools": {"read_only": ["write"]}},
    {"tools": {"ignore": ["search"]}},
    {"tools": {"match": "ordered"}},
    {"tools": {"by": "agent"}},
    {"messages": {"coordination": []}},
    {"messages": {"productive": []}},
    {"composite": {"weights": {"cosine": 1}}},
    {"composite": {"missing": "zero"}},
    {"composite": {"min_coverage": 0.99}},
    {"composite": {"thresholds": {"accept": 0.59, "weak_accept": 0.59}}},
    {"composite": {"thresholds": {"weak_accept": 0.41}}},
    {"composite": {"thresholds": {"weak_reject": 0.01}}},
    {"gates": {"cosine": {"at_least": 0.2}}},
    {"gates": {"cosine": {"at_most": 0.2}}},
    {"gates": {"success": {"at_least": 0.9, "missing": "ignore"}}},
    {"level": 0.5},
    {"resamples": 3},
]


def never(case, attempt) -> bool:
    return False


def trace(*tools: str) -> dict:
    spans = [
        {"id": "m", "kind": "agent", "name": "manager", "start": 0.0, "end": 9.0},
        {"id": "w", "parent": "m", "kind": "agent", "name": "worker", "start": 1.0, "end": 8.0},
    ]
    for i, name in enumerate(tools):
        at = {"start": 1.0 + i, "end": 1.5 + i}
        spans.append({"id": f"t{i}", "parent": "mw"[i % 2], "kind": "tool", "name": name, **at})
    messages = [
        {"sender": "manager", "receiver": "worker", "type": "task_request"},
        {"sender": "worker", "receiver": "manager", "type": "handoff"},
    ]
    return {"trace_id": "t", "spans": spans, "messages": messages}


CASES = [
    {
        "id": f"c{i}",
        "input": "q",
        "references": ["the method is sound and the data small", f"nothing but praise {i}"],
        "expect": {"tools": [{"name": "search"}, {"name": "write"}], "output": "exactly this"},
        "metadata": {"venue": "ab"[i % 2]},
    }
    for i in range(4)
]
TEXTS = ["the method is sound", "nothing but praise", "the data is small", "exactly this"]
OUTPUTS = [
    {
        "case": f"c{i}",
        "repeat": repeat,
        "output": f"{TEXTS[(i + repeat) % 4]} {'again ' * repeat}".strip(),
        "seconds": 2.0 + i,
        "reward": float(repeat == 0),
        "trace": trace(*(["write", "search", "read"] if repeat else ["search", "write"])),
    }
    for i in range(4)
    for repeat in range(2)
] + [{"case": "c0", "repeat": 2, "error": "fell over"}]


def seen(folder, **keys) -> str:
    """All that a user gets to see of a run with these settings."""
    (folder / "outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in OUTPUTS))
    raw = {"name": "s", "cases": CASES, "similarity": {"cosine": 1, "jaccard": 1}} | keys
    suite = Suite.from_dict(raw)
    with Store(str(folder / f"{len(list(folder.iterdir()))}.db")) as store:
        run = tv.evaluate(suite, outputs=folder / "outputs.jsonl", store=store)
        summary = msgspec.to_builtins(run.summary()) | {"run": ""}
        summary["metadata"]["agent"] = ""  # the path of the outputs, another one in each test
        return json.dumps([summary, list(score_rows(store, run.record, stable=True))], default=str)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory) -> str:
    return seen(tmp_path_factory.mktemp("unchanged"))


@pytest.mark.parametrize("change", CHANGES, ids=json.dumps)
def test_a_key_changes_what_is_seen(tmp_path, unchanged, change):
    if "encoder" in change:
        change = change | {"similarity": {"semantic": 1, "jaccard": 1}}
    if change.get("composite", {}).get("missing"):
        change = {"composite": change["composite"] | {"weights": {"cosine": 1, "planning_rationality": 1}}}
        assert seen(tmp_path, **change) != seen(
            tmp_path, composite={"weights": change["composite"]["weights"]}
        )
    if "resamples" in change:
        bars = {"thresholds": {"accept": 0.5, "weak_accept": 0.35, "weak_reject": 0.3}}
        assert seen(tmp_path, composite=bars, **change) != seen(tmp_path, composite=bars)
        return
    assert seen(tmp_path, **change) != unchanged


def test_the_same_settings_show_the_same(tmp_path, unchanged):
    assert seen(tmp_path) == unchanged


def test_a_match_by_arguments_looks_at_them(tmp_path):
    cases = [case | {"expect": {"tools": [{"name": "search", "arguments": {"q": 1}}]}} for case in CASES]
    names, arguments = (seen(tmp_path, cases=cases, tools={"match": how}) for how in ("names", "arguments"))
    assert names != arguments


def test_this_table_holds_every_key():
    covered = {path for change in CHANGES for path in _paths(change)} | AGENT_KEYS | ELSEWHERE
    assert _keys(Settings) - covered == set(), "add a change to CHANGES that shows what each does"


def _paths(change: dict[str, Any]) -> Iterator[str]:
    for key, value in change.items():
        yield key
        if isinstance(value, dict):
            yield from (f"{key}.{rest}" for rest in _paths(value))


def _keys(record: type, prefix: str = "") -> set[str]:
    keys: set[str] = set()
    for field in msgspec.structs.fields(record):
        kinds = [
            kind for kind in _kinds(field.type) if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        ]
        name = prefix + field.encode_name
        if kinds and field.encode_name not in ELSEWHERE:
            keys |= _keys(kinds[0], f"{name}.")
        else:
            keys.add(name)
    return keys


def _kinds(annotation: Any) -> list[Any]:
    return (
        [annotation, *getattr(annotation, "__args__", ())] if not str(annotation).startswith("dict") else []
    )
