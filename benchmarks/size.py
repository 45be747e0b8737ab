"""Megabytes downloaded and installed: the core, the extras and similar tools.

    python -m benchmarks.size [--peers]

Each row is installed with its dependencies into an empty folder of its own; nothing else is changed. The
peers take several hundred megabytes and are downloaded only with ``--peers``.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("pydantic-evals", "deepeval", "inspect-ai", "ragas")


def megabytes(folder: Path) -> float:
    """Size of all files below a folder, in 10⁶ bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def measure(requirements: list[str]) -> tuple[float, float, int]:
    """MB downloaded, MB installed, and number of distributions."""
    with tempfile.TemporaryDirectory() as name:
        wheels, site = Path(name, "wheels"), Path(name, "site")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "download", "--only-binary=:all:", "-d", str(wheels), *requirements], check=True
        )
        files = [str(file) for file in wheels.iterdir()]
        subprocess.run([*pip, "install", "--no-deps", "--no-compile", "-t", str(site), *files], check=True)
        return megabytes(wheels), megabytes(site), len(files)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true", help="install the peers too")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, extras = project["dependencies"], project["optional-dependencies"]
    rows = {"trivium": core}
    rows |= {f"trivium[{extra}]": core + extras[extra] for extra in ("semantic", "report", "judge")}
    if parser.parse_args().peers:
        rows |= {peer: [peer] for peer in PEERS}
    print(f"{'install':<20}{'download MB':>12}{'installed MB':>14}{'packages':>10}")
    for name, requirements in rows.items():
        downloaded, installed, packages = measure(requirements)
        print(f"{name:<20}{downloaded:>12.0f}{installed:>14.0f}{packages:>10}", flush=True)


if __name__ == "__main__":
    main()
