"""Evaluates twice at a time into a store that others write too: python many_writers.py URL NAME."""

import sys
from concurrent.futures import ThreadPoolExecutor

import trivium as tv

CASES, ASKED = 90, 40


def cases() -> list[dict]:
    return [
        {"id": str(index), "input": f"q{index}", "references": [f"the answer {index}"]}
        for index in range(CASES)
    ]


def recorded(url: str, name: str) -> str:
    outputs = [{"case": str(index), "output": f"the answer {name} {index}"} for index in range(CASES)]
    return tv.evaluate(cases(), outputs=outputs, metrics=["jaccard"], store=url).id


def asked(url: str, name: str) -> str:
    return tv.evaluate(
        cases()[:ASKED],
        agent=lambda question: f"the answer {name} {question[1:]}",
        metrics=["jaccard"],
        store=url,
    ).id


if __name__ == "__main__":
    _, url, name = sys.argv
    sys.stdin.readline()  # all begin together
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(work, url, name) for work in (recorded, asked)]
        print(*(run.result() for run in runs))
