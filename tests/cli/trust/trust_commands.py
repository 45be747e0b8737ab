"""Runs trust commands, and writes items for them."""

import json
import random
from pathlib import Path

from trivium.cli.main import run_command


def run_trust(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run_command(["trust", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys, *arguments: str) -> dict:
    code, out, err = run_trust(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def items(groups: int = 40, name: str = "items.jsonl", **keys) -> str:
    draw = random.Random(1)
    lines = []
    for group in range(groups):
        sure = draw.random()
        right = draw.random() < 0.5 + min(0.5, sure)
        truth = draw.choice([0, 1])
        line = {"group": f"g{group}", "item": "x", "pred": truth if right else 1 - truth, "gt": truth}
        lines.append(json.dumps(line | {"confidence": round(sure, 3)} | keys))
    Path(name).write_text("\n".join(lines) + "\n")
    return name
