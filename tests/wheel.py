"""Tries out a wheel as a user does who has nothing else; ``make dist`` runs it without the checkout.

    PYTHON tests/wheel.py README.md

It runs the Python of README.md, checks what it prints, runs the commands of a first suite, and opens
the pages. Only Python's own library is imported here: Trivium runs in subprocesses, in an empty folder.
"""

import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

TRIVIUM = str(Path(sys.executable).with_name("trivium"))


def run(*command: str, folder: Path) -> str:
    """Run a command; what it prints. Ends this script if the command fails."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def lacking(expected: str, printed: str) -> list[str]:
    """The lines of a text of README.md, between its ellipses, that were not printed."""
    parts = [part.strip() for line in expected.splitlines() for part in line.split("…")]
    return [part for part in parts if part and part not in printed]


def main(readme: Path) -> None:
    """Do what README.md shows, in an empty folder."""
    blocks = re.findall(r"```(python|text)\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    code = "".join(text for kind, text in blocks if kind == "python")
    expected = "".join(text for kind, text in blocks if kind == "text")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        from_wheel = run(sys.executable, "-I", "-c", "import trivium; print(trivium.__file__)", folder=folder)
        if not Path(from_wheel.strip()).is_relative_to(sys.prefix):
            sys.exit(f"this is not the wheel: {from_wheel}")
        folder.joinpath("five_lines.py").write_text(code, encoding="utf-8")
        printed = run(sys.executable, "five_lines.py", folder=folder)
        if absent := lacking(expected, printed):
            sys.exit(f"README.md shows lines that were not printed: {absent}\n{printed}")
        started = run(TRIVIUM, "init", "first", "--yes", folder=folder)
        following = started.rpartition("Next:\n  trivium ")[2].split()
        run(TRIVIUM, *following, "--html", "report.html", folder=folder)
        run(TRIVIUM, *following, folder=folder)
        run(TRIVIUM, "compare", folder=folder)
        see_the_pages(folder)
    print("the wheel does what README.md says: Python, init, run, compare, view")


def see_the_pages(folder: Path) -> None:
    """Ask ``trivium view`` for the list of runs."""
    command = [TRIVIUM, "view", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, bufsize=1) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            with urllib.request.urlopen(address, timeout=60) as answer:
                page = answer.read().decode()
        finally:
            server.terminate()
    if "first" not in page:
        sys.exit(f"{address} does not list the runs:\n{page}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
