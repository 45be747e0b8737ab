"""A worker that is lost by chance: its part is scored again as a whole, so that judges are asked together."""

import os
from pathlib import Path

import pytest

import trivium as tv
from trivium.metrics.metric import Metric, Score
from trivium.metrics.registry import REGISTERED, metric

PLACE = "TRIVIUM_TEST_PLACE"


@metric("unlucky")
class Unlucky(Metric):
    """Notes how many attempts it gets at once, and ends its process the first time."""

    def score_many(self, metric_inputs: list) -> list[Score]:
        place = Path(os.environ[PLACE])
        with (place / "sizes").open("a") as sizes:
            sizes.write(f"{len(metric_inputs)}\n")
        try:
            (place / "ended").touch(exist_ok=False)
        except FileExistsError:
            return [self.ok(1.0) for _ in metric_inputs]
        os._exit(9)


del REGISTERED["unlucky"]  # suites of other tests that name no metrics are scored by all that there are


def test_a_part_whose_worker_is_lost_by_chance_is_scored_again_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path))
    cases = [{"id": str(n), "input": "2 + 2?", "references": ["4"]} for n in range(300)]
    own = {"name": "lost", "cases": cases, "metrics": [f"{__name__}:Unlucky"]}
    given = [{"case": str(n), "output": "4"} for n in range(300)]
    try:
        run = tv.evaluate(tv.Suite.from_dict(own), outputs=given, store=f"{tmp_path}/one.db", workers=2)
    finally:
        REGISTERED.pop("unlucky", None)
    assert [each.scores["unlucky"].value for each in run.evaluations()] == [1.0] * 300
    assert set((tmp_path / "sizes").read_text().split()) == {"256", "44"}
