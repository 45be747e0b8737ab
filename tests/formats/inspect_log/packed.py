"""Logs packed by hand, for what no real one has."""

import json
import zipfile

import trivium as tv
from trivium.agents.recorded import open_recorded

HEADER = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m", "created": "2026-01-01"}}


def sample(**fields):
    return {"id": "a", "epoch": 1, "input": "?", "target": "x"} | fields


def pack(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as packed:
        for name, value in members.items():
            packed.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def log_of(path, *samples, **header):
    return pack(
        path, {"header.json": HEADER | header} | {f"samples/{n}.json": s for n, s in enumerate(samples)}
    )


def attempts(path):
    suite = tv.Suite.load(f"inspect:{path}")
    return suite, [attempt for _, attempt in open_recorded(f"inspect:{path}", suite)]
