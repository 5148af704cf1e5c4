"""Measure the size of an installation: `python -m benchmarks.footprint [--extra local]`.

Installs this project and its dependencies with pip into an empty folder and adds up the size of all files, including
byte code. pip itself is not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_MB = 200


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def installed(folder: Path, extra: str) -> dict[str, float]:
    """Return the size of each package in megabytes, largest first."""
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--compile"]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([*command, *constraints, "--target", str(folder), what], check=True)
    parts = {path.name: size(path) if path.is_dir() else path.stat().st_size for path in folder.iterdir()}
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return {name: round(taken / 1e6, 1) for name, taken in ordered}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", default="local", help="the extra to install; empty for none")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="footprint-") as folder:
        parts = installed(Path(folder), args.extra)
        total = size(Path(folder)) / 1e6
    holds = total <= MOST_MB
    if args.json:
        print(
            json.dumps({"total_mb": round(total, 1), "most_mb": MOST_MB, "holds": holds, "parts_mb": parts}, indent=2)
        )
    else:
        for name, taken in list(parts.items())[:12]:
            print(f"{taken:8.1f} MB  {name}")
        print(f"{total:8.1f} MB  in total; limit {MOST_MB} MB: {'met' if holds else 'NOT MET'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
