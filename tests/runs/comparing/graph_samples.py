"""Two runs with known traces: head searches twice, reads nothing and is slower."""

import json
from pathlib import Path

import trivium as tv
from trivium.store.store import Store
from trivium.suites.settings import Settings

CASES = 20


def spans(names, *, took=1.0):
    made = [{"id": "m", "kind": "agent", "name": "boss", "start": 0.0, "end": took * (len(names) + 1)}]
    return made + [
        {"id": str(i), "parent": "m", "kind": "tool", "name": name, "start": took * i, "end": took * (i + 1)}
        for i, name in enumerate(names)
    ]


def handoffs(*pairs):
    return [{"sender": pair[0], "receiver": pair[1], "type": "handoff"} for pair in pairs]


def outputs(path: Path, traces, *, repeats=1) -> Path:
    """A file of outputs: for each case (and repeat) its trace, or None."""
    lines = [
        {"case": f"q{place // repeats}", "repeat": place % repeats, "output": "x"}
        | ({} if trace is None else {"trace": trace})
        for place, trace in enumerate(traces)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run_of(store: Store, folder: Path, traces, *, repeats=1, groups=None) -> tv.Run:
    """A scored run of these traces."""
    count = len(traces) // repeats
    cases = [
        tv.Case(id=f"q{i}", input="?", references=("x",), group=groups[i] if groups else None)
        for i in range(count)
    ]
    suite = tv.Suite(name="s", cases=cases, settings=Settings(metrics=("jaccard",), repeats=repeats))
    return tv.evaluate(
        suite, outputs=str(outputs(folder / "outputs.jsonl", traces, repeats=repeats)), store=store
    )


def before_and_after(store: Store, folder: Path) -> tuple[tv.Run, tv.Run]:
    """The two runs."""
    before = [{"spans": spans(["search", "read"]), "messages": handoffs("ab")} for _ in range(CASES)]
    after = [
        {"spans": spans(["search", "search"], took=1.5), "messages": handoffs("ab", "ba")}
        for _ in range(CASES)
    ]
    return run_of(store, folder, before), run_of(store, folder, after)
