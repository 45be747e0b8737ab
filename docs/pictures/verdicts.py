"""Draws the pictures of docs/trust.md from real verdicts, with the tool itself.

    python docs/pictures/verdicts.py PAPER_VERDICTS.jsonl

Each line of the file is a language model's verdict on a paper, with its own stated confidence and the real
decision: {"model", "prompt", "paper_id", "prediction", "confidence", "ground_truth"}.
"""

import json
import sys
import tempfile
from pathlib import Path

from trivium.cli.main import run_command

HERE = Path(__file__).parent

RUNS = {
    "judge-a": ("deepseek-v3.2", "zero_shot/neutral/with_reviews/set226"),
    "judge-a without reviews": ("deepseek-v3.2", "zero_shot/neutral/no_reviews/set226"),
    "judge-b": ("llama-3.3-70b-instruct", "zero_shot/neutral/no_reviews/set226"),
}


def main(verdicts: Path) -> None:
    """Write the items of a few runs, and draw them."""
    rows = [json.loads(line) for line in verdicts.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.jsonl" for name in RUNS}
        for name, run in RUNS.items():
            items = [_item(row) for row in rows if (row["model"], row["prompt"]) == run]
            files[name].write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        for name in ("judge-a", "judge-b"):
            _draw(f"{name}.svg", str(files[name]))
        pair = [part for name in reversed(list(files)[:2]) for part in ("--input", str(files[name]))]
        _draw("two-prompts.svg", *pair)
        for file in files.values():
            run_command(["trust", "agree", str(file)])
            run_command(["trust", "certify", str(file), "--epsilon", "0.2"])


def _item(row: dict) -> dict:
    return {
        "group": row["paper_id"],
        "item": "accept",
        "pred": int(row["prediction"] == "ACCEPT"),
        "gt": int(row["ground_truth"] == "ACCEPT"),
        "confidence": row["confidence"],
    }


def _draw(name: str, *arguments: str) -> None:
    run_command(["trust", "curve", *arguments, "--range", "0:1", "--chart", str(HERE / name)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
